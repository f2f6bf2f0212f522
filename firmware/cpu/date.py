"""The date now: the RTC's of the boot, and what the TSC has counted since."""

from firmware.layouts.clock import SECOND_MS
from firmware.layouts.node import CLOCK, Clock, CoreState, core
from toolchain.asm import EAX, EDX, NZ, RAX, RCX, RDX, Asm, B, Out, routine


@routine(
    outputs=[Out(RAX, "seconds since 1970; since the boot when the RTC held no date")],
    clobbers=[RCX, RDX],
    reads=[Clock.unix_time, Clock.unix_tsc, Clock.tsc_cycles_per_ms, CoreState.now],
    source="firmware/docs/clock.md#date",
)
def date_now(a: Asm) -> None:
    """Return the date of this turn; without a clock, the date of the boot."""
    a.xor(EDX, EDX)
    a.mov(RAX, core.now)
    a.sub(RAX, CLOCK.it.unix_tsc)
    with a.if_(B):
        a.xor(EAX, EAX)
    a.imul(RCX, CLOCK.it.tsc_cycles_per_ms, SECOND_MS)
    a.test(RCX, RCX)
    with a.if_(NZ):
        a.div(RCX)
    with a.else_():
        a.xor(EAX, EAX)
    a.add(RAX, CLOCK.it.unix_time)
    a.ret()
