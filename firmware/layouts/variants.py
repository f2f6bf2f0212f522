"""Which variant of the cryptography is used: chosen once at boot, by CPUID and known answers."""

from __future__ import annotations

import enum

from toolchain.layout import Global, Struct, enum32, u32


class Variant(enum.IntEnum):
    """BASE runs on every processor; the others need what CPUID tells of, MEDIUM less than FAST."""

    BASE = 0
    FAST = 1
    MEDIUM = 2


class Family(enum.IntEnum):
    """What is chosen together, in this order: the answers of signatures want hashes."""

    SHA256 = 0
    SHA512 = 1
    AES_GCM = 2
    CHACHA20_POLY1305 = 3
    X25519 = 4
    P256 = 5
    SIGNATURES = 6
    ED25519 = 7
    MLKEM = 8


class Variants(Struct):
    """The choice for each family that has one. Before boot has made it, BASE."""

    SIZE = 0x20
    usable = u32(0x00, "1 = every family gave its known answers; without it there is no TLS")
    aes_gcm = enum32(0x04, Variant, "AES-GCM: FAST is AES-NI with PCLMULQDQ")
    x25519 = enum32(0x08, Variant, "X25519: FAST is BMI2 with ADX")
    p256 = enum32(0x0C, Variant, "key agreement over P-256: FAST is BMI2 with ADX")
    signatures = enum32(0x10, Variant, "ECDSA and RSA: FAST is BMI2 with ADX")
    sha256 = enum32(0x14, Variant, "SHA-256: FAST is the SHA extensions, MEDIUM is BMI2")
    sha512 = enum32(0x18, Variant, "SHA-384 and SHA-512: FAST is BMI2")
    ed25519 = enum32(0x1C, Variant, "signatures of our own: FAST is BMI2 with ADX")


VARIANTS = Global("variants", Variants, "which variants of the cryptography are used", align=64)
