"""Checks of single variants: does each give its known answers? Boot asks before it uses one."""

from __future__ import annotations

from firmware.abi import CALLER_SAVED
from firmware.crypto.aes_gcm import aes_gcm_key_aesni, aes_gcm_open_aesni, aes_gcm_seal_aesni
from firmware.crypto.aes_gcm_soft import aes_gcm_open_soft, aes_gcm_seal_soft
from firmware.crypto.aes_key_soft import aes_gcm_key_soft
from firmware.crypto.chacha20_poly1305 import (
    chacha20_poly1305_key,
    chacha20_poly1305_open,
    chacha20_poly1305_seal,
)
from firmware.crypto.ecdsa import (
    ecdsa_p256_verify_adx,
    ecdsa_p256_verify_base,
    ecdsa_p384_verify_adx,
    ecdsa_p384_verify_base,
)
from firmware.crypto.ed25519 import (
    ed25519_key_adx,
    ed25519_key_base,
    ed25519_sign_adx,
    ed25519_sign_base,
)
from firmware.crypto.known_check import OUTPUTS, WRONG, W, compare, note, verdict
from firmware.crypto.known_mlkem import known_mlkem
from firmware.crypto.p256 import p256_agree_adx, p256_agree_base, p256_public_adx, p256_public_base
from firmware.crypto.rsa import rsa_recover_adx, rsa_recover_base
from firmware.crypto.rsa_encodings import FUNCTIONS, RSA_PKCS1
from firmware.crypto.sha2_blocks import sha256_blocks_base, sha512_blocks_base
from firmware.crypto.sha2_bmi2 import sha256_blocks_bmi2, sha512_blocks_bmi2
from firmware.crypto.sha256 import sha256_start
from firmware.crypto.sha256_shani import sha256_blocks_shani
from firmware.crypto.sha512 import sha512_start
from firmware.crypto.x25519 import x25519_adx, x25519_base
from firmware.layouts.crypto import HASH, SHA256_DIGEST_BYTES, SHA384_DIGEST_BYTES
from firmware.layouts.known_answers import (
    HASHED_SHA256,
    HASHED_SHA512,
    KNOWN_BLOCKS,
    KNOWN_ED25519,
    KNOWN_ED25519_MESSAGE,
    KNOWN_ED25519_SEED,
    KNOWN_P256,
    KNOWN_P256_PUBLIC,
    KNOWN_P256_SCALAR,
    KNOWN_P256_SHARE,
    KNOWN_RSA_DIGEST,
    KNOWN_RSA_EXPONENT,
    KNOWN_RSA_MODULUS,
    KNOWN_RSA_SIGNATURE,
    KNOWN_SAMPLE,
    KNOWN_X25519,
    KNOWN_X25519_POINT,
    KNOWN_X25519_SCALAR,
    SEALED_AES,
    SEALED_CHACHA,
    SIGNED_P256,
    SIGNED_P384,
    Hashed,
    KnownWork,
    Sealed,
)
from firmware.layouts.rsa import RSA, RsaKey
from firmware.layouts.variants import Family, Variant
from toolchain.asm import (
    ECX,
    EDX,
    NC,
    R8,
    R9D,
    RAX,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    Asm,
    B,
    Routine,
    routine,
)


def _hash(name: str, start: Routine, blocks: Routine, answer: Hashed) -> Routine:
    def body(a: Asm) -> None:
        """Mix two known blocks into the initial state."""
        a.xor(WRONG, WRONG)
        a.lea(RDI, HASH.it.state.address)
        a.call(start)
        a.lea(RDI, HASH.it.state.address)
        a.lea(RSI, answer.blocks.address)
        a.mov(ECX, KNOWN_BLOCKS)
        a.call(blocks)
        compare(a, HASH.it.state.address, answer.state)
        verdict(a)

    body.__name__ = f"known_{name}"
    return routine(
        outputs=OUTPUTS,
        clobbers=CALLER_SAVED,
        calls=[start, blocks],
        saves=[RBX],
        source="FIPS 180-4; NIST's example values of SHA-256 and SHA-512",
    )(body)


