"""SHA-1 of short messages. It serves Sec-WebSocket-Accept alone, never security (decision 29)."""

from firmware.layouts.crypto import BUFFER_IN, BUFFER_OUT, SHA1, SHA1_MESSAGE_MAX, Sha1
from toolchain.asm import (
    AX,
    EAX,
    EBX,
    ECX,
    EDX,
    ESI,
    R8D,
    R9D,
    R10D,
    R11,
    R11D,
    R12,
    R13,
    R13D,
    RAX,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    RSP,
    A,
    Asm,
    B,
    In,
    Mem32,
    Reg32,
    Reg64,
    mem32,
    routine,
)
from toolchain.asm.assembler import STACK

INITIAL = (0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476, 0xC3D2E1F0)
CONSTANTS = (0x5A827999, 0x6ED9EBA1, 0x8F1BBCDC, 0xCA62C1D6)
ROUNDS, PHASE = 80, 20
PAD_MAX = 55
"""Longest message whose padding byte and length still fit in one block."""
VA, VB, VC, VD, VE = EAX, EBX, ECX, EDX, ESI
F, MORE, NEXT = R8D, R9D, R10D


def _word(back: int) -> Mem32[int]:
    """Return the message word `back` rounds before round R11; the schedule is the local."""
    return mem32(RSP, -4 * back, index=R11, scale=4, ref=STACK)


def _choose(a: Asm) -> None:
    a.mov(F, VC)
    a.xor(F, VD)
    a.and_(F, VB)
    a.xor(F, VD)


def _parity(a: Asm) -> None:
    a.mov(F, VB)
    a.xor(F, VC)
    a.xor(F, VD)


def _majority(a: Asm) -> None:
    a.mov(F, VB)
    a.and_(F, VC)
    a.mov(MORE, VB)
    a.or_(MORE, VC)
    a.and_(MORE, VD)
    a.or_(F, MORE)


PHASES = (_choose, _parity, _majority, _parity)


@routine(
    inputs=[In(RSI, int, "the block; 64 bytes")],
    clobbers=[RAX, RCX, RDX, RSI, RDI, F, MORE, NEXT, R11],
    reads=[Sha1.state, BUFFER_IN],
    writes=[Sha1.state],
    saves=[RBX],
    stack=4 * ROUNDS,
    source="FIPS 180-4 6.1.2",
)
def sha1_compress(a: Asm, block: Reg64) -> None:
    """Mix one block into the state."""
    state = Sha1.at(RDI)
    a.xor(R11D, R11D)
    with a.loop() as load:
        a.mov(EAX, mem32(block, index=R11, scale=4, ref=BUFFER_IN))
        a.bswap(EAX)
        a.mov(_word(0), EAX)
        a.inc(R11D)
        a.cmp(R11D, 16)
        a.again(B, load)
    with a.loop() as extend:
        a.mov(EAX, _word(3))
        for back in (8, 14, 16):  # unrolled: the words of FIPS 180-4 6.1.2 step 1
            a.xor(EAX, _word(back))
        a.rol(EAX, 1)
        a.mov(_word(0), EAX)
        a.inc(R11D)
        a.cmp(R11D, ROUNDS)
        a.again(B, extend)

    a.lea(RDI, SHA1.address)
    for n, variable in enumerate((VA, VB, VC, VD, VE)):  # unrolled: five words
        a.mov(variable, state.state.m32(4 * n))
    a.xor(R11D, R11D)
    for n, (mix, constant) in enumerate(zip(PHASES, CONSTANTS, strict=True)):  # unrolled: phases
        with a.loop() as turn:
            mix(a)
            a.mov(NEXT, VA)
            a.rol(NEXT, 5)
            a.add(NEXT, F)
            a.add(NEXT, VE)
            a.add(NEXT, constant)
            a.add(NEXT, _word(0))
            a.mov(VE, VD)
            a.mov(VD, VC)
            a.mov(VC, VB)
            a.rol(VC, 30)
            a.mov(VB, VA)
            a.mov(VA, NEXT)
            a.inc(R11D)
            a.cmp(R11D, PHASE * (n + 1))
            a.again(B, turn)
    for n, variable in enumerate((VA, VB, VC, VD, VE)):  # unrolled: five words
        a.add(state.state.m32(4 * n), variable)
    a.ret()


@routine(
    inputs=[
        In(RSI, int, "the message"),
        In(ECX, int, f"bytes; at most {SHA1_MESSAGE_MAX}"),
        In(RDI, int, "where the 20 bytes of the digest go"),
    ],
    clobbers=[RAX, RCX, RDX, RSI, RDI, F, MORE, NEXT, R11],
    reads=[Sha1.state, BUFFER_IN],
    writes=[Sha1.state, Sha1.blocks, BUFFER_OUT],
    calls=[sha1_compress],
    saves=[R12, R13],
    source="FIPS 180-4 5.1.1 and 6.1.2",
)
def sha1_digest(a: Asm, message: Reg64, length: Reg32, digest: Reg64) -> None:
    """Hash a message of at most two blocks."""
    work = SHA1.it
    out, size = R12, R13D
    a.mov(out, digest)
    a.mov(size, length)
    for n, word in enumerate(INITIAL):  # unrolled: five words
        a.mov(work.state.m32(4 * n), word)
    a.lea(RDI, work.blocks.address)
    a.mov(R8D, ECX)
    a.mov(ECX, 128 // 8)
    a.xor(EAX, EAX)
    a.mov(RDX, RDI)
    a.rep_stosq()
    a.mov(RDI, RDX)
    a.mov(ECX, R8D)
    a.rep_movsb()
    blocks = Sha1.at(RDX, -Sha1.blocks.offset).blocks
    a.mov(blocks.m8(index=R13), 0x80)

    # The length in bits is big-endian in the last quadword; 119 bytes need sixteen bits.
    last = RCX
    a.mov(ECX, 64 - 2)
    a.cmp(size, PAD_MAX)
    with a.if_(A):
        a.mov(ECX, 128 - 2)
    a.lea(EAX, mem32(None, index=R13, scale=8, ref=BUFFER_IN))
    a.rol(AX, 8)
    a.mov(blocks.m16(index=last), AX)

    a.mov(RSI, RDX)
    a.call(sha1_compress)
    a.cmp(size, PAD_MAX)
    with a.if_(A):
        a.lea(RSI, work.blocks.m8(64))
        a.call(sha1_compress)
    for n in range(len(INITIAL)):  # unrolled: five words
        a.mov(EAX, work.state.m32(4 * n))
        a.bswap(EAX)
        a.mov(mem32(out, 4 * n, ref=BUFFER_OUT), EAX)
    a.ret()
