"""NATS's nkeys: the seed of a user as an operator has it, as what the node signs with.

A seed is base32 of two bytes that name its kind, 32 bytes of Ed25519 private key, and a CRC16 (XMODEM) of
both, little endian; the public key has one byte of kind. Source: NATS, nkeys, "Encoding".
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass, field

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

NKEY_ENV = "SHARDFW_FLEET_NKEY"
SEED_CHARS = 58
SEED_KIND, USER_KIND = 18 << 3, 20 << 3
CHECK_BYTES = 2
MAKE_ONE = "Make one with: shardfw fleet nkey FILE, or nk -gen user; its seed begins with SU"


@dataclass(frozen=True)
class Nkey:
    """The key of a user.

    Attributes:
        seed: The Ed25519 private key, 32 bytes.
        public: The public key as text, U and 55 characters.
    """

    seed: bytes = field(repr=False)
    public: str


def parse_nkey(text: str) -> Nkey:
    """Return the key of a user's seed.

    Raises:
        ValueError: It is none. The message does not repeat it.
    """
    text = text.strip()
    if not text:
        raise ValueError(f"the seed is empty. {MAKE_ONE}")
    if re.fullmatch(r"U[A-Z2-7]{55}", text):
        raise ValueError("this is the public key, U...; the node signs with its seed, SU...")
    if not re.fullmatch(r"[A-Z2-7]+", text):
        raise ValueError(
            "the seed holds a character that is not A to Z or 2 to 7. Copy it again, alone on one "
            "line"
        )
    if len(text) != SEED_CHARS:
        raise ValueError(
            f"the seed has {len(text)} characters, not {SEED_CHARS}. Copy it again, alone on one line"
        )
    raw = base64.b32decode(text + "=" * (-len(text) % 8))
    kind = (raw[0] & 7) << 5 | raw[1] >> 3
    if raw[0] & 0xF8 != SEED_KIND:
        raise ValueError(f"the key begins with {text[0]}, so it is no seed. {MAKE_ONE}")
    if kind != USER_KIND:
        raise ValueError(
            f"the seed begins with {text[:2]}, so it is not that of a user. {MAKE_ONE}"
        )
    body, check = raw[:-CHECK_BYTES], raw[-CHECK_BYTES:]
    if _check(body) != check:
        raise ValueError("the seed's checksum is wrong: a character is. Copy it again")
    return nkey_of(body[2:])


def nkey_of(seed: bytes) -> Nkey:
    """Return the key of a private key, 32 bytes."""
    public = Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()
    body = bytes([USER_KIND]) + public
    return Nkey(seed, base64.b32encode(body + _check(body)).decode().rstrip("="))


def seed_text(seed: bytes) -> str:
    """Return a private key, 32 bytes, as operators keep it: SU and 56 characters."""
    body = bytes([SEED_KIND | USER_KIND >> 5, (USER_KIND & 31) << 3]) + seed
    return base64.b32encode(body + _check(body)).decode().rstrip("=")


def _check(body: bytes) -> bytes:
    return binascii.crc_hqx(body, 0).to_bytes(CHECK_BYTES, "little")
