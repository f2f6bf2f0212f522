"""AES-GCM for processors without AES-NI: the same contracts as `aes_gcm`, in constant time too."""

from firmware.crypto.aead import emit_open, gather
from firmware.crypto.aes_slices import (
    PLANES,
    WORKS,
    aes_eight_soft,
    aes_sub_soft,
    transpose_bytes,
)
from firmware.crypto.ghash_soft import EVERY_FOURTH, ghash_soft, six_factors
from firmware.layouts.aead import (
    AEAD_AAD,
    AEAD_KEY,
    AEAD_NONCE,
    AEAD_TEXT,
    AES_BLOCK_BYTES,
    AFFINE_AT,
    BITS_AT,
    GCM_WIDTH,
    GHASH_CLASSES,
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
    ECX,
    EDX,
    NZ,
    R8,
    R8D,
    R9,
    R9D,
    R10,
    R11,
    R12,
    R12D,
    R13,
    R13D,
    R14,
    R14D,
    R15,
    R15D,
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
    E,
    In,
    Mem128,
    Out,
    Reg32,
    Reg64,
    Xmm,
    Z,
    mem32,
    mem64,
    mem128,
    routine,
)
from toolchain.asm.assembler import STACK

CHUNK = GCM_WIDTH * AES_BLOCK_BYTES
STREAM_AT, FIRST_AT, NONCE_AT, LENGTHS_AT, LOCALS = 0, CHUNK, CHUNK + 16, CHUNK + 32, CHUNK + 48
"""Key stream, the encrypted first counter, the nonce before its counter, both lengths."""
AFFINE = 0x6363_6363
"""What the S-box adds to each byte last (FIPS 197 5.1.1)."""
SECRET = [AesGcmSoft.keys, AesGcmSoft.factors, AEAD_TEXT]
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


# -- the key --------------------------------------------------------------------------------------
@routine(
    inputs=[In(EAX, int, "four bytes")],
    outputs=[Out(EAX, "their images")],
    clobbers=[*PLANES, *WORKS],
    reads=[SLICE_CONSTANTS],
    calls=[aes_sub_soft],
    secret=[EAX],
    source="FIPS 197 5.2, SubWord",
)
def aes_word_soft(a: Asm, word: Reg32) -> None:
    """Take four bytes through the S-box."""
    a.movd(PLANES[0], word)
    for bit in range(1, 8):  # unrolled; what is in the other seven bits of a byte does not matter
        a.movdqa(PLANES[bit], PLANES[0])
        a.psrlq(PLANES[bit], bit)
    a.call(aes_sub_soft)
    for bit, plane in enumerate(PLANES):  # unrolled
        a.pand(plane, SLICE_CONSTANTS.m128(BITS_AT))
        if bit:
            a.psllq(plane, bit)
            a.por(PLANES[0], plane)
    a.movd(word, PLANES[0])
    a.xor(word, AFFINE)
    a.ret()


def _expand(a: Asm, key: AesGcmSoft) -> None:
    """Make all words of the round keys (FIPS 197 5.2) from the first R14D + 1."""
    words, n, behind, mask, constant = key.keys, R12, R13D, R14D, R15D
    a.mov(R12D, mask)
    a.inc(R12D)
    a.mov(behind, key.rounds)
    a.inc(behind)
    a.shl(behind, 2)
    a.mov(constant, 1)
    with a.loop() as word:
        a.mov(EAX, words.m32(-4, index=n, scale=4))
        a.mov(ECX, R12D)
        a.and_(ECX, mask)
        with a.if_(Z):
            a.ror(EAX, 8)
            a.call(aes_word_soft)
            a.xor(EAX, constant)
            a.add(constant, constant)
            a.cmp(constant, 0x100)
            with a.if_(E):
                a.mov(constant, 0x1B)
        with a.else_():
            # Only a key of eight words has a fourth word between.
            a.cmp(ECX, 4)
            with a.if_(E):
                a.call(aes_word_soft)
        a.mov(RCX, n)
        a.sub(RCX, R14)
        a.xor(EAX, words.m32(-4, index=RCX, scale=4))
        a.mov(words.m32(index=n, scale=4), EAX)
        a.inc(R12D)
        a.cmp(R12D, behind)
        a.again(B, word)


def _order(a: Asm, key: AesGcmSoft) -> None:
    """Order the bytes of all round keys by rows; all but the first take the S-box's 0x63."""
    block, entry = PLANES[0], AesGcmSoft.at(RCX).keys.m128()
    a.movdqa(block, key.keys.m128())
    transpose_bytes(a, block, WORKS[0])
    a.movdqa(key.keys.m128(), block)
    a.lea(RCX, key.keys.m128(16))
    a.mov(EAX, key.rounds)
    with a.loop() as each:
        a.movdqa(block, entry)
        transpose_bytes(a, block, WORKS[0])
        a.pxor(block, SLICE_CONSTANTS.m128(AFFINE_AT))
        a.movdqa(entry, block)
        a.add(RCX, 16)
        a.dec(EAX)
        a.again(NZ, each)


@routine(
    inputs=[
        In(RDI, AesGcmSoft, "where the key goes"),
        In(RSI, int, "the key's bytes"),
        In(EDX, int, "how many: 16 or 32"),
    ],
    clobbers=[RAX, RCX, RDX, RSI, R8, R9, *PLANES, *WORKS],
    reads=[AesGcmSoft, AEAD_KEY, SLICE_CONSTANTS],
    writes=[AesGcmSoft],
    calls=[aes_word_soft, aes_eight_soft],
    saves=[R12, R13, R14, R15],
    secret=[AesGcmSoft.keys, AesGcmSoft.factors, AEAD_KEY],
    source="FIPS 197 5.2; SP 800-38D 7.1",
)
def aes_gcm_key_soft(a: Asm, key: AesGcmSoft, raw: Reg64, size: Reg32) -> None:
    """Make the round keys and the factors of H."""
    a.mov(R14D, size)
    a.shr(R14D, 2)
    a.lea(EAX, mem32(R14, 6, ref=AEAD_KEY))
    a.mov(key.rounds, EAX)
    a.dec(R14D)
    a.mov(ECX, size)
    a.xor(EDX, EDX)
    with a.loop() as word:  # of four bytes
        a.mov(EAX, mem32(raw, index=RDX, ref=AEAD_KEY))
        a.mov(key.keys.m32(index=RDX), EAX)
        a.add(EDX, 4)
        a.cmp(EDX, ECX)
        a.again(B, word)
    _expand(a, key)
    _order(a, key)

    for block in PLANES:  # unrolled
        a.pxor(block, block)
    a.call(aes_eight_soft)
    high, low = R8, R9
    a.movq(high, PLANES[0])
    a.psrldq(PLANES[0], 8)
    a.movq(low, PLANES[0])
    a.bswap(high)
    a.bswap(low)
    for n, factor in six_factors(a, high, low, (RAX, RCX)):
        a.mov(RDX, EVERY_FOURTH)
        for part in range(GHASH_CLASSES):  # unrolled: four classes of bits
            a.mov(RSI, factor)
            a.and_(RSI, RDX)
            a.mov(key.factors.m64(8 * (GHASH_CLASSES * n + part)), RSI)
            if part < GHASH_CLASSES - 1:
                a.add(RDX, RDX)
    a.ret()


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
