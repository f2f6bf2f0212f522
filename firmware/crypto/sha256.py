"""SHA-256 over contiguous memory, in plain integer code (FIPS 180-4)."""

from firmware.layouts.crypto import (
    BUFFER_IN,
    BUFFER_OUT,
    SHA256,
    SHA256_BLOCK_BYTES,
    SHA256_CONSTANTS,
    SHA256_INITIAL,
    SHA256_ROUNDS,
    Sha256,
)
from toolchain.asm import (
    EAX,
    EBP,
    EBX,
    ECX,
    EDI,
    EDX,
    ESI,
    R8D,
    R9D,
    R10D,
    R11D,
    R12,
    R12D,
    R13,
    R13D,
    R14,
    RAX,
    RBP,
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

VA, VB, VC, VD, VE, VF, VG, VH = EAX, EBX, ECX, EDX, R8D, R9D, R10D, R11D
VARIABLES = (VA, VB, VC, VD, VE, VF, VG, VH)
X, Y = ESI, EDI
PAD_MAX = SHA256_BLOCK_BYTES - 9
"""Longest rest of a message whose padding byte and length still fit in one block."""


def _word(back: int) -> Mem32[int]:
    """Return the message word `back` rounds before round R12; the schedule is the local."""
    return mem32(RSP, -4 * back, index=R12, scale=4, ref=STACK)


def _mixed(a: Asm, value: Reg32, first: int, second: int, third: int) -> None:
    """X := the value turned right by three amounts, together (FIPS 180-4 4.1.2)."""
    a.mov(X, value)
    a.ror(X, first)
    a.mov(Y, value)
    a.ror(Y, second)
    a.xor(X, Y)
    a.ror(Y, third - second)
    a.xor(X, Y)


def _small(a: Asm, back: int, first: int, second: int, shift: int) -> None:
    """EAX += the small sigma of the word `back` rounds before."""
    a.mov(X, _word(back))
    a.mov(Y, X)
    a.ror(Y, first)
    a.mov(EBP, X)
    a.shr(EBP, shift)
    a.xor(EBP, Y)
    a.ror(Y, second - first)
    a.xor(EBP, Y)
    a.add(EAX, EBP)


@routine(
    inputs=[In(RSI, int, "the block; 64 bytes")],
    clobbers=[RAX, RCX, RDX, RSI, RDI, VE, VF, VG, VH],
    reads=[Sha256.state, SHA256_CONSTANTS, BUFFER_IN],
    writes=[Sha256.state, Sha256.length],
    saves=[RBX, RBP, R12, R13],
    stack=4 * SHA256_ROUNDS,
    secret=[Sha256.state, BUFFER_IN],
    source="FIPS 180-4 6.2.2",
)
def sha256_compress(a: Asm, block: Reg64) -> None:
    """Mix one block into the state."""
    state = Sha256.at(R13)
    a.xor(R12D, R12D)
    with a.loop() as load:
        a.mov(EAX, mem32(block, index=R12, scale=4, ref=BUFFER_IN))
        a.bswap(EAX)
        a.mov(_word(0), EAX)
        a.inc(R12D)
        a.cmp(R12D, 16)
        a.again(B, load)
    with a.loop() as extend:
        a.mov(EAX, _word(16))
        a.add(EAX, _word(7))
        _small(a, 15, 7, 18, 3)
        _small(a, 2, 17, 19, 10)
        a.mov(_word(0), EAX)
        a.inc(R12D)
        a.cmp(R12D, SHA256_ROUNDS)
        a.again(B, extend)

    a.lea(R13, SHA256.address)
    for n, variable in enumerate(VARIABLES):  # unrolled: eight words
        a.mov(variable, state.state.m32(4 * n))
    a.lea(RBP, SHA256_CONSTANTS.address)
    a.xor(R12D, R12D)
    with a.loop() as turn:
        # VH becomes the first sum, then the new A; VD the new E.
        _mixed(a, VE, 6, 11, 25)
        a.add(VH, X)
        a.mov(X, VF)
        a.xor(X, VG)
        a.and_(X, VE)
        a.xor(X, VG)
        a.add(VH, X)
        a.add(VH, mem32(RBP, index=R12, scale=4, ref=SHA256_CONSTANTS))
        a.add(VH, _word(0))
        a.add(VD, VH)
        _mixed(a, VA, 2, 13, 22)
        a.add(VH, X)
        a.mov(X, VA)
        a.and_(X, VB)
        a.mov(Y, VA)
        a.or_(Y, VB)
        a.and_(Y, VC)
        a.or_(X, Y)
        a.add(VH, X)

        a.mov(X, VH)
        for n in range(len(VARIABLES) - 1, 0, -1):  # unrolled: every word moves one on
            a.mov(VARIABLES[n], VARIABLES[n - 1])
        a.mov(VA, X)
        a.inc(R12D)
        a.cmp(R12D, SHA256_ROUNDS)
        a.again(B, turn)
    for n, variable in enumerate(VARIABLES):  # unrolled: eight words
        a.add(state.state.m32(4 * n), variable)
    a.add(state.length, SHA256_BLOCK_BYTES)
    a.ret()


@routine(
    clobbers=[RAX],
    writes=[Sha256.state, Sha256.length],
    source="FIPS 180-4 5.3.3",
)
def sha256_start(a: Asm) -> None:
    """Begin a message: nothing is mixed in yet."""
    for n, word in enumerate(SHA256_INITIAL):  # unrolled: eight words
        a.mov(SHA256.it.state.m32(4 * n), word)
    a.xor(EAX, EAX)
    a.mov(SHA256.it.length, RAX)
    a.ret()


@routine(
    inputs=[
        In(RSI, int, "the rest of the message"),
        In(ECX, int, "its bytes"),
        In(RDI, int, "where the 32 bytes of the digest go"),
    ],
    clobbers=[RAX, RCX, RDX, RSI, RDI, VE, VF, VG, VH],
    reads=[Sha256.state, Sha256.length, BUFFER_IN],
    writes=[Sha256.tail, BUFFER_OUT],
    calls=[sha256_compress],
    saves=[R12, R13, R14],
    secret=[Sha256.state, Sha256.tail, BUFFER_IN, BUFFER_OUT],
    source="FIPS 180-4 5.1.1 and 6.2.2",
)
def sha256_finish(a: Asm, message: Reg64, length: Reg32, digest: Reg64) -> None:
    """Mix the rest of a message in, pad it, and write the digest."""
    work = SHA256.it
    left = R13D
    a.mov(R12, message)
    a.mov(left, length)
    a.mov(R14, digest)
    with a.loop() as whole:
        a.cmp(left, SHA256_BLOCK_BYTES)
        a.leave(B, whole)
        a.mov(RSI, R12)
        a.call(sha256_compress)
        a.add(R12, SHA256_BLOCK_BYTES)
        a.sub(left, SHA256_BLOCK_BYTES)
        a.jmp(whole.top)

    a.lea(RDI, work.tail.address)
    a.mov(RDX, RDI)
    a.mov(ECX, Sha256.tail.size // 8)
    a.xor(EAX, EAX)
    a.rep_stosq()
    a.mov(RDI, RDX)
    a.mov(RSI, R12)
    a.mov(ECX, left)
    a.rep_movsb()
    tail = Sha256.at(RDX, -Sha256.tail.offset).tail
    a.mov(tail.m8(index=R13), 0x80)
    # The length in bits is the last quadword, big-endian.
    a.mov(RAX, work.length)
    a.add(RAX, R13)
    a.shl(RAX, 3)
    a.bswap(RAX)
    a.mov(ECX, SHA256_BLOCK_BYTES - 8)
    a.cmp(left, PAD_MAX)
    with a.if_(A):
        a.mov(ECX, 2 * SHA256_BLOCK_BYTES - 8)
    a.mov(tail.m64(index=RCX), RAX)

    a.mov(RSI, RDX)
    a.call(sha256_compress)
    a.cmp(left, PAD_MAX)
    with a.if_(A):
        a.lea(RSI, work.tail.m8(SHA256_BLOCK_BYTES))
        a.call(sha256_compress)
    for n in range(len(SHA256_INITIAL)):  # unrolled: eight words
        a.mov(EAX, work.state.m32(4 * n))
        a.bswap(EAX)
        a.mov(mem32(R14, 4 * n, ref=BUFFER_OUT), EAX)
    a.ret()
