"""The end of a node that was stopped."""

from firmware.abi import CALLER_SAVED
from firmware.cpu.interrupts import cpu_idle
from firmware.cpu.power import power_off
from firmware.cpu.watchdog import watchdog_kick
from firmware.layouts.log import NODE_OFF
from firmware.layouts.power import POWER, Power
from firmware.log import log, log_finish, log_write
from toolchain.asm import EDX, RDI, Asm, routine


@routine(
    clobbers=CALLER_SAVED,
    reads=[Power.off_known],
    calls=[log_write, log_finish, power_off, cpu_idle, watchdog_kick],
    noreturn=True,
    source="firmware/docs/stop.md#off",
)
def node_off(a: Asm) -> None:
    """Print the log to its end, switch the machine off, or halt for good where that is unknown."""
    halted = a.label("halted")
    a.movzx(EDX, POWER.it.off_known)
    log(a, NODE_OFF)
    a.call(log_finish)
    a.call(power_off)
    # The watchdog would start the machine again.
    a.place(halted)
    a.mov(RDI, -1)
    a.call(cpu_idle)
    a.call(watchdog_kick)
    a.jmp(halted)
