"""COM1: set-up and polled output."""

from emulator.effects import World, model
from firmware.cpu import serial
from firmware.layouts.log import LOG


@model
def serial_init(w: World) -> None:
    """Write the set-up table; a working FIFO takes sixteen bytes at once, else one."""
    for register, value in serial.SETUP:
        w.port_out(serial.COM1 + register, value)
    works = w.port_in(serial.COM1 + serial.FIFO_CONTROL) & 0xC0 == 0xC0
    w.g(LOG).burst = serial.FIFO_BYTES if works else 1


@model
def serial_put(w: World, value: int) -> None:
    """Send the byte when the port is ready, or after SPIN_LIMIT looks at it."""
    for _ in range(serial.SPIN_LIMIT):
        if w.port_in(serial.COM1 + serial.LINE_STATUS) & serial.HOLDING_EMPTY:
            break
    w.port_out(serial.COM1, value)
