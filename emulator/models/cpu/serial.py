"""COM1: set-up and polled output."""

from emulator.effects import World, model
from firmware.cpu.serial import (
    COM1,
    FIFO_BYTES,
    FIFO_CONTROL,
    HOLDING_EMPTY,
    LINE_STATUS,
    SETUP,
    SPIN_LIMIT,
)
from firmware.layouts.log import LOG


@model
def serial_init(w: World) -> None:
    """Write the set-up table; a working FIFO takes sixteen bytes at once, else one."""
    for register, value in SETUP:
        w.port_out(COM1 + register, value)
    works = w.port_in(COM1 + FIFO_CONTROL) & 0xC0 == 0xC0
    w.g(LOG).burst = FIFO_BYTES if works else 1


@model
def serial_put(w: World, value: int) -> None:
    """Send the byte when the port is ready, or after SPIN_LIMIT looks at it."""
    for _ in range(SPIN_LIMIT):
        if w.port_in(COM1 + LINE_STATUS) & HOLDING_EMPTY:
            break
    w.port_out(COM1, value)
