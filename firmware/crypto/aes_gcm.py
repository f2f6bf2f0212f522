"""AES-GCM with AES-NI and PCLMULQDQ (FIPS 197, SP 800-38D), as TLS 1.3 uses it.

Eight blocks of key stream at a time, with the hash of eight blocks woven in between. What is left, up
to eight blocks and the lengths, is hashed in one sum too. Texts lie in place with their tag behind.

A text is decrypted in the same pass that hashes it, which takes two thirds of the time of two passes.
If the tag is wrong the whole text is wiped before the caller sees it: a connection does not outlive a
bad record (RFC 8446 5.2), so nobody needs the ciphertext any more either.
"""

from firmware.crypto.aead import emit_open, gather
from firmware.crypto.aes import KEY, STREAM, inner_rounds, keys_128, keys_256, last_rounds
from firmware.crypto.ghash import (
    BLOCK,
    HIGH,
    LOW,
    MIDDLE,
    SUM,
    SWAP_HALVES,
    WORK,
    absorb,
    load_block,
    multiply_first,
    multiply_next,
    reduce,
    reverse,
)
from firmware.layouts.aead import (
    AEAD_AAD,
    AEAD_KEY,
    AEAD_NONCE,
    AEAD_TEXT,
    AES128_ROUNDS,
    AES256_KEY_BYTES,
    AES256_ROUNDS,
    AES_BLOCK_BYTES,
    GCM_CONSTANTS,
    GCM_POWERS,
    GCM_WIDTH,
    KEEP_AT,
    ONE_AT,
    POLYNOMIAL_AT,
    AesGcm,
)
from toolchain.asm import (
    AE,
    CF,
    EAX,
    EDX,
    NE,
    NZ,
    R8,
    R9,
    R9D,
    R10,
    R10D,
    R11,
    R11D,
    RAX,
    RBP,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    RSP,
    XMM14,
    Asm,
    B,
    In,
    Mem128,
    Out,
    Reg32,
    Reg64,
    Xmm,
    mem8,
    mem32,
    mem64,
    mem128,
    routine,
)
from toolchain.asm.assembler import STACK
from toolchain.asm.stitch import stitch

COUNTER = XMM14
CHUNK = GCM_WIDTH * AES_BLOCK_BYTES
LOCALS = AES_BLOCK_BYTES + CHUNK
"""The encrypted first counter, which hides the tag, and the key stream of the end."""
SECRET = [AesGcm.keys, AesGcm.powers, AesGcm.halves, AEAD_TEXT]
VECTORS = (*STREAM, LOW, HIGH, MIDDLE, BLOCK, WORK, SUM, COUNTER, KEY)
CLOBBERS = (RAX, RCX, RDX, RSI, R8, R9, R10, R11, *VECTORS)
WORKED = [
    In(RDI, AesGcm, "the key, made by the routine of the same kind"),
    In(RSI, int, "the text; 16 bytes behind it belong to the tag"),
    In(EDX, int, "its bytes; at most 2^31"),
    In(RCX, int, "the nonce; 12 bytes, never twice with a key"),
    In(R8, int, "the additional data"),
    In(R9D, int, "its bytes"),
]


# -- the key --------------------------------------------------------------------------------------
def _divide_by_x(a: Asm, value: Xmm, work: Xmm, mask: Xmm) -> None:
    """Shift the reflected number left; the bit that falls out brings the polynomial in."""
    a.movdqa(mask, value)
    a.psrad(mask, 31)
    a.pshufd(mask, mask, 0xFF)
    a.movdqa(work, value)
    a.psrlq(work, 63)
    a.pslldq(work, 8)
    a.psllq(value, 1)
    a.por(value, work)
    a.movdqa(work, GCM_CONSTANTS.m128(POLYNOMIAL_AT))
    a.pslldq(work, 8)
    a.por(work, GCM_CONSTANTS.m128(ONE_AT))
    a.pand(mask, work)
    a.pxor(value, mask)