def _cipher(
    name: str, key: Routine, seal: Routine, open_: Routine, answers: tuple[Sealed, ...]
) -> Routine:
    def given(a: Asm, answer: Sealed) -> None:
        a.lea(RDI, W.key.address)
        a.lea(RSI, W.text.address)
        a.mov(EDX, answer.text.size)
        a.lea(RCX, answer.nonce.address)
        a.lea(R8, answer.aad.address)
        a.mov(R9D, answer.aad.size)

    def body(a: Asm) -> None:
        """Seal known texts, look at their tags, and open them again; a wrong tag opens nothing."""
        a.xor(WRONG, WRONG)
        for answer in answers:  # unrolled: three texts at most
            a.lea(RDI, W.key.address)
            a.lea(RSI, answer.key.address)
            a.mov(EDX, answer.key.size)
            a.call(key)
            a.lea(RSI, answer.text.address)
            a.lea(RDI, W.text.address)
            a.mov(ECX, answer.text.size)
            a.rep_movsb()
            given(a, answer)
            a.call(seal)
            compare(a, W.text.m8(answer.text.size), answer.tag)
            given(a, answer)
            a.call(open_)
            # A text that was refused is wiped.
            compare(a, W.text.address, answer.text)
            given(a, answer)
            a.call(seal)
            a.xor(W.text.m8(answer.text.size), 1)
            given(a, answer)
            a.call(open_)
            note(a, NC)
        verdict(a)

    body.__name__ = f"known_{name}"
    return routine(
        outputs=OUTPUTS,
        clobbers=CALLER_SAVED,
        reads=[KnownWork.text],
        writes=[KnownWork.text],
        saves=[RBX],
        calls=[key, seal, open_],
        source="firmware/layouts/known_answers.py",
    )(body)


def _x25519(level: str, multiply: Routine) -> Routine:
    def body(a: Asm) -> None:
        """Multiply a known point by a known scalar."""
        a.xor(WRONG, WRONG)
        a.lea(RDI, W.out.address)
        a.lea(RSI, KNOWN_X25519_SCALAR.address)
        a.lea(RDX, KNOWN_X25519_POINT.address)
        a.call(multiply)
        compare(a, W.out.address, KNOWN_X25519)
        verdict(a)

    body.__name__ = f"known_x25519_{level}"
    return routine(
        outputs=OUTPUTS,
        clobbers=CALLER_SAVED,
        calls=[multiply],
        saves=[RBX],
        source="RFC 7748 5.2",
    )(body)


def _p256(level: str, public: Routine, agree: Routine) -> Routine:
    def body(a: Asm) -> None:
        """Make the public half of a known key, and agree with a known share."""
        a.xor(WRONG, WRONG)
        a.lea(RDI, W.out.address)
        a.lea(RSI, KNOWN_P256_SCALAR.address)
        a.call(public)
        compare(a, W.out.address, KNOWN_P256_PUBLIC)
        a.lea(RDI, W.out.address)
        a.lea(RSI, KNOWN_P256_SCALAR.address)
        a.lea(RDX, KNOWN_P256_SHARE.address)
        a.call(agree)
        note(a, B)
        compare(a, W.out.address, KNOWN_P256)
        verdict(a)

    body.__name__ = f"known_p256_{level}"
    return routine(
        outputs=OUTPUTS,
        clobbers=CALLER_SAVED,
        calls=[public, agree],
        saves=[RBX],
        source="RFC 5903 8.1",
    )(body)


def _signatures(level: str, recover: Routine, p256: Routine, p384: Routine) -> Routine:
    hashed = (
        (FUNCTIONS["sha256"], SHA256_DIGEST_BYTES, SIGNED_P256, p256),
        (FUNCTIONS["sha384"], SHA384_DIGEST_BYTES, SIGNED_P384, p384),
    )

    def body(a: Asm) -> None:
        """Verify known signatures of RSA, P-256 and P-384; of another digest each is wrong."""
        key = RSA.it.key
        a.xor(WRONG, WRONG)
        a.lea(RAX, KNOWN_RSA_MODULUS.address)
        a.mov(key.modulus, RAX)
        a.mov(key.size, KNOWN_RSA_MODULUS.size)
        a.mov(key.exponent, KNOWN_RSA_EXPONENT)
        a.lea(RDI, key.modulus)
        a.lea(RSI, KNOWN_RSA_SIGNATURE.address)
        a.mov(ECX, KNOWN_RSA_SIGNATURE.size)
        a.call(recover)
        note(a, B)
        a.lea(RSI, KNOWN_RSA_DIGEST.address)
        a.lea(RDI, W.digest.address)
        a.mov(ECX, KNOWN_RSA_DIGEST.size)
        a.rep_movsb()
        for wrong in (B, NC):  # unrolled: the digest, and one with another bit
            a.lea(RSI, W.digest.address)
            a.call(RSA_PKCS1["sha256"])
            note(a, wrong)
            a.xor(W.digest.m8(), 1)
        for (start, update, finish), size, signed, verify in hashed:  # unrolled: two curves
            a.lea(RDI, HASH.it.state.address)
            a.call(start)
            a.lea(RDI, HASH.it.state.address)
            a.lea(RSI, KNOWN_SAMPLE.address)
            a.mov(ECX, KNOWN_SAMPLE.size)
            a.call(update)
            a.lea(RDI, HASH.it.state.address)
            a.lea(RSI, W.digest.address)
            a.call(finish)
            for wrong in (B, NC):  # unrolled: the digest, and one with another bit
                a.lea(RDI, signed.key.address)
                a.lea(RSI, signed.signature.address)
                a.lea(RDX, W.digest.address)
                a.mov(ECX, size)
                a.call(verify)
                note(a, wrong)
                a.xor(W.digest.m8(), 1)
        verdict(a)

    body.__name__ = f"known_signatures_{level}"
    return routine(
        outputs=OUTPUTS,
        clobbers=CALLER_SAVED,
        saves=[RBX],
        reads=[KnownWork.digest],
        writes=[RsaKey, KnownWork.digest],
        calls=[
            recover,
            RSA_PKCS1["sha256"],
            *(call for functions, *_ in hashed for call in functions),
            p256,
            p384,
        ],
        source="RFC 7515 A.2, RFC 6979 A.2.5 and A.2.6",
    )(body)


