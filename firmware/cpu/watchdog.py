"""The watchdog: it resets the machine unless the scheduler completes its passes."""

from firmware.layouts.cpu import WATCHDOG, WATCHDOG_REGISTERS, Watchdog
from firmware.layouts.node import CoreState, core
from toolchain.asm import NZ, RDX, Asm, mem16, routine

RELOAD = 0x0C
UNLOCK_1, UNLOCK_2, RELOAD_BIT = 0x80, 0x86, 0x100


@routine(
    clobbers=[RDX],
    reads=[Watchdog.registers],
    writes=[CoreState.kicks, WATCHDOG_REGISTERS],
    source="Intel 6300ESB data sheet, 16.5.2.4",
)
def watchdog_kick(a: Asm) -> None:
    """Start the watchdog's time again; only a complete pass over all shards may call this."""
    a.mov(RDX, WATCHDOG.it.registers)
    a.test(RDX, RDX)
    with a.if_(NZ):
        reload = mem16(RDX, RELOAD, ref=WATCHDOG_REGISTERS)
        a.mov(reload, UNLOCK_1)
        a.mov(reload, UNLOCK_2)
        a.mov(reload, RELOAD_BIT)
        a.inc(core.kicks)
    a.ret()
