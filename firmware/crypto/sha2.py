"""SHA-256, SHA-384 and SHA-512 from one generator (FIPS 180-4): they differ in numbers only.

The routines that these emit are declared in `sha256` and `sha512`, those that mix blocks in
`sha2_blocks`. All take the same steps for every message of a length, and leave nothing of the message
on the stack.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from firmware.layouts.crypto import (
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
    a.mov(RDI, RBX)
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
