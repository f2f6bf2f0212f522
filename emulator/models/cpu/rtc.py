"""The real-time clock of the PC."""

import calendar

from emulator.effects import World, model
from firmware.layouts.clock import (
    RTC_24_HOURS,
    RTC_BINARY,
    RTC_LOOKS,
    RTC_READS,
    RTC_REGISTERS,
    RTC_UPDATING,
)


@model
def rtc_snapshot(w: World) -> int:
    """Wait for the end of an update, then read the registers, the last one first."""
    for _ in range(RTC_LOOKS):
        w.port_out(0x70, 0x0A)
        if not w.port_in(0x71) & RTC_UPDATING:
            break
    values = []
    for register in reversed(RTC_REGISTERS):
        w.port_out(0x70, register)
        values.append(w.port_in(0x71))
    return int.from_bytes(bytes(reversed(values)), "little")


def _digits(value: int) -> int:
    return (value >> 4) * 10 + (value & 15)


@model
def rtc_unix(w: World, snapshot: int) -> int:
    """Seconds since 1970, by the calendar of the Python library; 0 for what is no date."""
    *values, status = snapshot.to_bytes(8, "little")
    afternoon = False
    if not status & RTC_24_HOURS:
        afternoon = values[2] & 0x80 != 0
        values[2] &= 0x7F
    if not status & RTC_BINARY:
        values = [_digits(value) for value in values]
    second, minute, hour, day, month, year, century = values
    if not status & RTC_24_HOURS:
        if hour > 12:
            return 0
        hour = hour % 12 + 12 * afternoon
    if year > 99 or not 1 <= month <= 12 or not 1 <= day <= 31:
        return 0
    if hour > 23 or minute > 59 or second > 59:
        return 0
    if not 19 <= century <= 28:
        century = 19 if year >= 70 else 20
    when = calendar.timegm((century * 100 + year, month, day, hour, minute, second))
    return max(when, 0)


@model
def rtc_read(w: World) -> int:
    """Two equal readings in a row are believed."""
    for _ in range(RTC_READS):
        first, second = rtc_snapshot(w), rtc_snapshot(w)
        if first == second:
            return int(rtc_unix(w, second))
    return 0