@routine(
    inputs=[
        In(RDI, AesGcm, "where the key goes"),
        In(RSI, int, "the key's bytes"),
        In(EDX, int, "how many: 16 or 32"),
    ],
    clobbers=[*STREAM[:4], LOW, HIGH, MIDDLE, BLOCK, WORK, KEY],
    reads=[AesGcm, AEAD_KEY, GCM_CONSTANTS],
    writes=[AesGcm],
    secret=[AesGcm.keys, AesGcm.powers, AesGcm.halves, AEAD_KEY],
    source="FIPS 197 5.2; SP 800-38D 7.1",
)
def aes_gcm_key_aesni(a: Asm, key: AesGcm, raw: Reg64, size: Reg32) -> None:
    """Make the round keys and the powers of H."""
    a.movdqu(STREAM[0], mem128(raw, ref=AEAD_KEY))
    a.cmp(size, AES256_KEY_BYTES)
    with a.if_(NE):
        a.mov(key.rounds, AES128_ROUNDS)
        keys_128(a, key)
    with a.else_():
        a.mov(key.rounds, AES256_ROUNDS)
        keys_256(a, key)

    a.pxor(BLOCK, BLOCK)
    a.pxor(BLOCK, key.keys.m128())
    inner_rounds(a, (BLOCK,))
    last_rounds(a, (BLOCK,))
    reverse(a, BLOCK)
    _divide_by_x(a, BLOCK, WORK, MIDDLE)
    power = STREAM[0]
    a.movdqa(power, BLOCK)
    for n in range(GCM_POWERS):  # unrolled: H to H^9
        if n:
            a.movdqa(BLOCK, power)
            multiply_first(a, RDI, 1)
            reduce(a, power)
        a.movdqa(key.powers.m128(16 * n), power)
        a.pshufd(WORK, power, SWAP_HALVES)
        a.pxor(WORK, power)
        a.movdqa(key.halves.m128(16 * n), WORK)
    a.ret()


# -- the key stream -------------------------------------------------------------------------------
def _counters(a: Asm, blocks: tuple[Xmm, ...], *, more: bool = True) -> None:
    """Set the blocks to the next counters, with the first round key added."""
    a.movdqa(KEY, AesGcm.at(RDI).keys.m128())
    for block in blocks:  # unrolled
        a.movdqa(block, COUNTER)
        if more or block is not blocks[-1]:
            a.paddd(COUNTER, GCM_CONSTANTS.m128(ONE_AT))
        reverse(a, block)
        a.pxor(block, KEY)


def _text(at: int = 0) -> Mem128[int]:
    return mem128(RSI, at, ref=AEAD_TEXT)


def _hash_chunk(a: Asm, at: int) -> None:
    """Take eight blocks of ciphertext into SUM."""
    for n in range(GCM_WIDTH):  # unrolled
        load_block(a, _text(at + AES_BLOCK_BYTES * n))
        if n == 0:
            a.pxor(BLOCK, SUM)
            multiply_first(a, RDI, GCM_WIDTH)
        else:
            multiply_next(a, RDI, GCM_WIDTH - n)
    reduce(a, SUM)


def _cipher_chunk(a: Asm) -> None:
    """Add the key stream to eight blocks of text, and go on behind them."""
    for n, block in enumerate(STREAM):  # unrolled
        a.movdqu(KEY, _text(AES_BLOCK_BYTES * n))
        a.pxor(block, KEY)
        a.movdqu(_text(AES_BLOCK_BYTES * n), block)
    a.add(RSI, CHUNK)
    a.sub(EDX, CHUNK)


def _woven_chunk(a: Asm, hashed_at: int) -> None:
    """Cipher eight blocks while eight of ciphertext are hashed."""

    def cipher() -> None:
        _counters(a, STREAM)
        inner_rounds(a, STREAM)

    stitch(a, cipher, lambda: _hash_chunk(a, hashed_at))
    last_rounds(a, STREAM)
    _cipher_chunk(a)


