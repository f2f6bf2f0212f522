"""HPKE (RFC 9180) as a receiver in base mode: a key pair, and the one message sealed to it.

X25519, HKDF-SHA256 and ChaCha20-Poly1305. Only the first message of a context is opened; its key is
made, used and wiped in one call. The work space holds zeros between two of them.
"""

from __future__ import annotations

from firmware.abi import CALLER_SAVED
from firmware.crypto.chacha20_poly1305 import chacha20_poly1305_key, chacha20_poly1305_open
from firmware.crypto.chosen import x25519
from firmware.crypto.drbg import drbg_bytes
from firmware.crypto.hkdf import hkdf_sha256_expand
from firmware.crypto.hmac import hmac_sha256_finish, hmac_sha256_start
from firmware.crypto.sha256 import sha256_update
from firmware.layouts.crypto import BUFFER_IN, DRBG, HMAC, SHA256_DIGEST_BYTES, Drbg
from firmware.layouts.hpke import (
    HPKE,
    HPKE_BASE_NONCE,
    HPKE_CONTEXT_START,
    HPKE_EAE_PRK,
    HPKE_ENC_BYTES,
    HPKE_INFO_HASH,
    HPKE_KEY,
    HPKE_OVERHEAD,
    HPKE_SECRET,
    HPKE_SHARED_SECRET,
    Hpke,
    HpkeKeys,
)
from firmware.layouts.x25519 import X25519_BASE_POINT, X25519_BYTES
from toolchain.asm import (
    CF,
    EAX,
    EBP,
    ECX,
    EDX,
    NE,
    R8,
    R8D,
    R9,
    R9D,
    R10,
    R10D,
    R11,
    R12,
    R13,
    R13D,
    R14,
    R15,
    R15D,
    RBP,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    Asm,
    B,
    In,
    Mem8,
    Out,
    Reg32,
    Reg64,
    routine,
)
from toolchain.layout import Data

W = HPKE.it
_DIGEST = SHA256_DIGEST_BYTES
_ENC_WORDS = HPKE_ENC_BYTES // 8


def _append(a: Asm, start: Reg64, length: Reg32) -> None:
    """Append to the message of HMAC."""
    a.lea(RDI, HMAC.it.hash.state.address)
    a.mov(RSI, start)
    a.mov(ECX, length)
    a.call(sha256_update)


def _label(a: Asm, label: Data) -> None:
    a.lea(RDX, label.address)
    a.mov(R8D, label.size)


@routine(
    inputs=[
        In(RSI, int, "the salt"),
        In(ECX, int, "its bytes; any number"),
        In(RDX, int, "version, suite and label"),
        In(R8D, int, "their bytes"),
        In(R9, int, "the keying material"),
        In(R10D, int, "its bytes; any number"),
        In(RDI, int, "where the pseudorandom key goes; a digest"),
    ],
    clobbers=CALLER_SAVED,
    calls=[hmac_sha256_start, sha256_update, hmac_sha256_finish],
    saves=[RBX, RBP, R12, R13, R14],
    secret=[BUFFER_IN],
    source="RFC 9180 4; RFC 5869 2.2",
)
def hpke_labeled_extract(
    a: Asm,
    salt: Reg64,
    salt_bytes: Reg32,
    label: Reg64,
    label_bytes: Reg32,
    ikm: Reg64,
    ikm_bytes: Reg32,
    prk: Reg64,
) -> None:
    """HKDF-Extract of a label and keying material, which need not lie in one piece."""
    a.mov(RBX, label)
    a.mov(EBP, label_bytes)
    a.mov(R12, ikm)
    a.mov(R13D, ikm_bytes)
    a.mov(R14, prk)
    a.call(hmac_sha256_start)
    _append(a, RBX, EBP)
    _append(a, R12, R13D)
    a.mov(RDI, R14)
    a.call(hmac_sha256_finish)
    a.ret()


