"""Which variants are used."""

from emulator.effects import World, model
from emulator.models.crypto.known_answers import KNOWN_MODELS
from emulator.models.log import log
from firmware.layouts.log import CRYPTO_BROKEN, CRYPTO_CHOSEN, CRYPTO_VARIANT_WRONG
from firmware.layouts.variants import VARIANTS, Family, Variant

# Intel SDM volume 2, CPUID: ECX of leaf 1, and EBX of leaf 7.
_PCLMULQDQ, _SSSE3, _AESNI = 1, 9, 25
_BMI2, _ADX = 8, 19
_CHOICES = {
    Family.AES_GCM: "aes_gcm",
    Family.X25519: "x25519",
    Family.P256: "p256",
    Family.SIGNATURES: "signatures",
}


def _has(word: int, *bits: int) -> bool:
    return all(word >> bit & 1 for bit in bits)


@model
def crypto_begin(w: World) -> None:
    """The fast one where CPUID has it and its answers are right; without a right one no TLS."""
    chosen = w.g(VARIANTS)
    highest = w.cpuid(0)[0]
    features = w.cpuid(1)[2]
    extended = w.cpuid(7)[1] if highest >= 7 else 0
    aes = _has(features, _PCLMULQDQ, _SSSE3, _AESNI)
    adx = _has(extended, _BMI2, _ADX)
    usable = 1
    for family in Family:
        name, checks = _CHOICES.get(family), KNOWN_MODELS[family]
        if name is not None:
            if aes if family == Family.AES_GCM else adx:
                if not checks[Variant.FAST](w):
                    setattr(chosen, name, Variant.FAST)
                    continue
                log(w, CRYPTO_VARIANT_WRONG, None, family)
            setattr(chosen, name, Variant.BASE)
        if checks[Variant.BASE](w):
            log(w, CRYPTO_BROKEN, None, family)
            usable = 0
    chosen.usable = usable
    log(w, CRYPTO_CHOSEN, None, *(getattr(chosen, name) for name in _CHOICES.values()))