# -- the parts of both directions -----------------------------------------------------------------
def _begin(a: Asm) -> None:
    """Hash the additional data, set the counter, encrypt the first one for the tag."""
    # The upper halves of lengths say nothing until they are cleared.
    a.mov(R11D, R9D)
    a.mov(R9D, R9D)
    a.pxor(SUM, SUM)
    with a.loop() as whole:
        a.cmp(R9D, AES_BLOCK_BYTES)
        a.leave(B, whole)
        load_block(a, mem128(R8, ref=AEAD_AAD))
        absorb(a, RDI)
        a.add(R8, AES_BLOCK_BYTES)
        a.sub(R9D, AES_BLOCK_BYTES)
        a.jmp(whole.top)
    a.test(R9D, R9D)
    with a.if_(NZ):
        gather(a)
        a.movq(BLOCK, RAX)
        a.movq(WORK, R10)
        a.punpcklqdq(BLOCK, WORK)
        reverse(a, BLOCK)
        absorb(a, RDI)

    a.movq(COUNTER, mem64(RCX, ref=AEAD_NONCE))
    a.movd(WORK, mem32(RCX, 8, ref=AEAD_NONCE))
    a.punpcklqdq(COUNTER, WORK)
    reverse(a, COUNTER)
    a.paddd(COUNTER, GCM_CONSTANTS.m128(ONE_AT))
    first = STREAM[:1]
    _counters(a, first)
    inner_rounds(a, first)
    last_rounds(a, first)
    a.movdqu(a.local(16), first[0])
    a.mov(R10D, EDX)
    a.mov(EDX, EDX)


def _take(a: Asm, *, seal: bool, keep: Xmm | None) -> None:
    """Cipher one block with the key stream in KEY, and add it to the sum of products."""
    a.movdqu(BLOCK, _text())
    if keep is not None:
        a.pand(KEY, keep)
    a.pxor(KEY, BLOCK)
    a.movdqu(_text(), KEY)
    if seal:
        a.movdqa(BLOCK, KEY)
    if keep is not None:
        a.pand(BLOCK, keep)
    reverse(a, BLOCK)
    a.pxor(BLOCK, SUM)
    a.pxor(SUM, SUM)
    multiply_next(a, R8, 1)


