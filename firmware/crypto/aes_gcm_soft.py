"""AES-GCM for processors without AES-NI: the same contracts as `aes_gcm`, in constant time too."""

from firmware.crypto.aead import emit_open, gather
from firmware.crypto.aes_slices import PLANES, WORKS, aes_eight_soft
from firmware.crypto.ghash_soft import ghash_soft
from firmware.layouts.aead import (
    AEAD_AAD,
    AEAD_NONCE,
    AEAD_TEXT,
    AES_BLOCK_BYTES,
    GCM_WIDTH,
    SLICE_CONSTANTS,
    SLICE_KEEP_AT,
    AesGcmSoft,
)
from toolchain.asm import (
    AE,
    CF,
    EAX,
    EBP,
    EBX,
    EDX,
    NZ,
    R8,
    R8D,
    R9,
    R9D,
    R10,
    R11,
    R12,
    R13,
    R13D,
    R14,
    R14D,
    RAX,
    RBP,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    RSP,
    XMM0,
    XMM1,
    XMM2,
    Asm,
    B,
    In,
    Mem128,
    Out,
    Reg32,
    Reg64,
    Xmm,
    mem32,
    mem64,
    mem128,
    routine,
)
from toolchain.asm.assembler import STACK

CHUNK = GCM_WIDTH * AES_BLOCK_BYTES
STREAM_AT, FIRST_AT, NONCE_AT, LENGTHS_AT, LOCALS = 0, CHUNK, CHUNK + 16, CHUNK + 32, CHUNK + 48
"""Key stream, the encrypted first counter, the nonce before its counter, both lengths."""
SAVES = (RBX, RBP, R12, R13, R14)
CLOBBERS = (RAX, RCX, RDX, RSI, R8, R9, R10, R11, *PLANES, *WORKS)
WORKED = [
    In(RDI, AesGcmSoft, "the key, made by the routine of the same kind"),
    In(RSI, int, "the text; 16 bytes behind it belong to the tag"),
    In(EDX, int, "its bytes; at most 2^31"),
    In(RCX, int, "the nonce; 12 bytes, never twice with a key"),
    In(R8, int, "the additional data"),
    In(R9D, int, "its bytes"),
]


# -- the parts of both directions -----------------------------------------------------------------
def _text() -> Mem128[int]:
    return mem128(RSI, ref=AEAD_TEXT)


def _hash_words(a: Asm, first: Reg64, second: Reg64) -> None:
    """Take a block into the hash in R8:R9, its quadwords as they lie in memory."""
    a.bswap(first)
    a.bswap(second)
    a.xor(R8, first)
    a.xor(R9, second)
    a.call(ghash_soft)


def _hash_vector(a: Asm, block: Xmm) -> None:
    a.movq(RAX, block)
    a.psrldq(block, 8)
    a.movq(RCX, block)
    _hash_words(a, RAX, RCX)


def _stream(a: Asm, *, more: bool = True) -> None:
    """Make the key stream of the next eight counters; R14D counts if there may be more."""
    nonce = WORKS[0]
    a.movdqu(nonce, a.local(16, NONCE_AT))
    for n, block in enumerate(PLANES):  # unrolled
        a.lea(EAX, mem32(R14, n, ref=STACK))
        a.bswap(EAX)
        a.movd(block, EAX)
        a.pslldq(block, 12)
        a.por(block, nonce)
    if more:
        a.add(R14D, GCM_WIDTH)
    a.call(aes_eight_soft)
    for n, block in enumerate(PLANES):  # unrolled
        a.movdqu(a.local(16, STREAM_AT + 16 * n), block)


def _begin(a: Asm) -> None:
    """Hash the additional data; make key stream, of which the first block is for the tag."""
    a.movq(XMM0, mem64(RCX, ref=AEAD_NONCE))
    a.movd(XMM1, mem32(RCX, 8, ref=AEAD_NONCE))
    a.punpcklqdq(XMM0, XMM1)
    a.movdqu(a.local(16, NONCE_AT), XMM0)
    a.mov(EBP, EDX)
    a.mov(a.local(8, LENGTHS_AT + 8), RBP)
    a.mov(EBX, R9D)
    a.mov(a.local(8, LENGTHS_AT), RBX)
    a.mov(R12, R8)
    a.xor(R8D, R8D)
    a.xor(R9D, R9D)
    with a.loop() as whole:
        a.cmp(EBX, AES_BLOCK_BYTES)
        a.leave(B, whole)
        a.mov(RAX, mem64(R12, ref=AEAD_AAD))
        a.mov(RCX, mem64(R12, 8, ref=AEAD_AAD))
        _hash_words(a, RAX, RCX)
        a.add(R12, AES_BLOCK_BYTES)
        a.sub(EBX, AES_BLOCK_BYTES)
        a.jmp(whole.top)
    a.test(EBX, EBX)
    with a.if_(NZ):
        a.mov(R13, R8)
        a.mov(R14, R9)
        a.mov(R8, R12)
        a.mov(R9D, EBX)
        gather(a)
        a.mov(R8, R13)
        a.mov(R9, R14)
        _hash_words(a, RAX, R10)
    a.mov(EBX, EBP)
    a.mov(R14D, 1)
    _stream(a)
    a.movdqu(XMM0, a.local(16, STREAM_AT))
    a.movdqu(a.local(16, FIRST_AT), XMM0)
    a.mov(R13D, AES_BLOCK_BYTES)


