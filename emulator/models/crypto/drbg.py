"""The random generator: what is served, what is kept, what is forgotten."""

from emulator.effects import World, model
from emulator.models.crypto.chacha20 import chacha20_block
from firmware.layouts.crypto import CHACHA_CONSTANTS, CHACHA_KEY_BYTES, DRBG, DRBG_POOL_BYTES
from firmware.layouts.entropy import SAMPLE_BYTES


@model
def drbg_refill(w: World) -> None:
    """Four blocks; the first half block is the next key and leaves the pool."""
    drbg = w.g(DRBG)
    drbg.constants[:] = CHACHA_CONSTANTS
    drbg.counter = 0
    for n in range(DRBG_POOL_BYTES // 64):
        chacha20_block(w, drbg.address_, drbg.offset_of("pool") + 64 * n)
        drbg.counter += 1
    drbg.key[:] = drbg.pool[:32]
    drbg.pool[:32] = bytes(32)
    drbg.available = DRBG_POOL_BYTES - 32
    drbg.refills += 1


def _take(w: World, count: int) -> bytes:
    drbg = w.g(DRBG)
    start = DRBG_POOL_BYTES - drbg.available
    served = bytes(drbg.pool[start : start + count])
    drbg.pool[start : start + count] = bytes(count)
    drbg.available -= count
    return served


@model
def drbg_u64(w: World) -> int:
    """Serve eight bytes of one pool, little-endian."""
    if w.g(DRBG).available < 8:
        drbg_refill(w)
    return int.from_bytes(_take(w, 8), "little")


@model
def drbg_bytes(w: World, out: int, length: int) -> None:
    """Serve bytes in order, refilling whenever the pool is empty."""
    while length:
        if not w.g(DRBG).available:
            drbg_refill(w)
        count = min(length, w.g(DRBG).available)
        w.write(out, _take(w, count))
        out, length = out + count, length - count


@model
def drbg_mix(w: World) -> None:
    """Key := refill of (key XOR half a seed), twice; the seed is gone."""
    drbg = w.g(DRBG)
    for at in range(0, SAMPLE_BYTES, CHACHA_KEY_BYTES):
        half = bytes(drbg.seed[at : at + CHACHA_KEY_BYTES])
        drbg.key[:] = bytes(k ^ s for k, s in zip(bytes(drbg.key), half, strict=True))
        drbg.seed[at : at + CHACHA_KEY_BYTES] = bytes(CHACHA_KEY_BYTES)
        drbg_refill(w)
