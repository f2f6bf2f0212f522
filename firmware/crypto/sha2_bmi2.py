"""The compression of SHA-256 and SHA-512 (FIPS 180-4 6.2.2 and 6.4.2) with RORX and SSE2.

RORX (BMI2) copies what it turns, so that the three turns of a sigma need not wait for each other. The
integer units have enough to do with the rounds: the schedule is made beside them in vectors, sixteen
rounds ahead. A vector holds two words of SHA-512, or four of SHA-256.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from firmware.crypto.sha2 import CLOBBERS, SCHEDULE, SHA256, SHA512, Sha2
from firmware.crypto.sha2_blocks import Amounts, Rounds, declared
from firmware.layouts.crypto import BUFFER_IN
from toolchain.asm import (
    ECX,
    NZ,
    RBP,
    RSI,
    XMM0,
    XMM1,
    XMM2,
    XMM3,
    XMM4,
    XMM5,
    XMM6,
    XMM7,
    XMM8,
    XMM9,
    XMM10,
    Asm,
    mem128,
)
from toolchain.asm.stitch import stitch

if TYPE_CHECKING:
    from toolchain.asm import Xmm

VECTOR = 16
"""Bytes of a vector."""
WORDS = (XMM0, XMM1, XMM2, XMM3, XMM4, XMM5, XMM6, XMM7)
"""The last sixteen words of the schedule; SHA-256 uses the first half of them."""
MIXED, LEFT, PART = XMM8, XMM9, XMM10
WORK = (MIXED, LEFT, PART)
# Choices of PSHUFLW, PSHUFHW, PSHUFD and SHUFPD, the lowest word's in the lowest bits.
SWAP_PAIRS, REVERSE_FOUR = 0xB1, 0x1B
NEXT_OF_FOUR, NEXT_OF_TWO = 0x39, 0x01
LAST_TWICE, FIRST_TWICE = 0xFA, 0x50
TO_HIGH, TO_LOW = 0x80, 0x08


class _RorxRounds(Rounds):
    """Rounds whose words, constants added, lie in the locals."""

    def take(self, into: Any, n: int) -> None:  # noqa: ANN401 - Reg32 or Reg64
        self.a.add(into, self.schedule(n))

    def turned(self, into: Any, value: Any, amounts: Amounts, spare: Any) -> None:  # noqa: ANN401
        first, second, third = amounts
        self.a.rorx(into, value, first)
        self.a.rorx(spare, value, second)
        self.a.xor(into, spare)
        self.a.rorx(spare, value, third)
        self.a.xor(into, spare)

    def turns(self, n: int) -> None:
        """Do the rounds of vector `n`."""
        together = VECTOR // self.kind.word
        for m in range(together):  # unrolled: the vector's words
            self.turn(together * n + m)


class _Schedule:
    """The schedule in vectors, as many words each as go into one."""

    def __init__(self, a: Asm, kind: Sha2) -> None:
        self.a, self.kind = a, kind
        self.words = WORDS[: kind.block // VECTOR]
        if kind.word == 8:
            self.left, self.right, self.add = a.psllq, a.psrlq, a.paddq
        else:
            self.left, self.right, self.add = a.pslld, a.psrld, a.paddd

    def load(self, n: int) -> None:
        """Take vector `n` of the block at RSI."""
        a, into = self.a, self.words[n]
        a.movdqu(into, mem128(RSI, VECTOR * n, ref=BUFFER_IN))
        # The bytes of each half word, then the half words of each word.
        a.movdqa(PART, into)
        a.psllw(into, 8)
        a.psrlw(PART, 8)
        a.por(into, PART)
        order = REVERSE_FOUR if self.kind.word == 8 else SWAP_PAIRS
        a.pshuflw(into, into, order)
        a.pshufhw(into, into, order)

    def keep(self, n: int, ahead: int) -> None:
        """Lay vector `n` down for its rounds, with the constants `ahead` words from here."""
        at = self.kind.word * ahead + VECTOR * n
        self.a.movdqa(PART, self.words[n])
        self.add(PART, mem128(RBP, at, ref=self.kind.constants))
        self.a.movdqu(self.a.local(VECTOR, VECTOR * n), PART)

    def following(self, n: int) -> None:
        """MIXED := the words that begin one behind the first of vector `n`."""
        a, one, other = self.a, *(self.words[(n + m) % len(self.words)] for m in (0, 1))
        a.movdqa(MIXED, one)
        if self.kind.word == 8:
            a.shufpd(MIXED, other, NEXT_OF_TWO)
        else:
            a.movss(MIXED, other)
            a.pshufd(MIXED, MIXED, NEXT_OF_FOUR)

    def mix(self, amounts: Amounts) -> None:
        """MIXED := the small sigma of each of its words."""
        a, bits = self.a, 8 * self.kind.word
        turns, shifts = sorted(bits - n for n in amounts[:2]), sorted(amounts)
        a.movdqa(LEFT, MIXED)
        self.left(LEFT, turns[0])
        a.movdqa(PART, LEFT)
        self.left(PART, turns[1] - turns[0])
        a.pxor(LEFT, PART)
        self.right(MIXED, shifts[0])
        a.movdqa(PART, MIXED)
        self.right(PART, shifts[1] - shifts[0])
        a.pxor(MIXED, PART)
        self.right(PART, shifts[2] - shifts[1])
        a.pxor(MIXED, PART)
        a.pxor(MIXED, LEFT)

    def mix_two(self, source: Xmm, choice: int, back: int) -> None:
        """MIXED := the small sigma 1 of two words of a vector, in the lowest of each half.

        A word stands twice in its half, so that a shift of all the half turns it.
        """
        a, (first, second, shift) = self.a, self.kind.mixes[1]
        a.pshufd(MIXED, source, choice)
        a.movdqa(PART, MIXED)
        a.psrld(MIXED, shift)
        a.psrlq(PART, first)
        a.pxor(MIXED, PART)
        a.psrlq(PART, second - first)
        a.pxor(MIXED, PART)
        a.pshufd(MIXED, MIXED, back)

    def extend(self, n: int) -> None:
        """Make vector `n` from the words 16, 15, 7 and 2 rounds before each."""
        a, target, last = self.a, self.words[n], self.words[n - 1]
        self.following(n)
        self.mix(self.kind.mixes[0])
        self.add(target, MIXED)
        self.following((n + len(self.words) // 2) % len(self.words))
        self.add(target, MIXED)
        if self.kind.word == 8:
            a.movdqa(MIXED, last)
            self.mix(self.kind.mixes[1])
            self.add(target, MIXED)
            return
        # The last two words want the first two.
        self.mix_two(last, LAST_TWICE, TO_HIGH)
        a.psrldq(MIXED, 8)
        self.add(target, MIXED)
        self.mix_two(target, FIRST_TWICE, TO_LOW)
        a.pslldq(MIXED, 8)
        self.add(target, MIXED)


def _blocks(a: Asm, kind: Sha2) -> None:
    """Emit: mix ECX > 0 whole blocks at RSI into the hash at RDI, and leave RSI behind them."""
    rounds, schedule = _RorxRounds(a, kind), _Schedule(a, kind)
    blocks, left = a.local(4, kind.block), a.local(4, kind.block + 8)
    vectors = range(len(schedule.words))
    a.mov(blocks, ECX)
    rounds.begin()
    with a.loop() as block:
        a.lea(RBP, kind.constants.address)
        for n in vectors:  # unrolled: the block
            schedule.load(n)
            schedule.keep(n, 0)
        a.add(RSI, kind.block)
        rounds.first_difference()
        a.mov(left, kind.rounds // SCHEDULE - 1)
        with a.loop() as more:
            for n in vectors:  # unrolled: sixteen rounds, and the words for sixteen more
                stitch(a, partial(rounds.turns, n), partial(schedule.extend, n))
                schedule.keep(n, SCHEDULE)
            a.add(RBP, SCHEDULE * kind.word)
            a.dec(left)
            a.again(NZ, more)
        for n in range(SCHEDULE):  # unrolled: the last sixteen rounds
            rounds.turn(n)
        rounds.end()
        a.dec(blocks)
        a.again(NZ, block)
    rounds.wipe()
    a.ret()


sha256_blocks_bmi2 = declared(SHA256, "sha256_blocks_bmi2", _blocks, [*CLOBBERS, *WORDS[:4], *WORK])
sha512_blocks_bmi2 = declared(SHA512, "sha512_blocks_bmi2", _blocks, [*CLOBBERS, *WORDS, *WORK])