def _work(a: Asm, *, seal: bool) -> None:
    """Cipher and hash the whole text; leave the tag in R8:R9 and RSI behind the text."""
    _begin(a)
    stream = mem128(RSP, STREAM_AT, index=R13, ref=STACK)
    with a.loop() as block:
        a.cmp(EBX, AES_BLOCK_BYTES)
        a.leave(B, block)
        a.cmp(R13D, CHUNK)
        with a.if_(AE):
            _stream(a)
            a.xor(R13D, R13D)
        a.movdqu(XMM0, _text())
        a.movdqu(XMM1, stream)
        a.pxor(XMM1, XMM0)
        a.movdqu(_text(), XMM1)
        _hash_vector(a, XMM1 if seal else XMM0)
        a.add(RSI, AES_BLOCK_BYTES)
        a.add(R13D, AES_BLOCK_BYTES)
        a.sub(EBX, AES_BLOCK_BYTES)
        a.jmp(block.top)
    a.test(EBX, EBX)
    with a.if_(NZ):
        a.cmp(R13D, CHUNK)
        with a.if_(AE):
            _stream(a, more=False)
            a.xor(R13D, R13D)
        # The block is stored whole; behind the text it stays as it was.
        a.lea(RCX, SLICE_CONSTANTS.m8(SLICE_KEEP_AT + AES_BLOCK_BYTES))
        a.sub(RCX, RBX)
        a.movdqu(XMM2, mem128(RCX, ref=SLICE_CONSTANTS))
        a.movdqu(XMM0, _text())
        a.movdqu(XMM1, stream)
        a.pand(XMM1, XMM2)
        a.pxor(XMM1, XMM0)
        a.movdqu(_text(), XMM1)
        hashed = XMM1 if seal else XMM0
        a.pand(hashed, XMM2)
        _hash_vector(a, hashed)
        a.add(RSI, RBX)
    for register, at in ((R8, LENGTHS_AT), (R9, LENGTHS_AT + 8)):  # unrolled: two lengths in bits
        a.mov(RAX, a.local(8, at))
        a.shl(RAX, 3)
        a.xor(register, RAX)
    a.call(ghash_soft)
    for register, at in ((R8, FIRST_AT), (R9, FIRST_AT + 8)):  # unrolled: two halves of the tag
        a.bswap(register)
        a.xor(register, a.local(8, at))
    a.pxor(XMM0, XMM0)
    for at in range(STREAM_AT, FIRST_AT + 16, 16):  # unrolled: no key stream stays on the stack
        a.movdqu(a.local(16, at), XMM0)


@routine(
    inputs=WORKED,
    clobbers=CLOBBERS,
    reads=[AEAD_AAD, AEAD_NONCE, AEAD_TEXT, SLICE_CONSTANTS],
    writes=[AEAD_TEXT],
    calls=[aes_eight_soft, ghash_soft],
    saves=SAVES,
    stack=LOCALS,
    secret=[AEAD_TEXT],
    source="SP 800-38D 7.1; RFC 8446 5.2",
)
def aes_gcm_seal_soft(
    a: Asm, key: AesGcmSoft, text: Reg64, length: Reg32, nonce: Reg64, aad: Reg64, aad_length: Reg32
) -> None:
    """Encrypt the text in place and write its tag behind it."""
    _work(a, seal=True)
    a.mov(mem64(RSI, ref=AEAD_TEXT), R8)
    a.mov(mem64(RSI, 8, ref=AEAD_TEXT), R9)
    a.ret()


@routine(
    inputs=WORKED,
    outputs=[Out(CF, "1 = the tag is wrong")],
    clobbers=CLOBBERS,
    reads=[AEAD_AAD, AEAD_NONCE, AEAD_TEXT, SLICE_CONSTANTS],
    writes=[AEAD_TEXT],
    calls=[aes_eight_soft, ghash_soft],
    saves=SAVES,
    stack=LOCALS,
    secret=[AEAD_TEXT],
    source="SP 800-38D 7.2",
)
def aes_gcm_decrypt_soft(
    a: Asm, key: AesGcmSoft, text: Reg64, length: Reg32, nonce: Reg64, aad: Reg64, aad_length: Reg32
) -> None:
    """Decrypt the text in place and compare its tag in constant time; for `open` alone."""
    _work(a, seal=False)
    a.xor(R8, mem64(RSI, ref=AEAD_TEXT))
    a.xor(R9, mem64(RSI, 8, ref=AEAD_TEXT))
    a.or_(R8, R9)
    a.neg(R8)  # CF = 1 unless it was zero
    a.ret()


@routine(
    inputs=WORKED,
    outputs=[Out(CF, "1 = the tag is wrong, and the text is wiped")],
    clobbers=(*CLOBBERS, RDI),
    writes=[AEAD_TEXT],
    calls=[aes_gcm_decrypt_soft],
    saves=[RBX, RBP],
    source="SP 800-38D 7.2; RFC 8446 5.2",
)
def aes_gcm_open_soft(
    a: Asm, key: AesGcmSoft, text: Reg64, length: Reg32, nonce: Reg64, aad: Reg64, aad_length: Reg32
) -> None:
    """Decrypt the text in place if the tag behind it is right; otherwise nothing of it is left."""
    emit_open(a, aes_gcm_decrypt_soft)