def _ed25519(level: str, make: Routine, sign: Routine) -> Routine:
    def body(a: Asm) -> None:
        """Sign a known message with a known key."""
        a.xor(WRONG, WRONG)
        a.lea(RDI, W.signer.scalar.address)
        a.lea(RSI, KNOWN_ED25519_SEED.address)
        a.call(make)
        a.lea(RDI, W.digest.address)
        a.lea(RSI, W.signer.scalar.address)
        a.lea(RDX, KNOWN_ED25519_MESSAGE.address)
        a.mov(ECX, KNOWN_ED25519_MESSAGE.size)
        a.call(sign)
        compare(a, W.digest.address, KNOWN_ED25519)
        verdict(a)

    body.__name__ = f"known_ed25519_{level}"
    return routine(
        outputs=OUTPUTS,
        clobbers=CALLER_SAVED,
        calls=[make, sign],
        saves=[RBX],
        source="RFC 8032 7.1",
    )(body)


KNOWN: dict[Family, dict[Variant, Routine]] = {
    Family.SHA256: {
        Variant.FAST: _hash("sha256_shani", sha256_start, sha256_blocks_shani, HASHED_SHA256),
        Variant.MEDIUM: _hash("sha256_bmi2", sha256_start, sha256_blocks_bmi2, HASHED_SHA256),
        Variant.BASE: _hash("sha256_base", sha256_start, sha256_blocks_base, HASHED_SHA256),
    },
    Family.SHA512: {
        Variant.FAST: _hash("sha512_bmi2", sha512_start, sha512_blocks_bmi2, HASHED_SHA512),
        Variant.BASE: _hash("sha512_base", sha512_start, sha512_blocks_base, HASHED_SHA512),
    },
    Family.AES_GCM: {
        Variant.FAST: _cipher(
            "aes_gcm_aesni", aes_gcm_key_aesni, aes_gcm_seal_aesni, aes_gcm_open_aesni, SEALED_AES
        ),
        Variant.BASE: _cipher(
            "aes_gcm_soft", aes_gcm_key_soft, aes_gcm_seal_soft, aes_gcm_open_soft, SEALED_AES
        ),
    },
    Family.CHACHA20_POLY1305: {
        Variant.BASE: _cipher(
            "chacha20_poly1305",
            chacha20_poly1305_key,
            chacha20_poly1305_seal,
            chacha20_poly1305_open,
            SEALED_CHACHA,
        ),
    },
    Family.X25519: {
        Variant.FAST: _x25519("adx", x25519_adx),
        Variant.BASE: _x25519("base", x25519_base),
    },
    Family.P256: {
        Variant.FAST: _p256("adx", p256_public_adx, p256_agree_adx),
        Variant.BASE: _p256("base", p256_public_base, p256_agree_base),
    },
    Family.SIGNATURES: {
        Variant.FAST: _signatures(
            "adx", rsa_recover_adx, ecdsa_p256_verify_adx, ecdsa_p384_verify_adx
        ),
        Variant.BASE: _signatures(
            "base", rsa_recover_base, ecdsa_p256_verify_base, ecdsa_p384_verify_base
        ),
    },
    Family.ED25519: {
        Variant.FAST: _ed25519("adx", ed25519_key_adx, ed25519_sign_adx),
        Variant.BASE: _ed25519("base", ed25519_key_base, ed25519_sign_base),
    },
    Family.MLKEM: {Variant.BASE: known_mlkem},
}
"""Every variant's check."""
