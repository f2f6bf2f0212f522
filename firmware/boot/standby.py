"""What a machine does that was set up and has no node to run: it shows its log and stays awake."""

from firmware.abi import CALLER_SAVED
from firmware.cpu.interrupts import cpu_idle
from firmware.cpu.watchdog import watchdog_kick
from firmware.layouts.node import CoreState, core
from firmware.log import log_drain
from toolchain.asm import RAX, RDI, Asm, routine


@routine(
    clobbers=CALLER_SAVED,
    writes=[CoreState.now, CoreState.turns],
    calls=[log_drain, watchdog_kick, cpu_idle],
    noreturn=True,
    source="firmware/docs/boot.md#idle",
)
def node_main(a: Asm) -> None:
    """Drain the log, kick the watchdog, halt, over and over."""
    turn = a.label("turn")
    a.place(turn)
    a.rdtsc64()
    a.mov(core.now, RAX)
    a.inc(core.turns)
    a.call(log_drain)
    a.call(watchdog_kick)
    a.mov(RDI, -1)
    a.call(cpu_idle)
    a.jmp(turn)
