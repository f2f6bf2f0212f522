"""SHA-256, SHA-384 and SHA-512 from one generator (FIPS 180-4): they differ in numbers only.

The routines that these emit are declared in `sha256` and `sha512`. All take the same steps for
every message of a length, and leave nothing of the message on the stack.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from firmware.layouts.crypto import (
    BUFFER_IN,
    BUFFER_OUT,
    SHA256_CONSTANTS,
    SHA256_ROUNDS,
    SHA512_CONSTANTS,
    SHA512_ROUNDS,
    Hash,
)
from toolchain.asm import (
    AE,
    EAX,
    EBP,
    ECX,
    EDX,
    NZ,
    R8,
    R9,
    R9D,
    R10,
    R11,
    R12,
    R13,
    R14,
    R15,
    RAX,
    RBP,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    A,
    Asm,
    B,
    Reg64,
    low32,
    mem32,
    mem64,
)

if TYPE_CHECKING:
    from toolchain.asm import Routine
    from toolchain.layout.data import Data

SCHEDULE = 16
"""Words of a block, and of the message schedule that is kept at a time."""
SAVES = (RBX, RBP, R12, R13, R14, R15)
CLOBBERS = (RAX, RCX, RDX, R8, R9, R10, R11)


@dataclass(frozen=True)
class Sha2:
    """What tells one SHA-2 from another.

    Attributes:
        word: Bytes of a word.
        rounds: Rounds, a multiple of 16.
        constants: The round constants.
        sums: Amounts of the big sigmas 0 and 1 (FIPS 180-4 4.1.2 and 4.1.3), growing.
        mixes: Amounts of the small sigmas; the last one shifts.
    """

    word: int
    rounds: int
    constants: Data
    sums: tuple[tuple[int, int, int], tuple[int, int, int]]
    mixes: tuple[tuple[int, int, int], tuple[int, int, int]]

    @property
    def block(self) -> int:
        """Bytes of a block."""
        return SCHEDULE * self.word

    @property
    def locals(self) -> int:
        """Bytes of stack that `emit_blocks` needs: the schedule and two counters."""
        return self.block + 16

    def reg(self, register: Reg64) -> Any:  # noqa: ANN401 - Reg32 or Reg64
        """Return the part of a register that holds a word."""
        return register if self.word == 8 else low32(register)

    def mem(self, base: Reg64, disp: int, ref: Any) -> Any:  # noqa: ANN401 - Mem32 or Mem64
        """Return a word in memory."""
        return (mem64 if self.word == 8 else mem32)(base, disp, ref=ref)

    def state(self, n: int) -> Any:  # noqa: ANN401 - Mem32 or Mem64
        """Return word `n` of the state of the hash at RDI."""
        state = Hash.at(RDI).state
        return state.m64(8 * n) if self.word == 8 else state.m32(4 * n)


SHA256 = Sha2(
    4, SHA256_ROUNDS, SHA256_CONSTANTS, ((2, 13, 22), (6, 11, 25)), ((7, 18, 3), (17, 19, 10))
)
SHA512 = Sha2(
    8, SHA512_ROUNDS, SHA512_CONSTANTS, ((28, 34, 39), (14, 18, 41)), ((1, 8, 7), (19, 61, 6))
)


class _Round:
    """The rounds of one block: who holds which variable, and where the schedule lies."""

    def __init__(self, a: Asm, kind: Sha2) -> None:
        self.a, self.kind = a, kind
        self.variables = [kind.reg(r) for r in (RAX, RBX, RCX, RDX, R8, R9, R10, R11)]
        self.word, self.x, self.y = (kind.reg(r) for r in (R12, R13, R14))
        # The b XOR c of a round, which was the a XOR b of the round before.
        self.differ = kind.reg(R15)

    def schedule(self, n: int) -> Any:  # noqa: ANN401 - Mem32 or Mem64
        """Return the schedule's word of round `n`."""
        return self.a.local(self.kind.word, n % SCHEDULE * self.kind.word)

    def turned(self, into: Any, value: Any, amounts: tuple[int, int, int]) -> None:  # noqa: ANN401
        """Set `into` to the value turned right by each of three growing amounts, together."""
        first, second, third = amounts
        self.a.mov(into, value)
        self.a.ror(into, third - second)
        self.a.xor(into, value)
        self.a.ror(into, second - first)
        self.a.xor(into, value)
        self.a.ror(into, first)

    def mixed(self, into: Any, value: Any, amounts: tuple[int, int, int]) -> None:  # noqa: ANN401
        """Set `into` to the small sigma of the value, which is lost."""
        first, second, shift = amounts
        self.a.mov(into, value)
        self.a.ror(into, second - first)
        self.a.xor(into, value)
        self.a.ror(into, first)
        self.a.shr(value, shift)
        self.a.xor(into, value)

    def load(self, n: int) -> None:
        """Take word `n` of the block at RSI."""
        self.a.mov(self.word, self.kind.mem(RSI, n * self.kind.word, BUFFER_IN))
        self.a.bswap(self.word)
        self.a.mov(self.schedule(n), self.word)

    def extend(self, n: int) -> None:
        """Make the word of round `n` from those 16, 15, 7 and 2 rounds before."""
        a = self.a
        a.mov(self.y, self.schedule(n + 1))
        a.mov(self.x, self.schedule(n + 14))
        self.mixed(self.word, self.y, self.kind.mixes[0])
        self.mixed(self.y, self.x, self.kind.mixes[1])
        a.add(self.word, self.schedule(n))
        a.add(self.word, self.schedule(n + 9))
        a.add(self.word, self.y)
        a.mov(self.schedule(n), self.word)

    def turn(self, n: int) -> None:
        """Do round `n` with its word (FIPS 180-4 6.2.2 step 3); the variables move one on."""
        a, (va, vb, _, vd, ve, vf, vg, vh) = self.a, self.variables
        a.add(vh, self.kind.mem(RBP, n * self.kind.word, self.kind.constants))
        a.add(vh, self.word)
        a.mov(self.x, vf)
        a.xor(self.x, vg)
        a.and_(self.x, ve)
        a.xor(self.x, vg)
        self.turned(self.y, ve, self.kind.sums[1])
        a.add(vh, self.x)
        a.add(vh, self.y)
        a.add(vd, vh)
        # The majority is b, unless a differs from it as c does.
        a.mov(self.word, va)
        a.xor(self.word, vb)
        a.and_(self.differ, self.word)
        a.xor(self.differ, vb)
        self.turned(self.y, va, self.kind.sums[0])
        a.add(vh, self.differ)
        a.add(vh, self.y)
        self.word, self.differ = self.differ, self.word
        self.variables = [self.variables[-1], *self.variables[:-1]]