@routine(
    inputs=[
        In(RSI, int, "the pseudorandom key; a digest"),
        In(RDX, int, "length, version, suite and label"),
        In(R8D, int, "their bytes; at most 32"),
        In(R9D, int, "bytes of `Hpke.context` that are the info"),
        In(RDI, int, "where the output goes"),
        In(ECX, int, "its bytes, as in the label"),
    ],
    clobbers=CALLER_SAVED,
    reads=[Hpke.context, BUFFER_IN],
    writes=[Hpke.info],
    calls=[hkdf_sha256_expand],
    secret=[BUFFER_IN],
    source="RFC 9180 4; RFC 5869 2.3",
)
def hpke_labeled_expand(
    a: Asm,
    prk: Reg64,
    label: Reg64,
    label_bytes: Reg32,
    info_bytes: Reg32,
    out: Reg64,
    out_bytes: Reg32,
) -> None:
    """HKDF-Expand with a label and the context as info."""
    a.mov(R10, RSI)
    a.mov(R11, RDI)
    a.mov(EAX, out_bytes)
    a.lea(RDI, W.info.address)
    a.mov(RSI, label)
    a.mov(ECX, label_bytes)
    a.rep_movsb()
    a.lea(RSI, W.context.address)
    a.mov(ECX, info_bytes)
    a.rep_movsb()
    a.lea(RDX, W.info.address)
    a.add(R8D, R9D)
    a.mov(RSI, R10)
    a.mov(RDI, R11)
    a.mov(ECX, EAX)
    a.jmp(hkdf_sha256_expand)


def _expand(
    a: Asm, prk: Mem8[int], label: Data, info_bytes: int, out: Mem8[int], size: int
) -> None:
    a.lea(RSI, prk)
    _label(a, label)
    a.mov(R9D, info_bytes)
    a.lea(RDI, out)
    a.mov(ECX, size)
    a.call(hpke_labeled_expand)


@routine(
    inputs=[In(RDI, HpkeKeys, "where the pair goes")],
    outputs=[Out(CF, "1 = refused: no source of entropy was ever credited, and nothing is drawn")],
    clobbers=CALLER_SAVED,
    reads=[Drbg.weak],
    calls=[drbg_bytes, x25519],
    saves=[R12],
    source="RFC 9180 4.1, GenerateKeyPair; RFC 7748 6.1",
)
def hpke_generate(a: Asm, keys: HpkeKeys) -> None:
    """Draw a private key and make its public one."""
    pair = HpkeKeys.at(R12)
    a.cmp(DRBG.it.weak, 0)
    with a.if_(NE):
        a.stc()
        a.ret()
    a.mov(R12, RDI)
    a.lea(RDI, pair.private.address)
    a.mov(ECX, X25519_BYTES)
    a.call(drbg_bytes)
    a.lea(RDI, pair.public.address)
    a.lea(RSI, pair.private.address)
    a.lea(RDX, X25519_BASE_POINT.address)
    a.call(x25519)
    a.clc()
    a.ret()


