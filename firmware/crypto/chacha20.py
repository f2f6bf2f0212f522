"""The ChaCha20 block function with SSE2: four rows of the matrix in four registers."""

from firmware.layouts.crypto import BUFFER_IN, BUFFER_OUT
from toolchain.asm import (
    EAX,
    NZ,
    RDI,
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
    Asm,
    In,
    Reg64,
    Xmm,
    mem128,
    routine,
)

ROWS = (XMM0, XMM1, XMM2, XMM3)
START = (XMM4, XMM5, XMM6, XMM7)
WORK = XMM8
LEFT_1, LEFT_2, LEFT_3 = 0x39, 0x4E, 0x93
"""PSHUFD selectors that rotate a row by one, two and three lanes."""


def _rotate_lanes(a: Asm, row: Xmm, bits: int) -> None:
    a.movdqa(WORK, row)
    a.pslld(row, bits)
    a.psrld(WORK, 32 - bits)
    a.por(row, WORK)


def _quarter_rounds(a: Asm) -> None:
    """Do four quarter rounds at once, one in each lane (RFC 8439 2.1)."""
    x, y, z, v = ROWS
    for first, other, bits in ((x, v, 16), (z, y, 12), (x, v, 8), (z, y, 7)):
        a.paddd(first, y if first is x else v)
        a.pxor(other, first)
        _rotate_lanes(a, other, bits)


@routine(
    inputs=[
        In(RSI, int, "the matrix: constants, key, counter, nonce; 64 bytes"),
        In(RDI, int, "where the block goes; 64 bytes"),
    ],
    clobbers=[EAX, *ROWS, *START, WORK],
    reads=[BUFFER_IN],
    writes=[BUFFER_OUT],
    secret=[BUFFER_IN, BUFFER_OUT],
    source="RFC 8439 2.3",
)
def chacha20_block(a: Asm, matrix: Reg64, out: Reg64) -> None:
    """Turn one matrix into 64 bytes of key stream."""
    # Unrolled: the four rows.
    for n, (row, start) in enumerate(zip(ROWS, START, strict=True)):
        a.movdqu(row, mem128(matrix, 16 * n, ref=BUFFER_IN))
        a.movdqa(start, row)
    rounds = EAX
    a.mov(rounds, 10)
    with a.loop() as top:
        _quarter_rounds(a)
        # The diagonals become columns.
        for row, turn in zip(ROWS[1:], (LEFT_1, LEFT_2, LEFT_3), strict=True):
            a.pshufd(row, row, turn)
        _quarter_rounds(a)
        for row, turn in zip(ROWS[1:], (LEFT_3, LEFT_2, LEFT_1), strict=True):
            a.pshufd(row, row, turn)
        a.dec(rounds)
        a.again(NZ, top)
    for n, (row, start) in enumerate(zip(ROWS, START, strict=True)):
        a.paddd(row, start)
        a.movdqu(mem128(out, 16 * n, ref=BUFFER_OUT), row)
    a.ret()
