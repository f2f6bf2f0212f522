"""What boot chose."""

from emulator.effects import World, model
from emulator.models.crypto.aes_gcm import (
    aes_gcm_key_aesni,
    aes_gcm_open_aesni,
    aes_gcm_seal_aesni,
)
from emulator.models.crypto.aes_gcm_soft import aes_gcm_open_soft, aes_gcm_seal_soft
from emulator.models.crypto.aes_key_soft import aes_gcm_key_soft
from emulator.models.crypto.p256 import P256_MODELS
from emulator.models.crypto.sha2_blocks import sha256_blocks_base, sha512_blocks_base
from emulator.models.crypto.sha2_bmi2 import sha256_blocks_bmi2, sha512_blocks_bmi2
from emulator.models.crypto.sha256_shani import sha256_blocks_shani
from emulator.models.crypto.x25519 import MODELS_X25519
from firmware.layouts.field import Level
from firmware.layouts.variants import VARIANTS, Variant

_SHA256 = {Variant.FAST: sha256_blocks_shani, Variant.MEDIUM: sha256_blocks_bmi2}


def is_fast(w: World, family: str) -> bool:
    """Tell whether a family's fast variant is used."""
    return bool(getattr(w.g(VARIANTS), family) == 1)


def level_of(w: World, family: str) -> Level:
    """Return the level of a family whose variants are of field arithmetic."""
    return Level.ADX if is_fast(w, family) else Level.BASE


@model
def sha256_blocks(w: World, work: int, blocks: int, count: int) -> int:
    """FIPS 180-4 6.2.2."""
    mix = _SHA256.get(w.g(VARIANTS).sha256, sha256_blocks_base)
    return int(mix(w, work, blocks, count))


@model
def sha512_blocks(w: World, work: int, blocks: int, count: int) -> int:
    """FIPS 180-4 6.4.2."""
    mix = sha512_blocks_bmi2 if is_fast(w, "sha512") else sha512_blocks_base
    return int(mix(w, work, blocks, count))


@model
def aes_gcm_key(w: World, key: int, raw: int, size: int) -> None:
    """SP 800-38D 5.2."""
    (aes_gcm_key_aesni if is_fast(w, "aes_gcm") else aes_gcm_key_soft)(w, key, raw, size)


@model
def aes_gcm_seal(
    w: World, key: int, text: int, length: int, nonce: int, aad: int, aad_length: int
) -> None:
    """SP 800-38D 7.1."""
    seal = aes_gcm_seal_aesni if is_fast(w, "aes_gcm") else aes_gcm_seal_soft
    seal(w, key, text, length, nonce, aad, aad_length)


@model
def aes_gcm_open(
    w: World, key: int, text: int, length: int, nonce: int, aad: int, aad_length: int
) -> int:
    """SP 800-38D 7.2."""
    opened = aes_gcm_open_aesni if is_fast(w, "aes_gcm") else aes_gcm_open_soft
    return int(opened(w, key, text, length, nonce, aad, aad_length))


@model
def x25519(w: World, out: int, scalar: int, point: int) -> int:
    """RFC 7748 5."""
    return int(MODELS_X25519[level_of(w, "x25519")](w, out, scalar, point))


@model
def p256_public(w: World, out: int, scalar: int) -> None:
    """A multiple of the base point."""
    P256_MODELS[level_of(w, "p256")][1](w, out, scalar)


@model
def p256_agree(w: World, out: int, scalar: int, share: int) -> int:
    """A multiple of the peer's point."""
    return int(P256_MODELS[level_of(w, "p256")][0](w, out, scalar, share))
