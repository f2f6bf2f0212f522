"""Spans of the lease algorithm, in cycles: D, how long its holder trusts it, how long others wait."""

from emulator.effects import World
from firmware.layouts.node import CLOCK


def grant_span(w: World, duration_ms: int) -> int:
    """D."""
    return int(duration_ms * w.g(CLOCK).tsc_cycles_per_ms)


def hold_span(w: World, duration_ms: int) -> int:
    """D (1 - 1 %) - 250 ms - 1,750 ms."""
    return int((duration_ms * 99 // 100 - 2_000) * w.g(CLOCK).tsc_cycles_per_ms)


def wait_span(w: World, duration_ms: int) -> int:
    """D (1 + 1 %) + 500 ms."""
    return int((-(-duration_ms * 101 // 100) + 500) * w.g(CLOCK).tsc_cycles_per_ms)
