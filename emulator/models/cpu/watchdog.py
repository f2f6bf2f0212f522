"""The watchdog."""

from emulator.effects import World, model
from firmware.layouts.cpu import WATCHDOG
from firmware.layouts.node import CORE


@model
def watchdog_kick(w: World) -> None:
    """Unlock, reload, count; nothing when there is none."""
    registers = w.g(WATCHDOG).registers
    if registers:
        for value in (0x80, 0x86, 0x100):
            w.mmio_write(registers + 0x0C, 2, value)
        w.g(CORE).kicks += 1
