"""Which variant of the cryptography is used: chosen once at boot, by CPUID and known answers."""

from __future__ import annotations

import enum

from toolchain.layout import Global, Struct, enum32, u32


class Variant(enum.IntEnum):
    """BASE runs on every processor; FAST needs what CPUID tells of."""

    BASE = 0
    FAST = 1


class Family(enum.IntEnum):
    """What is chosen together."""

    AES_GCM = 0
    CHACHA20_POLY1305 = 1
    X25519 = 2
    P256 = 3
    SIGNATURES = 4


class Variants(Struct):
    """The choice for each family that has one. Before boot has made it, BASE."""

    SIZE = 0x18
    usable = u32(0x00, "1 = every family gave its known answers; without it there is no TLS")
    aes_gcm = enum32(0x04, Variant, "AES-GCM: FAST is AES-NI with PCLMULQDQ")
    x25519 = enum32(0x08, Variant, "X25519: FAST is BMI2 with ADX")
    p256 = enum32(0x0C, Variant, "key agreement over P-256: FAST is BMI2 with ADX")
    signatures = enum32(0x10, Variant, "ECDSA and RSA: FAST is BMI2 with ADX")


VARIANTS = Global("variants", Variants, "which variants of the cryptography are used", align=64)
