"""Which sources are asked, what makes a sample count, and what becomes of each."""

import struct
from collections import Counter
from collections.abc import Callable

from emulator.effects import World, model
from emulator.models.crypto.drbg import drbg_mix
from emulator.models.log import log
from emulator.models.virtio.rng import rng_gather
from firmware.layouts.crypto import DRBG
from firmware.layouts.entropy import Gathered, SourceState
from firmware.layouts.log import ENTROPY_FAILED, ENTROPY_GATHERED
from firmware.layouts.node import CLOCK, NETWORK


def _numbers(w: World, out: int, tries: int, ask: Callable[[], tuple[bool, int]]) -> int:
    """Eight numbers, each within some tries; the first that does not come ends it."""
    for n in range(8):
        for _ in range(tries):
            good, value = ask()
            if good:
                w.write(out + 8 * n, value.to_bytes(8, "little"))
                break
        else:
            return Gathered.BROKEN
    return Gathered.COMPLETE


@model
def entropy_rdseed(w: World, out: int) -> int:
    """When leaf 7 exists and has its bit: 512 tries for each number."""
    if w.cpuid(0)[0] < 7 or not w.cpuid(7)[1] >> 18 & 1:
        return Gathered.ABSENT
    return _numbers(w, out, 512, w.rdseed)


@model
def entropy_rdrand(w: World, out: int) -> int:
    """When leaf 1 has its bit: ten tries for each number."""
    if not w.cpuid(1)[2] >> 30 & 1:
        return Gathered.ABSENT
    return _numbers(w, out, 10, w.rdrand)


@model
def entropy_judge(w: World) -> int:
    """Zero, all ones, a number that comes twice, or more than 16 bits that never change."""
    numbers = struct.unpack("<8Q", bytes(w.g(DRBG).seed))
    still = sum(len({number >> bit & 1 for number in numbers}) == 1 for bit in range(64))
    twice = any(count > 1 for count in Counter(numbers).values())
    return int(0 in numbers or 2**64 - 1 in numbers or twice or still > 16)


@model
def entropy_gather(w: World) -> None:
    """Time, address and dates first; then each source, credited when whole and healthy."""
    drbg, clock = w.g(DRBG), w.g(CLOCK)
    mac = bytes(w.g(NETWORK).mac)
    now = w.rdtsc()
    drbg.seed[:32] = struct.pack("<Q6sxxQQ", now, mac, clock.unix_time, clock.boot_tsc)
    drbg_mix(w)
    if drbg.seeded == 0:
        drbg.weak = 1
    for n, gather in enumerate((entropy_rdseed, entropy_rdrand, rng_gather)):
        fate = gather(w, drbg.seed.address)
        if fate == Gathered.ABSENT:
            drbg.sources[n] = SourceState.ABSENT
            continue
        before = drbg.sources[n]
        if fate == Gathered.COMPLETE and not entropy_judge(w):
            drbg.sources[n] = SourceState.CREDITED
            drbg.weak = 0
        else:
            drbg.sources[n] = SourceState.FAILED
            if before != SourceState.FAILED:
                log(w, ENTROPY_FAILED, None, n)
        drbg_mix(w)
    drbg.seeded += 1
    log(w, ENTROPY_GATHERED, None, *bytes(drbg.sources)[:3])
