"""The key of AES-GCM for processors without AES-NI: round keys by rows, and the factors of H."""

from firmware.crypto.aes_slices import PLANES, WORKS, aes_eight_soft, aes_sub_soft, transpose_bytes
from firmware.crypto.ghash_soft import EVERY_FOURTH, six_factors
from firmware.layouts.aead import (
    AEAD_KEY,
    AFFINE_AT,
    BITS_AT,
    GHASH_CLASSES,
    SLICE_CONSTANTS,
    AesGcmSoft,
)
from toolchain.asm import (
    EAX,
    ECX,
    EDX,
    NZ,
    R8,
    R9,
    R12,
    R12D,
    R13,
    R13D,
    R14,
    R14D,
    R15,
    R15D,
    RAX,
    RCX,
    RDI,
    RDX,
    RSI,
    Asm,
    B,
    E,
    In,
    Out,
    Reg32,
    Reg64,
    Z,
    mem32,
    routine,
)

AFFINE = 0x6363_6363
"""What the S-box adds to each byte last (FIPS 197 5.1.1)."""


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
