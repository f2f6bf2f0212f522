"""Interrupts only wake."""

from emulator.effects import World, model
from firmware.cpu.interrupts import SETUP
from firmware.layouts.clock import PIT_HZ
from firmware.layouts.node import CLOCK, CORE

MASTER, SLAVE = 0x20, 0xA0


@model
def pic_init(w: World) -> None:
    """Write the set-up table."""
    for port, value in SETUP:
        w.port_out(port, value)


def _controller(line: int) -> int:
    return SLAVE if line & 8 else MASTER


@model
def irq_unmask(w: World, line: int) -> None:
    """Clear the line's bit in the mask of its controller."""
    port = _controller(line) + 1
    w.port_out(port, w.port_in(port) & ~(1 << (line & 7)))


@model
def irq_handle(w: World, line: int) -> None:
    """Wake; mask a device's line; say that it is done. A spurious interrupt is none."""
    w.g(CORE).wake = 1
    if line:
        port = _controller(line)
        if line & 7 == 7:
            w.port_out(port, 0x0B)
            if not w.port_in(port) & 0x80:
                if port == SLAVE:
                    w.port_out(MASTER, 0x20)
                return
        w.port_out(port + 1, w.port_in(port + 1) | 1 << (line & 7))
        if port == SLAVE:
            w.port_out(SLAVE, 0x20)
    w.port_out(MASTER, 0x20)


@model
def cpu_idle(w: World, deadline: int) -> None:
    """Halt until the deadline, at most 50 ms; not at all when it is past."""
    w.g(CORE).wake = 0
    per_ms = w.g(CLOCK).tsc_cycles_per_ms
    if per_ms:
        now = w.rdtsc()
        if deadline <= now:
            return
        cycles = min(deadline - now, per_ms * 50)
        ticks = cycles * (PIT_HZ // 1000) // per_ms + 1
    else:
        ticks = 11_932
    w.port_out(0x43, 0x30)
    w.port_out(0x40, ticks & 0xFF)
    w.port_out(0x40, ticks >> 8)
    for instruction in ("sti", "hlt", "cli"):
        w.system(instruction)