@routine(
    inputs=[
        In(RDI, HpkeKeys, "the receiver's pair"),
        In(RSI, int, "enc: the sender's public key; 32 bytes"),
    ],
    outputs=[Out(CF, "1 = enc is a point of small order: the shared secret would be no secret")],
    clobbers=CALLER_SAVED,
    reads=[HpkeKeys, BUFFER_IN],
    writes=[Hpke.shared, Hpke.prk, Hpke.context],
    calls=[x25519, hpke_labeled_extract, hpke_labeled_expand],
    saves=[RBX, R12],
    secret=[HpkeKeys.private, Hpke.shared, Hpke.prk, BUFFER_IN],
    source="RFC 9180 4.1, Decap; 7.1.4",
)
def hpke_decap(a: Asm, keys: HpkeKeys, enc: Reg64) -> None:
    """Make `Hpke.shared` the shared_secret of the sender and this pair."""
    a.mov(RBX, RDI)
    a.mov(R12, RSI)
    pair = HpkeKeys.at(RBX)
    a.lea(RDI, W.shared.address)
    a.lea(RSI, pair.private.address)
    a.mov(RDX, R12)
    a.call(x25519)
    with a.if_(B):
        a.ret()  # CF = 1
    a.lea(RSI, W.shared.address)
    a.xor(ECX, ECX)  # no salt
    _label(a, HPKE_EAE_PRK)
    a.mov(R9, RSI)
    a.mov(R10D, X25519_BYTES)
    a.lea(RDI, W.prk.address)
    a.call(hpke_labeled_extract)
    # kem_context is both public keys.
    a.lea(RDI, W.context.address)
    a.mov(RSI, R12)
    a.mov(ECX, _ENC_WORDS)
    a.rep_movsq()
    a.lea(RSI, pair.public.address)
    a.mov(ECX, X25519_BYTES // 8)
    a.rep_movsq()
    size = HPKE_ENC_BYTES + X25519_BYTES
    _expand(a, W.prk.address, HPKE_SHARED_SECRET, size, W.shared.address, _DIGEST)
    a.clc()
    a.ret()


@routine(
    inputs=[In(RSI, int, "the info"), In(ECX, int, "its bytes; any number")],
    clobbers=CALLER_SAVED,
    writes=[Hpke],
    calls=[hpke_labeled_extract, hpke_labeled_expand, chacha20_poly1305_key],
    secret=[Hpke.shared, Hpke.prk, Hpke.nonce, Hpke.key],
    source="RFC 9180 5.1, KeySchedule",
)
def hpke_key_schedule(a: Asm, info: Reg64, info_bytes: Reg32) -> None:
    """Make key and nonce of the first message from `Hpke.shared` and the info."""
    a.mov(R9, info)
    a.mov(R10D, info_bytes)
    a.lea(RDI, W.context.address)
    a.lea(RSI, HPKE_CONTEXT_START.address)
    a.mov(ECX, HPKE_CONTEXT_START.size)
    a.rep_movsb()
    a.mov(RSI, RDI)
    a.xor(ECX, ECX)  # no salt
    _label(a, HPKE_INFO_HASH)
    a.call(hpke_labeled_extract)

    a.lea(RSI, W.shared.address)
    a.mov(ECX, _DIGEST)
    _label(a, HPKE_SECRET)
    a.mov(R9, RSI)
    a.xor(R10D, R10D)  # no psk
    a.lea(RDI, W.prk.address)
    a.call(hpke_labeled_extract)
    size = Hpke.context.size
    _expand(a, W.prk.address, HPKE_KEY, size, W.shared.address, Hpke.shared.size)
    _expand(a, W.prk.address, HPKE_BASE_NONCE, size, W.nonce.address, Hpke.nonce.size)
    a.lea(RDI, W.key.matrix.address)
    a.lea(RSI, W.shared.address)
    a.mov(EDX, Hpke.shared.size)
    a.jmp(chacha20_poly1305_key)


@routine(
    inputs=[
        In(RDI, HpkeKeys, "the receiver's pair"),
        In(RSI, int, "the message: enc, ciphertext, tag; its text is left behind enc"),
        In(ECX, int, "its bytes; any number"),
        In(RDX, int, "the info"),
        In(R8D, int, "its bytes"),
        In(R9, int, "the additional data"),
        In(R10D, int, "its bytes"),
    ],
    outputs=[Out(CF, "1 = refused: too short, a point of small order, or not sealed like this")],
    clobbers=CALLER_SAVED,
    writes=[Hpke],
    calls=[hpke_decap, hpke_key_schedule, chacha20_poly1305_open],
    saves=[RBX, RBP, R12, R13, R14, R15],
    secret=[Hpke],
    source="RFC 9180 6.1, Open",
)
def hpke_open(
    a: Asm,
    keys: HpkeKeys,
    message: Reg64,
    length: Reg32,
    info: Reg64,
    info_bytes: Reg32,
    aad: Reg64,
    aad_bytes: Reg32,
) -> None:
    """Open a message in place; what was computed for it is wiped, and a refused text too."""
    refused = a.label("refused")
    a.sub(ECX, HPKE_OVERHEAD)
    with a.if_(B):
        a.ret()  # CF = 1
    a.mov(RBX, message)
    a.mov(EBP, ECX)
    a.mov(R12, info)
    a.mov(R13D, info_bytes)
    a.mov(R14, aad)
    a.mov(R15D, aad_bytes)
    a.call(hpke_decap)
    a.j(B, refused)
    a.mov(RSI, R12)
    a.mov(ECX, R13D)
    a.call(hpke_key_schedule)
    a.lea(RDI, W.key.matrix.address)
    a.add(RBX, HPKE_ENC_BYTES)
    a.mov(RSI, RBX)
    a.mov(EDX, EBP)
    a.lea(RCX, W.nonce.address)
    a.mov(R8, R14)
    a.mov(R9D, R15D)
    a.call(chacha20_poly1305_open)
    a.place(refused)
    a.lea(RDI, HPKE.address)
    a.mov(ECX, Hpke.SIZE // 8)
    # The verdict outlives the erasure: no flag changes in between.
    a.mov(EAX, 0)
    a.rep_stosq()
    a.ret()
