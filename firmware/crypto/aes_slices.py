"""AES without tables and without AES-NI: eight blocks at a time, bit by bit (constant time, SSE2).

Register b holds bit b of all bytes of all eight blocks: bit j of its byte p is that of block j. Bytes
are ordered by rows, so that a row is a doubleword: ShiftRows turns doublewords, MixColumns moves them.
The S-box is the circuit of 115 gates by J. Boyar and R. Peralta, A new combinational logic
minimization technique with applications to cryptology (2010), without its complements: the round keys
carry the 0x63 that they would add.
"""

from __future__ import annotations

from firmware.crypto.circuit import emit_circuit, parse
from firmware.layouts.aead import (
    BITS_AT,
    HALVES_AT,
    ODD_ROWS_AT,
    SLICE_CONSTANTS,
    AesGcmSoft,
)
from toolchain.asm import (
    EAX,
    NZ,
    RCX,
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
    Out,
    Xmm,
    routine,
)

PLANES = (XMM0, XMM1, XMM2, XMM3, XMM4, XMM5, XMM6, XMM7)
WORKS = (XMM8, XMM9, XMM10, XMM11, XMM12, XMM13, XMM14, XMM15)
NEXT_ROW, ROW_BUT_ONE = 0x39, 0x4E
SWAP_WORDS = 0xB1
SLOTS = 14
S_BOX = parse(
    """
    y14 = x3 ^ x5; y13 = x0 ^ x6; y9 = x0 ^ x3; y8 = x0 ^ x5; t0 = x1 ^ x2; y1 = t0 ^ x7
    y4 = y1 ^ x3; y12 = y13 ^ y14; y2 = y1 ^ x0; y5 = y1 ^ x6; y3 = y5 ^ y8; t1 = x4 ^ y12
    y15 = t1 ^ x5; y20 = t1 ^ x1; y6 = y15 ^ x7; y10 = y15 ^ t0; y11 = y20 ^ y9; y7 = x7 ^ y11
    y17 = y10 ^ y11; y19 = y10 ^ y8; y16 = t0 ^ y11; y21 = y13 ^ y16; y18 = x0 ^ y16

    t2 = y12 & y15; t3 = y3 & y6; t4 = t3 ^ t2; t5 = y4 & x7; t6 = t5 ^ t2; t7 = y13 & y16
    t8 = y5 & y1; t9 = t8 ^ t7; t10 = y2 & y7; t11 = t10 ^ t7; t12 = y9 & y11; t13 = y14 & y17
    t14 = t13 ^ t12; t15 = y8 & y10; t16 = t15 ^ t12; t17 = t4 ^ t14; t18 = t6 ^ t16
    t19 = t9 ^ t14; t20 = t11 ^ t16; t21 = t17 ^ y20; t22 = t18 ^ y19; t23 = t19 ^ y21
    t24 = t20 ^ y18

    t25 = t21 ^ t22; t26 = t21 & t23; t27 = t24 ^ t26; t28 = t25 & t27; t29 = t28 ^ t22
    t30 = t23 ^ t24; t31 = t22 ^ t26; t32 = t31 & t30; t33 = t32 ^ t24; t34 = t23 ^ t33
    t35 = t27 ^ t33; t36 = t24 & t35; t37 = t36 ^ t34; t38 = t27 ^ t36; t39 = t29 & t38
    t40 = t25 ^ t39

    t41 = t40 ^ t37; t42 = t29 ^ t33; t43 = t29 ^ t40; t44 = t33 ^ t37; t45 = t42 ^ t41
    z0 = t44 & y15; z1 = t37 & y6; z2 = t33 & x7; z3 = t43 & y16; z4 = t40 & y1; z5 = t29 & y7
    z6 = t42 & y11; z7 = t45 & y17; z8 = t41 & y10; z9 = t44 & y12; z10 = t37 & y3
    z11 = t33 & y4; z12 = t43 & y13; z13 = t40 & y5; z14 = t29 & y2; z15 = t42 & y9
    z16 = t45 & y14; z17 = t41 & y8

    t46 = z15 ^ z16; t47 = z10 ^ z11; t48 = z5 ^ z13; t49 = z9 ^ z10; t50 = z2 ^ z12
    t51 = z2 ^ z5; t52 = z7 ^ z8; t53 = z0 ^ z3; t54 = z6 ^ z7; t55 = z16 ^ z17; t56 = z12 ^ t48
    t57 = t50 ^ t53; t58 = z4 ^ t46; t59 = z3 ^ t54; t60 = t46 ^ t57; t61 = z14 ^ t57
    t62 = t52 ^ t58; t63 = t49 ^ t58; t64 = z4 ^ t59; t65 = t61 ^ t62; t66 = z1 ^ t63
    s0 = t59 ^ t63; s6 = t56 ^ t62; s7 = t48 ^ t60; t67 = t64 ^ t65; s3 = t53 ^ t66
    s4 = t51 ^ t66; s5 = t47 ^ t65; s1 = t64 ^ s3; s2 = t55 ^ t67
    """
)
"""Wires x0 to x7 are the bits of a byte, the most significant first; s0 to s7 those of its image."""


def _swap_bits(a: Asm, low: Xmm, high: Xmm, by: int, half: int) -> None:
    """Exchange the upper bits of one register's groups with the lower bits of another's."""
    work = WORKS[0]
    a.movdqa(work, low)
    a.psrlq(work, by)
    a.pxor(work, high)
    a.pand(work, SLICE_CONSTANTS.m128(HALVES_AT + 16 * half))
    a.pxor(high, work)
    a.psllq(work, by)
    a.pxor(low, work)


