"""The pages that a warm reset keeps."""

from emulator.effects import World, model
from firmware.layouts.survivor import SURVIVAL, SURVIVOR, Survivor
from firmware.memory.kept import SUM_FACTOR, SUM_START, SUM_TURN

SUMMED = Survivor.boots.offset


@model
def kept_sum(w: World, first: int, count: int) -> int:
    """Each quadword is mixed in, then the sum is turned and multiplied by an odd number."""
    total = SUM_START
    for n in range(count):
        total ^= w.u64(first + 8 * n)
        total = (total << SUM_TURN | total >> 64 - SUM_TURN) % 2**64
        total = total * SUM_FACTOR % 2**64
    return total


@model
def survivor_store(w: World) -> None:
    """Nothing before the page was looked at; else sum and copy."""
    page, facts = w.g(SURVIVAL).page, w.g(SURVIVOR)
    if not page:
        return
    facts.sum = kept_sum(w, facts.address_ + SUMMED, (Survivor.SIZE - SUMMED) // 8)
    w.write(page, w.read(facts.address_, Survivor.SIZE))
