"""GHASH's product."""

from emulator.effects import World, model
from emulator.models.crypto.gcm import product
from firmware.layouts.aead import AesGcmSoft

CLASSES = [0x1111_1111_1111_1111 << n for n in range(4)]


def reversed_bits(x: int) -> int:
    """Return a quadword turned around."""
    return int(f"{x:064b}"[::-1], 2)


def factors(h: int) -> bytes:
    """Return what a key keeps: halves of H and their sum, those reversed, each in four classes."""
    high, low = h >> 64, h & (1 << 64) - 1
    straight = [low, high, low ^ high]
    kept = (x & part for x in straight + [reversed_bits(x) for x in straight] for part in CLASSES)
    return b"".join(x.to_bytes(8, "little") for x in kept)


def h_of(w: World, key: int) -> int:
    """Return H: the classes of its two halves, put together."""
    raw = bytes(w.view(AesGcmSoft, key).factors)
    words = [int.from_bytes(raw[8 * n : 8 * n + 8], "little") for n in range(8)]
    return sum(words[4:]) << 64 | sum(words[:4])


@model
def ghash_soft(w: World, key: int, high: int, low: int) -> tuple[int, int]:
    """(sum and block) H, as SP 800-38D 6.3 multiplies."""
    made = product(high << 64 | low, h_of(w, key))
    return made >> 64, made & (1 << 64) - 1