def _transpose_bits(a: Asm) -> None:
    """Exchange bit i of register j with bit j of register i; twice is nothing."""
    for half, by in enumerate((1, 2, 4)):  # unrolled: pairs, then fours, then eights
        for n in range(8):
            if not n & by:
                _swap_bits(a, PLANES[n], PLANES[n | by], by, half)


def transpose_bytes(a: Asm, block: Xmm, work: Xmm) -> None:
    """Order the bytes of a block by rows instead of by columns; twice is nothing."""
    for _ in range(2):  # unrolled
        a.movdqa(work, block)
        a.psrldq(work, 8)
        a.punpcklbw(block, work)


def slice_blocks(a: Asm) -> None:
    """Turn eight blocks in PLANES into planes."""
    for block in PLANES:  # unrolled
        transpose_bytes(a, block, WORKS[0])
    _transpose_bits(a)


def join_blocks(a: Asm) -> None:
    """Turn the planes into eight blocks."""
    _transpose_bits(a)
    for block in PLANES:  # unrolled
        transpose_bytes(a, block, WORKS[0])


def _shift_rows(a: Asm) -> None:
    """Turn row r right by r bytes: the last two by two, then the odd ones by one."""
    odd, high = WORKS[:2]
    for plane in PLANES:  # unrolled
        a.pshufhw(plane, plane, SWAP_WORDS)
        a.movdqa(odd, plane)
        a.pand(odd, SLICE_CONSTANTS.m128(ODD_ROWS_AT))
        a.pxor(plane, odd)
        a.movdqa(high, odd)
        a.psrld(odd, 8)
        a.pslld(high, 24)
        a.por(plane, odd)
        a.por(plane, high)


def _mix_columns(a: Asm) -> None:
    """Set each byte to 2 (x + y) + y + z + v of its column, y, z and v in the rows below."""
    top, rows = WORKS[0], WORKS[1:3]

    def add_next_row(bit: int) -> Xmm:
        """Set the plane to x + y and return y."""
        row = rows[bit % 2]
        a.pshufd(row, PLANES[bit], NEXT_ROW)
        a.pxor(PLANES[bit], row)
        return row

    below = add_next_row(7)
    a.movdqa(top, PLANES[7])
    for bit in range(7, -1, -1):  # unrolled: eight planes
        plane, row = PLANES[bit], below
        if bit:
            below = add_next_row(bit - 1)
        a.pshufd(plane, plane, ROW_BUT_ONE)
        a.pxor(plane, row)
        # Doubling moves every bit up; what leaves at the top comes back in 0x1B.
        if bit:
            a.pxor(plane, PLANES[bit - 1])
        if bit in (0, 1, 3, 4):
            a.pxor(plane, top)


def _add_key(a: Asm) -> None:
    """Add the round key at RCX, each bit of it to eight blocks, and step to the next one."""
    key, bits = WORKS[:2]
    a.movdqa(key, AesGcmSoft.at(RCX).keys.m128())
    for bit, plane in enumerate(PLANES):  # unrolled
        wanted = SLICE_CONSTANTS.m128(BITS_AT + 16 * bit)
        a.movdqa(bits, key)
        a.pand(bits, wanted)
        a.pcmpeqb(bits, wanted)
        a.pxor(plane, bits)
    a.add(RCX, 16)


@routine(
    inputs=[In(plane, int, f"bit {n} of every byte") for n, plane in enumerate(PLANES)],
    outputs=[Out(plane, f"bit {n} of every byte's image") for n, plane in enumerate(PLANES)],
    clobbers=WORKS,
    stack=16 * SLOTS,
    secret=PLANES,
    source="FIPS 197 5.1.1",
)
def aes_sub_soft(
    a: Asm, b0: Xmm, b1: Xmm, b2: Xmm, b3: Xmm, b4: Xmm, b5: Xmm, b6: Xmm, b7: Xmm
) -> None:
    """Take all bytes through the S-box, but for the 0x63 that is added last."""
    emit_circuit(
        a,
        S_BOX,
        {f"x{7 - n}": plane for n, plane in enumerate(PLANES)},
        {f"s{7 - n}": plane for n, plane in enumerate(PLANES)},
        (*PLANES, *WORKS),
        SLOTS,
    )
    a.pxor(WORKS[0], WORKS[0])
    for n in range(SLOTS):  # unrolled: nothing stays on the stack
        a.movdqu(a.local(16, 16 * n), WORKS[0])
    a.ret()


@routine(
    inputs=[
        In(RDI, AesGcmSoft, "the key"),
        *(In(plane, int, "a block") for plane in PLANES),
    ],
    outputs=[Out(plane, "the block, encrypted") for plane in PLANES],
    clobbers=[EAX, RCX, *WORKS],
    reads=[AesGcmSoft.keys, AesGcmSoft.rounds, SLICE_CONSTANTS],
    calls=[aes_sub_soft],
    secret=[AesGcmSoft.keys, *PLANES],
    source="FIPS 197 5.1",
)
def aes_eight_soft(
    a: Asm, key: AesGcmSoft, b0: Xmm, b1: Xmm, b2: Xmm, b3: Xmm, b4: Xmm, b5: Xmm, b6: Xmm, b7: Xmm
) -> None:
    """Encrypt eight blocks."""
    slice_blocks(a)
    a.lea(RCX, key.keys.address)
    _add_key(a)
    a.mov(EAX, key.rounds)
    with a.loop() as rounds:
        a.call(aes_sub_soft)
        _shift_rows(a)
        a.dec(EAX)
        with a.if_(NZ):
            _mix_columns(a)
        _add_key(a)
        a.test(EAX, EAX)
        a.again(NZ, rounds)
    join_blocks(a)
    a.ret()
