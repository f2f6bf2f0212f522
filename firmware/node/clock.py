"""A node without a clock goes on trying to calibrate one: a loaded host may only have been late."""

from firmware.abi import CALLER_SAVED
from firmware.cpu.clock import clock_calibrate
from firmware.layouts.log import BOOT_CLOCK
from firmware.layouts.node import CLOCK, Clock, CoreState, core
from firmware.log import log, log_write
from firmware.node.lease import lease_begin, slots_wake
from toolchain.asm import AL, ECX, EDI, NZ, R8D, R9, RAX, RDX, Asm, Z, routine

RETRY_TURNS = 128
"""Turns between two tries. Without a clock a rest is 10 ms of the PIT, so they are a second apart."""


@routine(
    clobbers=CALLER_SAVED,
    reads=[
        Clock.tsc_cycles_per_ms,
        Clock.pm_port,
        Clock.spread_ppm,
        Clock.source,
        Clock.unix_time,
        CoreState.turns,
    ],
    writes=[CoreState.now],
    calls=[clock_calibrate, log_write, lease_begin, slots_wake],
    source="firmware/docs/clock.md#retry",
)
def clock_retry(a: Asm) -> None:
    """Calibrate once in RETRY_TURNS turns until it succeeds; then every shard is due."""
    done = a.label("done")
    a.cmp(CLOCK.it.tsc_cycles_per_ms, 0)
    a.j(NZ, done)
    a.mov(RAX, core.turns)
    a.inc(RAX)
    a.test(AL, RETRY_TURNS - 1)
    a.j(NZ, done)
    a.mov(EDI, CLOCK.it.pm_port)
    a.call(clock_calibrate)
    a.mov(RDX, CLOCK.it.tsc_cycles_per_ms)
    a.test(RDX, RDX)
    a.j(Z, done)
    a.mov(ECX, CLOCK.it.spread_ppm)
    a.mov(R8D, CLOCK.it.source)
    a.mov(R9, CLOCK.it.unix_time)
    log(a, BOOT_CLOCK)
    a.rdtsc64()
    a.mov(core.now, RAX)
    a.call(lease_begin)
    a.call(slots_wake)
    a.place(done)
    a.ret()
