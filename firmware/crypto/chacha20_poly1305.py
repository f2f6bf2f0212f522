"""ChaCha20-Poly1305 (RFC 8439 2.8) with SSE2 and 64-bit integers: what every x86-64 has.

Key stream is made four blocks at a time, and the hash of four blocks is woven in between: the one
keeps the vector units busy, the other the multiplier. Texts lie in place with their tag behind; a text
whose tag is wrong is wiped, as in `aes_gcm`.
"""

from firmware.crypto.aead import emit_open, gather
from firmware.crypto.chacha20_four import (
    DOUBLE_ROUNDS,
    ROW,
    SPILL,
    VECTORS,
    chacha20_four,
    collect,
    double_round,
    spread,
    wipe_spill,
)
from firmware.crypto.poly1305 import H0, H1, absorb, begin, finish
from firmware.layouts.aead import (
    AEAD_AAD,
    AEAD_KEY,
    AEAD_NONCE,
    AEAD_TEXT,
    CHACHA_KEEP_AT,
    CHACHA_ROW_AT,
    CHACHA_TABLE,
    ChaChaPoly,
)
from firmware.layouts.crypto import CHACHA_BLOCK_BYTES
from toolchain.asm import (
    AE,
    CF,
    EBX,
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
    XMM0,
    XMM1,
    XMM2,
    Asm,
    B,
    In,
    Mem64,
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
from toolchain.asm.stitch import stitch

CHUNK = 4 * CHACHA_BLOCK_BYTES
BLOCK = 16
WOVEN = CHUNK // BLOCK // 2
"""Double rounds beside which two blocks each are hashed; the others follow alone."""
LENGTHS_AT, ROUNDS_AT, LOCALS = SPILL, SPILL + 16, SPILL + 24
SAVES = (RBX, RBP, R12, R13, R14, R15)
CLOBBERS = (RAX, RCX, RDX, RSI, R8, R9, R10, R11, *VECTORS)
SECRET = [ChaChaPoly.matrix, ChaChaPoly.stream, ChaChaPoly.pad, AEAD_TEXT]
WORKED = [
    In(RDI, ChaChaPoly, "the key"),
    In(RSI, int, "the text; 16 bytes behind it belong to the tag"),
    In(EDX, int, "its bytes; at most 2^31"),
    In(RCX, int, "the nonce; 12 bytes, never twice with a key"),
    In(R8, int, "the additional data"),
    In(R9D, int, "its bytes"),
]


@routine(
    inputs=[
        In(RDI, ChaChaPoly, "where the key goes"),
        In(RSI, int, "the key's bytes"),
        In(EDX, int, "how many: 32"),
    ],
    clobbers=[XMM0],
    reads=[AEAD_KEY, CHACHA_TABLE],
    writes=[ChaChaPoly.matrix],
    secret=[ChaChaPoly.matrix, AEAD_KEY],
    source="RFC 8439 2.3",
)
def chacha20_poly1305_key(a: Asm, key: ChaChaPoly, raw: Reg64, size: Reg32) -> None:
    """Lay the key down as rows of the matrix."""
    a.movdqa(XMM0, CHACHA_TABLE.m128(CHACHA_ROW_AT))
    a.movdqa(key.matrix.m128(), XMM0)
    for at in (0, ROW):  # unrolled: two rows
        a.movdqu(XMM0, mem128(raw, at, ref=AEAD_KEY))
        a.movdqa(key.matrix.m128(ROW + at), XMM0)
    a.ret()


def _text(at: int = 0) -> Mem128[int]:
    return mem128(RSI, at, ref=AEAD_TEXT)


def _half(base: Reg64, at: int) -> Mem64[int]:
    return mem64(base, at, ref=AEAD_TEXT)


# -- the parts of both directions -----------------------------------------------------------------
def _begin(a: Asm, key: ChaChaPoly) -> None:
    """Make the first four blocks of key stream, hash the additional data."""
    a.mov(EBX, EDX)
    a.mov(a.local(8, LENGTHS_AT + 8), RBX)
    a.mov(R9D, R9D)
    a.mov(a.local(8, LENGTHS_AT), R9)
    a.movq(XMM0, mem64(RCX, ref=AEAD_NONCE))
    a.movd(XMM1, mem32(RCX, 8, ref=AEAD_NONCE))
    a.punpcklqdq(XMM0, XMM1)
    a.pslldq(XMM0, 4)  # the counter, zero, comes before the nonce
    a.movdqa(key.matrix.m128(3 * ROW), XMM0)
    a.call(chacha20_four)
    begin(a)

    a.mov(RCX, R8)
    a.mov(a.local(8, ROUNDS_AT), R9)
    with a.loop() as whole:
        a.cmp(a.local(8, ROUNDS_AT), BLOCK)
        a.leave(B, whole)
        absorb(a, mem64(RCX, ref=AEAD_AAD), mem64(RCX, 8, ref=AEAD_AAD))
        a.add(RCX, BLOCK)
        a.sub(a.local(8, ROUNDS_AT), BLOCK)
        a.jmp(whole.top)
    a.mov(R8, RCX)
    a.mov(R9, a.local(8, ROUNDS_AT))
    a.test(R9D, R9D)
    with a.if_(NZ):
        gather(a)
        absorb(a, RAX, R10)


def _take(a: Asm, key: ChaChaPoly, *, seal: bool) -> None:
    """Cipher and hash blocks with the key stream from RCX on, until either is used up."""
    with a.loop() as whole:
        a.cmp(EBX, BLOCK)
        a.leave(B, whole)
        a.cmp(ECX, CHUNK)
        a.leave(AE, whole)
        a.movdqu(XMM0, _text())
        a.pxor(XMM0, key.stream.m128(index=RCX))
        if seal:
            a.movdqu(_text(), XMM0)
        absorb(a, _half(RSI, 0), _half(RSI, 8))
        if not seal:
            a.movdqu(_text(), XMM0)
        a.add(RSI, BLOCK)
        a.add(ECX, BLOCK)
        a.sub(EBX, BLOCK)
        a.jmp(whole.top)


def _rest(a: Asm, key: ChaChaPoly, *, seal: bool) -> None:
    """Cipher and hash the last EBX bytes, fewer than 16, if there are any."""
    a.test(EBX, EBX)
    with a.if_(NZ):
        # The block is stored whole; behind the text it stays as it was.
        a.lea(R8, CHACHA_TABLE.m8(CHACHA_KEEP_AT + BLOCK))
        a.sub(R8, RBX)
        a.movdqu(XMM2, mem128(R8, ref=CHACHA_TABLE))
        a.movdqa(XMM1, key.stream.m128(index=RCX))
        a.pand(XMM1, XMM2)
        a.movdqu(XMM0, _text())
        a.pxor(XMM1, XMM0)
        a.movdqu(_text(), XMM1)
        hashed = XMM1 if seal else XMM0
        a.pand(hashed, XMM2)
        a.movq(R8, hashed)
        a.psrldq(hashed, 8)
        a.movq(R9, hashed)
        absorb(a, R8, R9)
        a.add(RSI, RBX)


def _woven_chunk(a: Asm, hashed_at: int) -> None:
    """Cipher four blocks while four of ciphertext are hashed."""
    rounds = a.local(8, ROUNDS_AT)

    def cipher(at: int, block: Xmm, free: Xmm) -> None:
        a.movdqu(free, _text(at))
        a.pxor(block, free)
        a.movdqu(_text(at), block)

    def hash_two() -> None:
        for at in (0, BLOCK):  # unrolled: two blocks
            absorb(a, _half(RCX, at), _half(RCX, at + 8))

    spread(a)
    a.lea(RCX, mem64(RSI, hashed_at, ref=AEAD_TEXT))
    a.mov(rounds, WOVEN)
    with a.loop() as both:
        stitch(a, lambda: double_round(a), hash_two)
        a.add(RCX, 2 * BLOCK)
        a.dec(rounds)
        a.again(NZ, both)
    a.mov(rounds, DOUBLE_ROUNDS - WOVEN)
    with a.loop() as alone:
        double_round(a)
        a.dec(rounds)
        a.again(NZ, alone)
    collect(a, cipher)
    a.add(RSI, CHUNK)
    a.sub(EBX, CHUNK)


def _bulk(a: Asm, key: ChaChaPoly, *, seal: bool) -> None:
    """Cipher and hash whole chunks."""
    a.cmp(EBX, CHUNK)
    with a.if_(AE):
        if seal:
            # The ciphertext of one chunk is hashed while the next one is made.
            a.call(chacha20_four)
            for at in range(0, CHUNK, BLOCK):  # unrolled: sixteen blocks
                a.movdqu(XMM0, _text(at))
                a.pxor(XMM0, key.stream.m128(at))
                a.movdqu(_text(at), XMM0)
            a.add(RSI, CHUNK)
            a.sub(EBX, CHUNK)
        with a.loop() as chunk:
            a.cmp(EBX, CHUNK)
            a.leave(B, chunk)
            _woven_chunk(a, -CHUNK if seal else 0)
            a.jmp(chunk.top)
        if seal:
            a.lea(RCX, mem64(RSI, -CHUNK, ref=AEAD_TEXT))
            with a.loop() as block:
                absorb(a, _half(RCX, 0), _half(RCX, 8))
                a.add(RCX, BLOCK)
                a.cmp(RCX, RSI)
                a.again(B, block)


def _work(a: Asm, key: ChaChaPoly, *, seal: bool) -> None:
    """Cipher and hash the whole text; leave the tag in H1:H0 and RSI behind the text."""
    _begin(a, key)
    # The first block was for the hash; three are for the text.
    a.mov(ECX, CHACHA_BLOCK_BYTES)
    with a.loop() as part:
        _take(a, key, seal=seal)
        a.cmp(ECX, CHUNK)
        a.leave(B, part)
        _bulk(a, key, seal=seal)
        a.test(EBX, EBX)
        a.leave(Z, part)
        a.call(chacha20_four)
        a.xor(ECX, ECX)
        a.jmp(part.top)
    _rest(a, key, seal=seal)
    absorb(a, a.local(8, LENGTHS_AT), a.local(8, LENGTHS_AT + 8))
    finish(a)
    # Neither key stream nor pad stays.
    wipe_spill(a)
    a.pxor(XMM0, XMM0)
    for at in range(ChaChaPoly.stream.offset, ChaChaPoly.SIZE, 16):  # unrolled
        a.movdqa(key.stream.m128(at - ChaChaPoly.stream.offset), XMM0)


@routine(
    inputs=WORKED,
    clobbers=CLOBBERS,
    reads=[ChaChaPoly, AEAD_AAD, AEAD_NONCE, AEAD_TEXT, CHACHA_TABLE],
    writes=[ChaChaPoly, AEAD_TEXT],
    calls=[chacha20_four],
    saves=SAVES,
    stack=LOCALS,
    secret=SECRET,
    source="RFC 8439 2.8; RFC 8446 5.2",
)
def chacha20_poly1305_seal(
    a: Asm, key: ChaChaPoly, text: Reg64, length: Reg32, nonce: Reg64, aad: Reg64, aad_length: Reg32
) -> None:
    """Encrypt the text in place and write its tag behind it."""
    _work(a, key, seal=True)
    a.mov(_half(RSI, 0), H0)
    a.mov(_half(RSI, 8), H1)
    a.ret()


@routine(
    inputs=WORKED,
    outputs=[Out(CF, "1 = the tag is wrong")],
    clobbers=CLOBBERS,
    reads=[ChaChaPoly, AEAD_AAD, AEAD_NONCE, AEAD_TEXT, CHACHA_TABLE],
    writes=[ChaChaPoly, AEAD_TEXT],
    calls=[chacha20_four],
    saves=SAVES,
    stack=LOCALS,
    secret=SECRET,
    source="RFC 8439 2.8",
)
def chacha20_poly1305_decrypt(
    a: Asm, key: ChaChaPoly, text: Reg64, length: Reg32, nonce: Reg64, aad: Reg64, aad_length: Reg32
) -> None:
    """Decrypt the text in place and compare its tag in constant time; for `open` alone."""
    _work(a, key, seal=False)
    a.xor(H0, _half(RSI, 0))
    a.xor(H1, _half(RSI, 8))
    a.or_(H0, H1)
    a.neg(H0)  # CF = 1 unless it was zero
    a.ret()


@routine(
    inputs=WORKED,
    outputs=[Out(CF, "1 = the tag is wrong, and the text is wiped")],
    clobbers=(*CLOBBERS, RDI),
    writes=[AEAD_TEXT],
    calls=[chacha20_poly1305_decrypt],
    saves=[RBX, RBP],
    source="RFC 8439 2.8; RFC 8446 5.2",
)
def chacha20_poly1305_open(
    a: Asm, key: ChaChaPoly, text: Reg64, length: Reg32, nonce: Reg64, aad: Reg64, aad_length: Reg32
) -> None:
    """Decrypt the text in place if the tag behind it is right; otherwise nothing of it is left."""
    emit_open(a, chacha20_poly1305_decrypt)
