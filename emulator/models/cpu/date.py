"""The date now."""

from emulator.effects import World, model
from firmware.layouts.node import CLOCK, CORE

MS_PER_S = 1000


@model
def date_now(w: World) -> int:
    """Whole seconds of TSC since the RTC was read, on top of its date."""
    clock = w.g(CLOCK)
    elapsed = max(w.g(CORE).now - clock.unix_tsc, 0)
    second = clock.tsc_cycles_per_ms * MS_PER_S % 2**64
    return int((clock.unix_time + (elapsed // second if second else 0)) % 2**64)
