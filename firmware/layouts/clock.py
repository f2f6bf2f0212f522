"""The timers behind the clock: ports, frequencies, tolerances."""

from __future__ import annotations

import enum


class ClockSource(enum.IntFlag):
    """Timers that counted."""

    PIT = 1
    PM_TIMER = 2


NEVER = 2**64 - 1
"""A deadline, as TSC, that is not set; it sorts after every other."""
SECOND_MS = 1_000
PIT_CHANNEL_0, PIT_CHANNEL_2, PIT_CONTROL, PORT_B = 0x40, 0x42, 0x43, 0x61
PIT_HZ = 1_193_182
PM_HZ = 3_579_545
PM_MASK = 0xFF_FFFF
"""Every PM timer has 24 bits; some have 32."""
WINDOW_TICKS = 11_932
"""10.0 ms of the PIT."""
SPIN_LIMIT = 10_000
"""Looks at a PIT that stands still until it is given up."""
GAP_SHIFT = 7
"""Readings may take 1/128 of a window: 78 microseconds."""
SETTLE_READS = 16
"""Port reads, half a microsecond each at least, until the PIT has loaded its count."""
WINDOWS_MIN, WINDOWS_MAX = 3, 14
"""At most 140 ms in all."""
AGREE_EARLY_PPM, AGREE_PPM = 1_000, 5_000
RTC_INDEX, RTC_DATA = 0x70, 0x71
RTC_UPDATING = 0x80
RTC_LOOKS = 20_000
"""Looks at an RTC that says it is being updated; an update takes 2 ms."""
RTC_READS = 8
"""Pairs of readings that may differ before the RTC is given up."""
RTC_REGISTERS = (0x00, 0x02, 0x04, 0x07, 0x08, 0x09, 0x32, 0x0B)
"""Second, minute, hour, day, month, year, century, status B: bytes 0 to 7 of a snapshot."""
RTC_STATUS_A = 0x0A
"""Status A: bit 7 = an update is going on."""
RTC_24_HOURS, RTC_BINARY = 0x02, 0x04