def emit_blocks(a: Asm, kind: Sha2) -> None:
    """Emit: mix ECX > 0 whole blocks at RSI into the hash at RDI, and leave RSI behind them."""
    rounds = _Round(a, kind)
    blocks, left = a.local(4, kind.block), a.local(4, kind.block + 8)
    a.mov(blocks, ECX)
    for n, variable in enumerate(rounds.variables):  # unrolled: eight words
        a.mov(variable, kind.state(n))
    with a.loop() as block:
        a.lea(RBP, kind.constants.address)
        a.mov(rounds.differ, rounds.variables[1])
        a.xor(rounds.differ, rounds.variables[2])
        for n in range(SCHEDULE):  # unrolled: the first sixteen rounds
            rounds.load(n)
            rounds.turn(n)
        a.mov(left, kind.rounds // SCHEDULE - 1)
        with a.loop() as more:
            a.add(RBP, SCHEDULE * kind.word)
            for n in range(SCHEDULE):  # unrolled: sixteen rounds more
                rounds.extend(n)
                rounds.turn(n)
            a.dec(left)
            a.again(NZ, more)
        for n, variable in enumerate(rounds.variables):  # unrolled: eight words
            a.add(variable, kind.state(n))
            a.mov(kind.state(n), variable)
        a.add(RSI, kind.block)
        a.dec(blocks)
        a.again(NZ, block)
    # What was hashed may be a secret.
    a.xor(EAX, EAX)
    for n in range(kind.block // 8):  # unrolled: the schedule
        a.mov(a.local(8, 8 * n), RAX)
    a.ret()


def emit_start(a: Asm, initial: tuple[int, ...], word: int) -> None:
    """Emit: make the hash at RDI one of an empty message."""
    work = Hash.at(RDI)
    for n, value in enumerate(initial):  # unrolled: eight words
        if word == 8:
            a.mov(RAX, value)
            a.mov(work.state.m64(8 * n), RAX)
        else:
            a.mov(work.state.m32(4 * n), value)
    a.xor(EAX, EAX)
    a.mov(work.length, RAX)
    a.ret()


def emit_update(a: Asm, kind: Sha2, blocks: Routine) -> None:
    """Emit: append ECX bytes at RSI to the message of the hash at RDI."""
    work, left, place, taken = Hash.at(RBX), EBP, R8, R9D
    a.mov(RBX, RDI)
    a.mov(left, ECX)
    a.mov(place, work.length)
    a.add(work.length, RBP)
    a.and_(low32(place), kind.block - 1)
    with a.if_(NZ):
        # A block has begun: fill it as far as the message goes.
        a.mov(taken, kind.block)
        a.sub(taken, low32(place))
        a.cmp(taken, left)
        a.cmov(A, taken, left)
        a.sub(left, taken)
        a.mov(ECX, taken)
        a.lea(RDI, work.block.m8(index=place))
        a.rep_movsb()
        a.add(low32(place), taken)
        a.cmp(low32(place), kind.block)
        with a.if_(B):
            a.ret()
        a.mov(R12, RSI)
        _mix_block(a, work, blocks)
        a.mov(RSI, R12)
    a.mov(RDI, RBX)
    a.mov(ECX, left)
    a.shr(ECX, kind.block.bit_length() - 1)
    with a.if_(NZ):
        a.call(blocks)
    a.mov(ECX, left)
    a.and_(ECX, kind.block - 1)
    a.lea(RDI, work.block.address)
    a.rep_movsb()
    a.ret()


def emit_finish(a: Asm, kind: Sha2, blocks: Routine, digest_bytes: int) -> None:
    """Emit: pad the message of the hash at RDI, write its digest at RSI, wipe the hash."""
    work, digest = Hash.at(RBX), R12
    length_at = kind.block - 2 * kind.word
    a.mov(RBX, RDI)
    a.mov(digest, RSI)
    a.mov(RDX, work.length)
    a.and_(EDX, kind.block - 1)
    a.lea(RDI, work.block.m8(index=RDX))
    a.mov(Hash.at(RDI, -Hash.block.offset).block.m8(), 0x80)
    a.inc(RDI)
    a.mov(ECX, kind.block - 1)
    a.sub(ECX, EDX)
    a.xor(EAX, EAX)
    a.rep_stosb()
    a.cmp(EDX, length_at)
    with a.if_(AE):
        # No room for the length: it goes into a block of its own.
        _mix_block(a, work, blocks)
        a.lea(RDI, work.block.address)
        a.mov(ECX, length_at // 8)
        a.xor(EAX, EAX)
        a.rep_stosq()

    # The length in bits ends the block, big-endian, in two words.
    a.mov(RAX, work.length)
    if kind.word == 8:
        a.mov(RDX, RAX)
        a.shr(RDX, 61)
        a.bswap(RDX)
        a.mov(work.block.m64(length_at), RDX)
    a.shl(RAX, 3)
    a.bswap(RAX)
    a.mov(work.block.m64(kind.block - 8), RAX)
    _mix_block(a, work, blocks)
    word = kind.reg(RAX)
    for n in range(digest_bytes // kind.word):  # unrolled: six or eight words
        a.mov(word, kind.state(n))
        a.bswap(word)
        a.mov(kind.mem(digest, n * kind.word, BUFFER_OUT), word)
    a.mov(ECX, Hash.SIZE // 8)
    a.xor(EAX, EAX)
    a.rep_stosq()
    a.ret()


def _mix_block(a: Asm, work: Hash, blocks: Routine) -> None:
    a.mov(RDI, RBX)
    a.lea(RSI, work.block.address)
    a.mov(ECX, 1)
    a.call(blocks)
