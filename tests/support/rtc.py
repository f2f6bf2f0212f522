"""An RTC that shows a time of the test's."""

from __future__ import annotations

import datetime

from emulator.environment import Environment
from firmware.layouts.clock import RTC_REGISTERS
from tests.support.states import NOW

BINARY_24 = 0x06


class Rtc(Environment):
    """An RTC that shows a time; `torn` seconds pass when the minute has been read."""

    def __init__(
        self, when: datetime.datetime, tsc: int = NOW, *, updating: bool = False, torn: int = 0,
        good: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(tsc=lambda: tsc)
        self.when, self.index, self.looks, self.good = when, 0, 0, good
        self.updating, self.torn = updating, torn
        self.on_port_in, self.on_port_out = self.read, self.write

    def write(self, port: int, _size: int, value: int) -> None:
        """Choose a register."""
        assert port == 0x70
        self.index = value

    def read(self, port: int, _size: int) -> int:
        """Show it."""
        assert port == 0x71
        self.looks += 1
        if self.index == 0x0A:
            return 0xA6 if self.updating else 0x2F
        w = self.when
        values = (w.second, w.minute, w.hour, w.day, w.month, w.year % 100, 20, BINARY_24)
        if not self.good:
            values = (61,) * 8
        if self.index == 0x02:
            self.when += datetime.timedelta(seconds=self.torn)
        return values[RTC_REGISTERS.index(self.index)]
