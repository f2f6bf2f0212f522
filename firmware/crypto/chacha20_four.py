"""Four blocks of ChaCha20 side by side with SSE2: each register holds one word of all four.

Sixteen words do not fit beside what rotations need, so two of the third row wait in memory: a quarter
round of columns or diagonals needs two of them at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firmware.layouts.aead import (
    CHACHA_LANES_AT,
    CHACHA_ONE_AT,
    CHACHA_TABLE,
    ChaChaPoly,
)
from firmware.layouts.crypto import CHACHA_BLOCK_BYTES
from toolchain.asm import (
    EAX,
    NZ,
    RDI,
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
    XMM11,
    XMM12,
    XMM13,
    XMM14,
    XMM15,
    Asm,
    In,
    Xmm,
    routine,
)

if TYPE_CHECKING:
    from collections.abc import Callable

FIRST = (XMM0, XMM1, XMM2, XMM3)
SECOND = (XMM4, XMM5, XMM6, XMM7)
FOURTH = (XMM8, XMM9, XMM10, XMM11)
HELD = (XMM12, XMM13)
"""Two words of the third row: 0 and 1, or 2 and 3."""
WORK = (XMM14, XMM15)
SPILL = 64
"""Bytes of the third row, in the first locals of whoever emits rounds."""
ROW = 16
"""Bytes of a row of the matrix."""
VECTORS = (*FIRST, *SECOND, *FOURTH, *HELD, *WORK)
DOUBLE_ROUNDS = 10
SWAP_WORDS = 0xB1
Quarter = tuple[Xmm, Xmm, Xmm, Xmm, Xmm]


def _rotate(a: Asm, value: Xmm, bits: int, work: Xmm) -> None:
    if bits == 16:
        a.pshuflw(value, value, SWAP_WORDS)
        a.pshufhw(value, value, SWAP_WORDS)
        return
    a.movdqa(work, value)
    a.pslld(value, bits)
    a.psrld(work, 32 - bits)
    a.por(value, work)


def _quarters(a: Asm, *quarters: Quarter) -> None:
    """Do quarter rounds step by step together (RFC 8439 2.1); the last of each is work."""
    for bits in (16, 12, 8, 7):
        for x, y, z, v, work in quarters:
            source, sum_, turned = (y, x, v) if bits in (16, 8) else (v, z, y)
            a.paddd(sum_, source)
            a.pxor(turned, sum_)
            _rotate(a, turned, bits, work)


def _swap_held(a: Asm, old: int) -> None:
    """Put the words `old` and `old` + 1 of the third row away and take the other two."""
    for n, register in enumerate(HELD):  # unrolled: two words
        a.movdqu(a.local(16, 16 * (old + n)), register)
        a.movdqu(register, a.local(16, 16 * ((old + 2) % 4 + n)))


def double_round(a: Asm) -> None:
    """Do a round of columns and one of diagonals; words 0 and 1 of the third row are held."""

    def quarter(first: int, turn: int) -> Quarter:
        """Return the quarter round of a column, its words taken `turn` columns further each."""
        n = first % 2
        return (
            FIRST[first],
            SECOND[(first + turn) % 4],
            HELD[n],
            FOURTH[(first + 3 * turn) % 4],
            WORK[n],
        )

    _quarters(a, quarter(0, 0), quarter(1, 0))
    _swap_held(a, 0)
    _quarters(a, quarter(2, 0), quarter(3, 0))
    _quarters(a, quarter(0, 1), quarter(1, 1))
    _swap_held(a, 2)
    _quarters(a, quarter(2, 1), quarter(3, 1))


def spread(a: Asm) -> None:
    """Begin four blocks: every word of the matrix in all lanes, the counters one apart."""
    work = ChaChaPoly.at(RDI)
    lanes = (0x00, 0x55, 0xAA, 0xFF)
    for n, registers in ((0, FIRST), (1, SECOND), (3, FOURTH)):  # unrolled: three rows
        a.movdqa(WORK[0], work.matrix.m128(ROW * n))
        for register, lane in zip(registers, lanes, strict=True):
            a.pshufd(register, WORK[0], lane)
    a.paddd(FOURTH[0], CHACHA_TABLE.m128(CHACHA_LANES_AT))
    a.movdqa(WORK[0], work.matrix.m128(ROW * 2))
    for n in (2, 3):  # unrolled: the words that wait
        a.pshufd(WORK[1], WORK[0], lanes[n])
        a.movdqu(a.local(16, 16 * n), WORK[1])
    for n, register in enumerate(HELD):  # unrolled: those that are held
        a.pshufd(register, WORK[0], lanes[n])


def collect(a: Asm, sink: Callable[[int, Xmm, Xmm], None]) -> None:
    """End four blocks: give each row of each block to the sink, and count four on.

    Args:
        a: The routine.
        sink: Takes the offset in 256 bytes of key stream, the register, and one that is free.
    """
    work = ChaChaPoly.at(RDI)
    third = (*HELD, SECOND[0], SECOND[1])
    for n, registers in ((0, FIRST), (1, SECOND), (2, third), (3, FOURTH)):  # unrolled: rows
        if n == 2:
            a.movdqu(third[2], a.local(16, 32))
            a.movdqu(third[3], a.local(16, 48))
        blocks, free = _transpose(a, registers, WORK[0])
        a.movdqa(WORK[1], work.matrix.m128(ROW * n))
        for block, register in enumerate(blocks):
            a.paddd(register, WORK[1])
            if n == 3:
                a.paddd(WORK[1], CHACHA_TABLE.m128(CHACHA_ONE_AT))
            sink(CHACHA_BLOCK_BYTES * block + ROW * n, register, free)
    a.movdqa(work.matrix.m128(ROW * 3), WORK[1])


def _transpose(a: Asm, words: tuple[Xmm, ...], spare: Xmm) -> tuple[tuple[Xmm, Xmm, Xmm, Xmm], Xmm]:
    """Turn four words of four blocks into four rows, a block each; return them, and a free one."""
    x, y, z, v = words
    a.movdqa(spare, x)
    a.punpckldq(x, y)
    a.punpckhdq(spare, y)
    a.movdqa(y, z)
    a.punpckldq(z, v)
    a.punpckhdq(y, v)
    a.movdqa(v, x)
    a.punpcklqdq(x, z)
    a.punpckhqdq(v, z)
    a.movdqa(z, spare)
    a.punpcklqdq(z, y)
    a.punpckhqdq(spare, y)
    return (x, v, z, spare), y


def wipe_spill(a: Asm) -> None:
    """Leave nothing of the rounds on the stack."""
    a.pxor(WORK[0], WORK[0])
    for at in range(0, SPILL, 16):  # unrolled: four words
        a.movdqu(a.local(16, at), WORK[0])


@routine(
    inputs=[In(RDI, ChaChaPoly, "the key, with counter and nonce")],
    clobbers=[EAX, *VECTORS],
    reads=[ChaChaPoly.matrix, CHACHA_TABLE],
    writes=[ChaChaPoly.matrix, ChaChaPoly.stream],
    stack=SPILL,
    secret=[ChaChaPoly.matrix, ChaChaPoly.stream],
    source="RFC 8439 2.3",
)
def chacha20_four(a: Asm, key: ChaChaPoly) -> None:
    """Make four blocks of key stream, and count them."""
    spread(a)
    a.mov(EAX, DOUBLE_ROUNDS)
    with a.loop() as rounds:
        double_round(a)
        a.dec(EAX)
        a.again(NZ, rounds)
    collect(a, lambda at, block, _: a.movdqa(key.stream.m128(at), block))
    wipe_spill(a)
    a.ret()
