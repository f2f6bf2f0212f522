"""The random generator: what is served, what is kept, what is forgotten."""

import struct

from emulator.effects import World, model
from emulator.models.crypto.chacha20 import chacha20_block
from firmware.layouts.crypto import CHACHA_CONSTANTS, DRBG, DRBG_POOL_BYTES
from firmware.layouts.node import CLOCK, NETWORK

_ENTROPY_BYTES = 32


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
def entropy_none(w: World, out: int) -> int:
    """There is no hardware entropy."""
    return 1


@model
def entropy_rdrand(w: World, out: int) -> int:
    """Gather four numbers, each within ten tries; the first that fails ends it."""
    for n in range(_ENTROPY_BYTES // 8):
        for _ in range(10):
            good, value = w.rdrand()
            if good:
                w.write(out + 8 * n, value.to_bytes(8, "little"))
                break
        else:
            return 1
    return 0


@model
def drbg_mix(w: World) -> None:
    """Key := refill of (key XOR seed); the seed is gone."""
    drbg = w.g(DRBG)
    mixed = bytes(k ^ s for k, s in zip(bytes(drbg.key), bytes(drbg.seed), strict=True))
    drbg.key[:] = mixed
    drbg.seed[:] = bytes(_ENTROPY_BYTES)
    drbg_refill(w)


@model
def drbg_seed(w: World) -> None:
    """Mix time, address and dates in, then what RDRAND gives when CPUID says it exists."""
    drbg, clock = w.g(DRBG), w.g(CLOCK)
    mac = bytes(w.g(NETWORK).mac)
    drbg.seed[:] = struct.pack("<Q6sxxQQ", w.rdtsc(), mac, clock.unix_time, clock.boot_tsc)
    drbg_mix(w)
    has_rdrand = w.cpuid(1)[2] >> 30 & 1
    gather = entropy_rdrand if has_rdrand else entropy_none
    drbg.source = w.address("entropy_rdrand" if has_rdrand else "entropy_none")
    drbg.weak = gather(w, drbg.offset_of("seed"))
    drbg_mix(w)
    drbg.seeded += 1