def _end(a: Asm, *, seal: bool) -> None:
    """Cipher and hash the up to 127 bytes that are left; set SUM to the tag, RSI behind the text."""
    # H^(n+1) for the first of n blocks, H for the lengths: R8 is the key, moved by n powers.
    a.lea(R8, mem8(RDX, AES_BLOCK_BYTES - 1, ref=AEAD_TEXT))
    a.and_(R8, -AES_BLOCK_BYTES)
    with a.if_(NZ):
        _counters(a, STREAM, more=False)
        inner_rounds(a, STREAM)
        last_rounds(a, STREAM)
        for n, block in enumerate(STREAM):  # unrolled
            a.movdqu(a.local(16, 16 * (n + 1)), block)
    a.add(R8, RDI)
    for part in (LOW, HIGH, MIDDLE):
        a.pxor(part, part)
    stream = mem128(RSP, 16, index=RAX, ref=STACK)
    a.xor(EAX, EAX)
    with a.loop() as whole:
        a.cmp(EDX, AES_BLOCK_BYTES)
        a.leave(B, whole)
        a.movdqu(KEY, stream)
        _take(a, seal=seal, keep=None)
        a.sub(R8, AES_BLOCK_BYTES)
        a.add(RSI, AES_BLOCK_BYTES)
        a.add(EAX, AES_BLOCK_BYTES)
        a.sub(EDX, AES_BLOCK_BYTES)
        a.jmp(whole.top)
    a.test(EDX, EDX)
    with a.if_(NZ):
        # The block is stored whole; behind the text it stays as it was.
        a.lea(RCX, GCM_CONSTANTS.m8(KEEP_AT + AES_BLOCK_BYTES))
        a.sub(RCX, RDX)
        a.movdqu(STREAM[0], mem128(RCX, ref=GCM_CONSTANTS))
        a.movdqu(KEY, stream)
        _take(a, seal=seal, keep=STREAM[0])
        a.add(RSI, RDX)

    a.shl(R10, 3)
    a.shl(R11, 3)
    a.movq(BLOCK, R10)
    a.movq(WORK, R11)
    a.punpcklqdq(BLOCK, WORK)
    a.pxor(BLOCK, SUM)
    multiply_next(a, RDI, 1)
    reduce(a, SUM)
    reverse(a, SUM)
    a.movdqu(KEY, a.local(16))
    a.pxor(SUM, KEY)
    # No key stream stays on the stack.
    a.pxor(KEY, KEY)
    for n in range(LOCALS // 16):  # unrolled
        a.movdqu(a.local(16, 16 * n), KEY)


@routine(
    inputs=WORKED,
    clobbers=CLOBBERS,
    reads=[AesGcm, AEAD_AAD, AEAD_NONCE, AEAD_TEXT, GCM_CONSTANTS],
    writes=[AEAD_TEXT],
    stack=LOCALS,
    secret=SECRET,
    source="SP 800-38D 7.1; RFC 8446 5.2",
)
def aes_gcm_seal_aesni(
    a: Asm, key: AesGcm, text: Reg64, length: Reg32, nonce: Reg64, aad: Reg64, aad_length: Reg32
) -> None:
    """Encrypt the text in place and write its tag behind it."""
    _begin(a)
    a.cmp(length, CHUNK)
    with a.if_(AE):
        # The ciphertext of one chunk is hashed while the next one is made.
        _counters(a, STREAM)
        inner_rounds(a, STREAM)
        last_rounds(a, STREAM)
        _cipher_chunk(a)
        with a.loop() as chunk:
            a.cmp(length, CHUNK)
            a.leave(B, chunk)
            _woven_chunk(a, -CHUNK)
            a.jmp(chunk.top)
        _hash_chunk(a, -CHUNK)
    _end(a, seal=True)
    a.movdqu(_text(), SUM)
    a.ret()


@routine(
    inputs=WORKED,
    outputs=[Out(CF, "1 = the tag is wrong")],
    clobbers=CLOBBERS,
    reads=[AesGcm, AEAD_AAD, AEAD_NONCE, AEAD_TEXT, GCM_CONSTANTS],
    writes=[AEAD_TEXT],
    stack=LOCALS,
    secret=SECRET,
    source="SP 800-38D 7.2",
)
def aes_gcm_decrypt_aesni(
    a: Asm, key: AesGcm, text: Reg64, length: Reg32, nonce: Reg64, aad: Reg64, aad_length: Reg32
) -> None:
    """Decrypt the text in place and compare its tag in constant time; for `open` alone."""
    _begin(a)
    with a.loop() as chunk:
        a.cmp(length, CHUNK)
        a.leave(B, chunk)
        _woven_chunk(a, 0)
        a.jmp(chunk.top)
    _end(a, seal=False)
    a.movdqu(WORK, _text())
    a.pcmpeqb(WORK, SUM)
    a.pmovmskb(EAX, WORK)
    a.xor(EAX, 0xFFFF)
    a.neg(EAX)  # CF = 1 unless every byte was the same
    a.ret()


@routine(
    inputs=WORKED,
    outputs=[Out(CF, "1 = the tag is wrong, and the text is wiped")],
    clobbers=(*CLOBBERS, RDI),
    writes=[AEAD_TEXT],
    calls=[aes_gcm_decrypt_aesni],
    saves=[RBX, RBP],
    source="SP 800-38D 7.2; RFC 8446 5.2",
)
def aes_gcm_open_aesni(
    a: Asm, key: AesGcm, text: Reg64, length: Reg32, nonce: Reg64, aad: Reg64, aad_length: Reg32
) -> None:
    """Decrypt the text in place if the tag behind it is right; otherwise nothing of it is left."""
    emit_open(a, aes_gcm_decrypt_aesni)
