"""Which variants of the cryptography this processor runs: CPUID first, then their known answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from firmware.abi import CALLER_SAVED
from firmware.crypto.known_answers import KNOWN
from firmware.layouts.log import CRYPTO_BROKEN, CRYPTO_CHOSEN, CRYPTO_VARIANT_WRONG
from firmware.layouts.variants import VARIANTS, Family, Variant, Variants
from firmware.log import log, log_write
from toolchain.asm import (
    AE,
    EAX,
    EBX,
    ECX,
    EDX,
    NE,
    R8D,
    R9D,
    R12,
    R12D,
    R13,
    R13D,
    R14,
    R14D,
    RBX,
    Asm,
    B,
    routine,
)

if TYPE_CHECKING:
    from toolchain.asm import Mem32, Reg32

LEAF_FEATURES, LEAF_EXTENDED = 1, 7
AES_BITS = 1 << 25 | 1 << 9 | 1 << 1
"""AES-NI, SSSE3 and PCLMULQDQ in ECX of leaf 1."""
FIELD_BITS = 1 << 19 | 1 << 8
"""ADX and BMI2 in EBX of leaf 7."""
FEATURES, EXTENDED, USABLE = R12D, R13D, R14D


@dataclass(frozen=True)
class Row:
    """What is chosen for a family, and by what.

    Attributes:
        family: Which.
        chosen: Where the choice goes; None when there is no other variant.
        word: Where the bits of CPUID are.
        needs: Those that FAST needs.
    """

    family: Family
    chosen: Mem32[Variant] | None = None
    word: Reg32 = FEATURES
    needs: int = 0


_V = VARIANTS.it
FAMILIES = (
    Row(Family.AES_GCM, _V.aes_gcm, FEATURES, AES_BITS),
    Row(Family.CHACHA20_POLY1305),
    Row(Family.X25519, _V.x25519, EXTENDED, FIELD_BITS),
    Row(Family.P256, _V.p256, EXTENDED, FIELD_BITS),
    Row(Family.SIGNATURES, _V.signatures, EXTENDED, FIELD_BITS),
)


def _features(a: Asm) -> None:
    """FEATURES and EXTENDED := what CPUID says; a leaf that is not there says nothing."""
    a.xor(EAX, EAX)
    a.xor(ECX, ECX)
    a.cpuid()
    a.mov(USABLE, EAX)
    a.mov(EAX, LEAF_FEATURES)
    a.xor(ECX, ECX)
    a.cpuid()
    a.mov(FEATURES, ECX)
    a.xor(EXTENDED, EXTENDED)
    a.cmp(USABLE, LEAF_EXTENDED)
    with a.if_(AE):
        a.mov(EAX, LEAF_EXTENDED)
        a.xor(ECX, ECX)
        a.cpuid()
        a.mov(EXTENDED, EBX)


@routine(
    clobbers=CALLER_SAVED,
    writes=[Variants],
    reads=[Variants.aes_gcm, Variants.x25519, Variants.p256, Variants.signatures],
    calls=[*(check for variants in KNOWN.values() for check in variants.values()), log_write],
    saves=[RBX, R12, R13, R14],
    source="Intel SDM volume 2, CPUID; firmware/docs/tls.md#variants",
)
def crypto_begin(a: Asm) -> None:
    """Choose a variant of each family; one that gives a wrong answer is never used."""
    _features(a)
    a.mov(USABLE, 1)
    for row in FAMILIES:  # unrolled: five families
        checks, done, base = KNOWN[row.family], a.label("done"), a.label("base")
        if row.chosen is not None:
            a.mov(EAX, row.word)
            a.and_(EAX, row.needs)
            a.cmp(EAX, row.needs)
            a.j(NE, base)
            a.call(checks[Variant.FAST])
            with a.if_(AE):
                a.mov(row.chosen, Variant.FAST)
                a.jmp(done)
            a.mov(EDX, row.family)
            log(a, CRYPTO_VARIANT_WRONG)
            a.place(base)
            a.mov(row.chosen, Variant.BASE)
        a.call(checks[Variant.BASE])
        with a.if_(B):
            a.mov(EDX, row.family)
            log(a, CRYPTO_BROKEN)
            a.xor(USABLE, USABLE)
        a.place(done)
    a.mov(_V.usable, USABLE)
    a.mov(EDX, _V.aes_gcm)
    a.mov(ECX, _V.x25519)
    a.mov(R8D, _V.p256)
    a.mov(R9D, _V.signatures)
    log(a, CRYPTO_CHOSEN)
    a.ret()
