"""The log: what leaves it, and when."""

from emulator.effects import World, model
from emulator.models.cpu.serial import serial_put
from firmware.cpu.serial import COM1, HOLDING_EMPTY, LINE_STATUS
from firmware.layouts.log import LOG, LOG_RING, LOG_RING_BYTES
from firmware.log.serial import DRAIN_BURSTS


@model
def log_drain(w: World) -> None:
    """Up to four times: when the port is empty, give it a burst of what waits."""
    log, ring = w.g(LOG), w.address(LOG_RING)
    for _ in range(DRAIN_BURSTS):
        if not w.port_in(COM1 + LINE_STATUS) & HOLDING_EMPTY:
            return
        for _ in range(max(1, log.burst)):
            if log.tail == log.head:
                return
            at = log.tail % LOG_RING_BYTES
            log.tail += 1
            w.port_out(COM1, w.u8(ring + at))


@model
def log_finish(w: World) -> None:
    """All that waits, byte by byte."""
    state = w.g(LOG)
    ring = w.address(LOG_RING)
    while state.tail != state.head:
        byte = w.u8(ring + state.tail % LOG_RING_BYTES)
        state.tail += 1
        serial_put(w, byte)
