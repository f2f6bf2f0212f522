"""Known answers: the published numbers, computed anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.models.crypto.aes_gcm import (
    aes_gcm_key_aesni,
    aes_gcm_open_aesni,
    aes_gcm_seal_aesni,
)
from emulator.models.crypto.aes_gcm_soft import aes_gcm_open_soft, aes_gcm_seal_soft
from emulator.models.crypto.aes_key_soft import aes_gcm_key_soft
from emulator.models.crypto.chacha20_poly1305 import (
    chacha20_poly1305_key,
    chacha20_poly1305_open,
    chacha20_poly1305_seal,
)
from emulator.models.crypto.ecdsa import ECDSA_MODELS
from emulator.models.crypto.ed25519 import ED25519_MODELS
from emulator.models.crypto.known_mlkem import known_mlkem
from emulator.models.crypto.p256 import P256_MODELS
from emulator.models.crypto.rsa import RECOVER_MODELS
from emulator.models.crypto.rsa_encodings import PKCS1_MODELS
from emulator.models.crypto.sha2_blocks import sha256_blocks_base, sha512_blocks_base
from emulator.models.crypto.sha2_bmi2 import sha256_blocks_bmi2, sha512_blocks_bmi2
from emulator.models.crypto.sha256 import sha256_finish, sha256_start, sha256_update
from emulator.models.crypto.sha256_shani import sha256_blocks_shani
from emulator.models.crypto.sha512 import (
    sha384_finish,
    sha384_start,
    sha512_start,
    sha512_update,
)
from emulator.models.crypto.variants import variant
from emulator.models.crypto.x25519 import MODELS_X25519
from firmware.layouts.crypto import HASH
from firmware.layouts.field import Level
from firmware.layouts.known_answers import (
    HASHED_SHA256,
    HASHED_SHA512,
    KNOWN_ED25519,
    KNOWN_ED25519_MESSAGE,
    KNOWN_ED25519_SEED,
    KNOWN_P256,
    KNOWN_P256_PUBLIC,
    KNOWN_P256_SCALAR,
    KNOWN_P256_SHARE,
    KNOWN_RSA_DIGEST,
    KNOWN_RSA_MODULUS,
    KNOWN_RSA_SIGNATURE,
    KNOWN_SAMPLE,
    KNOWN_WORK,
    KNOWN_X25519,
    KNOWN_X25519_POINT,
    KNOWN_X25519_SCALAR,
    SEALED_AES,
    SEALED_CHACHA,
    SIGNED_P256,
    SIGNED_P384,
    Hashed,
    Sealed,
)
from firmware.layouts.rsa import RSA
from firmware.layouts.variants import Family, Variant

if TYPE_CHECKING:
    from collections.abc import Callable

    from emulator.effects import World


def _flip(w: World, at: int) -> None:
    """Change the lowest bit of a byte."""
    w.write(at, bytes([w.u8(at) ^ 1]))


def _hash(
    name: str, start: Callable[..., None], blocks: Callable[..., int], answer: Hashed
) -> Callable[..., int]:
    def known(w: World) -> int:
        """Return 1 unless both blocks leave the words of the digest."""
        work, size = w.address(HASH), answer.state.size
        start(w, work)
        blocks(w, work, w.address(answer.blocks), 2)
        return int(w.read(work, size) != w.read(w.address(answer.state), size))

    return variant(f"known_{name}", known)


def _cipher(
    name: str,
    key: Callable[..., None],
    seal: Callable[..., None],
    open_: Callable[..., int],
    answers: tuple[Sealed, ...],
) -> Callable[..., int]:
    def known(w: World) -> int:
        """Return 1 for a tag that is wrong, or a text that does not come back."""
        work, wrong = w.g(KNOWN_WORK), False
        made, text = work.offset_of("key"), work.offset_of("text")
        for answer in answers:
            size = answer.text.size
            plain = w.read(w.address(answer.text), size)
            key(w, made, w.address(answer.key), answer.key.size)
            w.write(text, plain)
            aad = w.address(answer.aad), answer.aad.size
            given = (made, text, size, w.address(answer.nonce), *aad)
            seal(w, *given)
            wrong |= w.read(text + size, 16) != w.read(w.address(answer.tag), 16)
            open_(w, *given)
            wrong |= w.read(text, size) != plain
            seal(w, *given)
            _flip(w, text + size)
            wrong |= not open_(w, *given)
        return int(wrong)

    return variant(f"known_{name}", known)


def _x25519(level: Level) -> Callable[..., int]:
    def known(w: World) -> int:
        """RFC 7748 5.2."""
        out = w.g(KNOWN_WORK).offset_of("out")
        MODELS_X25519[level](w, out, w.address(KNOWN_X25519_SCALAR), w.address(KNOWN_X25519_POINT))
        return int(w.read(out, 32) != w.read(w.address(KNOWN_X25519), 32))

    return variant(f"known_x25519_{level.value}", known)


def _p256(level: Level) -> Callable[..., int]:
    def known(w: World) -> int:
        """RFC 5903 8.1."""
        out = w.g(KNOWN_WORK).offset_of("out")
        agree, public = P256_MODELS[level]
        public(w, out, w.address(KNOWN_P256_SCALAR))
        wrong = w.read(out, 65) != w.read(w.address(KNOWN_P256_PUBLIC), 65)
        refused = agree(w, out, w.address(KNOWN_P256_SCALAR), w.address(KNOWN_P256_SHARE))
        return int(wrong) | refused | int(w.read(out, 32) != w.read(w.address(KNOWN_P256), 32))

    return variant(f"known_p256_{level.value}", known)


def _signatures(level: Level) -> Callable[..., int]:
    def known(w: World) -> int:
        """RFC 7515 A.2, RFC 6979 A.2.5, RFC 6979 A.2.6."""
        key, digest = w.g(RSA).key, w.g(KNOWN_WORK).offset_of("digest")
        key.modulus, key.size, key.exponent = w.address(KNOWN_RSA_MODULUS), 256, 65537
        wrong = RECOVER_MODELS[level](w, key.address_, w.address(KNOWN_RSA_SIGNATURE), 256)
        w.write(digest, w.read(w.address(KNOWN_RSA_DIGEST), 32))
        wrong |= PKCS1_MODELS["sha256"](w, digest)
        _flip(w, digest)
        wrong |= 1 - PKCS1_MODELS["sha256"](w, digest)
        _flip(w, digest)
        hash_ = w.address(HASH)
        for start, update, finish, size, signed, curve in (
            (sha256_start, sha256_update, sha256_finish, 32, SIGNED_P256, "p256"),
            (sha384_start, sha512_update, sha384_finish, 48, SIGNED_P384, "p384"),
        ):
            start(w, hash_)
            update(w, hash_, w.address(KNOWN_SAMPLE), len(b"sample"))
            finish(w, hash_, digest)
            point, numbers = w.address(signed.key), w.address(signed.signature)
            wrong |= ECDSA_MODELS[curve, level](w, point, numbers, digest, size)
            _flip(w, digest)
            wrong |= 1 - ECDSA_MODELS[curve, level](w, point, numbers, digest, size)
            _flip(w, digest)
        return wrong

    return variant(f"known_signatures_{level.value}", known)


def _ed25519(level: Level) -> Callable[..., int]:
    def known(w: World) -> int:
        """RFC 8032 7.1, test 3."""
        work = w.g(KNOWN_WORK)
        signer, out = work.offset_of("signer"), work.offset_of("digest")
        make, sign = ED25519_MODELS[level]
        make(w, signer, w.address(KNOWN_ED25519_SEED))
        sign(w, out, signer, w.address(KNOWN_ED25519_MESSAGE), 2)
        return int(w.read(out, 64) != w.read(w.address(KNOWN_ED25519), 64))

    return variant(f"known_ed25519_{level.value}", known)


def _levels(of: Callable[[Level], Callable[..., int]]) -> dict[Variant, Callable[..., int]]:
    return {Variant.FAST: of(Level.ADX), Variant.BASE: of(Level.BASE)}


KNOWN_MODELS: dict[Family, dict[Variant, Callable[..., int]]] = {
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
    Family.X25519: _levels(_x25519),
    Family.P256: _levels(_p256),
    Family.SIGNATURES: _levels(_signatures),
    Family.ED25519: _levels(_ed25519),
    Family.MLKEM: {Variant.BASE: known_mlkem},
}
"""The models by family and variant."""
