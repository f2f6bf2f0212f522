"""Which variants of the cryptography this processor runs: CPUID first, then their known answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from firmware.abi import CALLER_SAVED
from firmware.crypto.known_answers import KNOWN
from firmware.layouts.log import (
    CRYPTO_BROKEN,
    CRYPTO_CHOSEN,
    CRYPTO_HASHES,
    CRYPTO_VARIANT_WRONG,
)
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
    from toolchain.asm import Mem32
    from toolchain.asm.assembler import Label

LEAF_FEATURES, LEAF_EXTENDED = 1, 7
AES_BITS = 1 << 25 | 1 << 9 | 1 << 1
"""AES-NI, SSSE3 and PCLMULQDQ in ECX of leaf 1."""
SHUFFLE_BIT = 1 << 9
"""SSSE3 in ECX of leaf 1."""
SHA_BIT, TURN_BIT = 1 << 29, 1 << 8
"""The SHA extensions and BMI2 in EBX of leaf 7."""
FIELD_BITS = 1 << 19 | TURN_BIT
"""ADX and BMI2 in EBX of leaf 7."""
FEATURES, EXTENDED, USABLE = R12D, R13D, R14D


@dataclass(frozen=True)
class Choice:
    """A variant that not every processor runs.

    Attributes:
        variant: Which.
        features: Bits of ECX of leaf 1 that it needs.
        extended: Bits of EBX of leaf 7 that it needs.
    """

    variant: Variant
    features: int = 0
    extended: int = 0


@dataclass(frozen=True)
class Row:
    """What is chosen for a family, and by what.

    Attributes:
        family: Which.
        chosen: Where the choice goes; None when there is no other variant than BASE.
        choices: The others, the best one first.
    """

    family: Family
    chosen: Mem32[Variant] | None = None
    choices: tuple[Choice, ...] = ()


_V = VARIANTS.it
_ADX = (Choice(Variant.FAST, extended=FIELD_BITS),)
FAMILIES = (
    Row(
        Family.SHA256,
        _V.sha256,
        (
            Choice(Variant.FAST, features=SHUFFLE_BIT, extended=SHA_BIT),
            Choice(Variant.MEDIUM, extended=TURN_BIT),
        ),
    ),
    Row(Family.SHA512, _V.sha512, (Choice(Variant.FAST, extended=TURN_BIT),)),
    Row(Family.AES_GCM, _V.aes_gcm, (Choice(Variant.FAST, features=AES_BITS),)),
    Row(Family.CHACHA20_POLY1305),
    Row(Family.X25519, _V.x25519, _ADX),
    Row(Family.P256, _V.p256, _ADX),
    Row(Family.SIGNATURES, _V.signatures, _ADX),
    Row(Family.ED25519, _V.ed25519, _ADX),
    Row(Family.MLKEM),
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


def _try(a: Asm, row: Row, choice: Choice, done: Label) -> None:
    """Leave to `done` with a variant chosen, if the processor has it and its answers are right."""
    if row.chosen is None:
        raise ValueError(f"{row.family.name} has a choice and nowhere to note it; set `chosen`")
    following = a.label("following")
    for word, needs in ((FEATURES, choice.features), (EXTENDED, choice.extended)):
        if needs:
            a.mov(EAX, word)
            a.and_(EAX, needs)
            a.cmp(EAX, needs)
            a.j(NE, following)
    a.call(KNOWN[row.family][choice.variant])
    with a.if_(AE):
        a.mov(row.chosen, choice.variant)
        a.jmp(done)
    a.mov(EDX, row.family)
    a.mov(ECX, choice.variant)
    log(a, CRYPTO_VARIANT_WRONG)
    a.place(following)


@routine(
    clobbers=CALLER_SAVED,
    writes=[Variants],
    reads=[Variants],
    calls=[*(check for variants in KNOWN.values() for check in variants.values()), log_write],
    saves=[RBX, R12, R13, R14],
    source="Intel SDM volume 2, CPUID; firmware/docs/tls.md#variants",
)
def crypto_begin(a: Asm) -> None:
    """Choose a variant of each family; one that gives a wrong answer is never used."""
    _features(a)
    a.mov(USABLE, 1)
    for row in FAMILIES:  # unrolled: nine families
        done = a.label("done")
        for choice in row.choices:  # unrolled: two at most
            _try(a, row, choice, done)
        if row.chosen is not None:
            a.mov(row.chosen, Variant.BASE)
        a.call(KNOWN[row.family][Variant.BASE])
        with a.if_(B):
            a.mov(EDX, row.family)
            log(a, CRYPTO_BROKEN)
            a.xor(USABLE, USABLE)
        a.place(done)
    a.mov(_V.usable, USABLE)
    a.mov(EDX, _V.sha256)
    a.mov(ECX, _V.sha512)
    log(a, CRYPTO_HASHES)
    a.mov(EDX, _V.aes_gcm)
    a.mov(ECX, _V.x25519)
    a.mov(R8D, _V.p256)
    a.mov(R9D, _V.signatures)
    log(a, CRYPTO_CHOSEN)
    a.ret()
