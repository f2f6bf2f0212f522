"""Which variants are used."""

from emulator.effects import World, model
from emulator.models.crypto.known_answers import KNOWN_MODELS
from emulator.models.log import log
from firmware.layouts.log import (
    CRYPTO_BROKEN,
    CRYPTO_CHOSEN,
    CRYPTO_HASHES,
    CRYPTO_VARIANT_WRONG,
)
from firmware.layouts.variants import VARIANTS, Family, Variant

# Intel SDM volume 2, CPUID: ECX of leaf 1, and EBX of leaf 7.
_PCLMULQDQ, _SSSE3, _AESNI = 1, 9, 25
_BMI2, _ADX, _SHA = 8, 19, 29
_CHOICES = {
    Family.SHA256: "sha256",
    Family.SHA512: "sha512",
    Family.AES_GCM: "aes_gcm",
    Family.X25519: "x25519",
    Family.P256: "p256",
    Family.SIGNATURES: "signatures",
    Family.ED25519: "ed25519",
}
_HASHES = ("sha256", "sha512")


def _has(word: int, *bits: int) -> bool:
    return all(word >> bit & 1 for bit in bits)


def _runs(features: int, extended: int, family: Family) -> list[Variant]:
    """Return what the processor has for a family, the best first."""
    if family == Family.SHA256:
        best = _has(extended, _SHA) and _has(features, _SSSE3)
        found = {Variant.FAST: best, Variant.MEDIUM: _has(extended, _BMI2)}
    elif family == Family.SHA512:
        found = {Variant.FAST: _has(extended, _BMI2)}
    elif family == Family.AES_GCM:
        found = {Variant.FAST: _has(features, _PCLMULQDQ, _SSSE3, _AESNI)}
    else:
        found = {Variant.FAST: _has(extended, _BMI2, _ADX)}
    return [variant for variant, has in found.items() if has]


def _chosen(w: World, runs: list[Variant], family: Family) -> Variant:
    """Return the first variant that gives its known answers; BASE is asked last."""
    for variant in runs:
        if not KNOWN_MODELS[family][variant](w):
            return variant
        log(w, CRYPTO_VARIANT_WRONG, None, family, variant)
    return Variant.BASE


@model
def crypto_begin(w: World) -> None:
    """The best that CPUID has and whose answers are right; without a right one no TLS."""
    chosen = w.g(VARIANTS)
    highest = w.cpuid(0)[0]
    features = w.cpuid(1)[2]
    extended = w.cpuid(7)[1] if highest >= 7 else 0
    usable = 1
    for family in Family:
        variant = Variant.BASE
        if family in _CHOICES:
            variant = _chosen(w, _runs(features, extended, family), family)
            setattr(chosen, _CHOICES[family], variant)
        if variant == Variant.BASE and KNOWN_MODELS[family][Variant.BASE](w):
            log(w, CRYPTO_BROKEN, None, family)
            usable = 0
    chosen.usable = usable
    log(w, CRYPTO_HASHES, None, *(getattr(chosen, name) for name in _HASHES))
    told = ("aes_gcm", "x25519", "p256", "signatures")
    log(w, CRYPTO_CHOSEN, None, *(getattr(chosen, name) for name in told))
