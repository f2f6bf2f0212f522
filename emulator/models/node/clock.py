"""A clock for a node that booted without one."""

from emulator.effects import World, model
from emulator.models.cpu.clock import clock_calibrate
from emulator.models.log import log_write
from emulator.models.node.lease import lease_begin, slots_wake
from firmware.layouts.log import BOOT_CLOCK
from firmware.layouts.node import CLOCK, CORE
from firmware.node.clock import RETRY_TURNS


@model
def clock_retry(w: World) -> None:
    """Each 128th turn is a try; success is told once, then the grant and the shards follow."""
    clock, core = w.g(CLOCK), w.g(CORE)
    if clock.tsc_cycles_per_ms or (core.turns + 1) % RETRY_TURNS:
        return
    clock_calibrate(w, clock.pm_port)
    if not clock.tsc_cycles_per_ms:
        return
    log_write(
        w, 0, BOOT_CLOCK, clock.tsc_cycles_per_ms, clock.spread_ppm, clock.source, clock.unix_time
    )
    core.now = w.rdtsc()
    lease_begin(w)
    slots_wake(w)
