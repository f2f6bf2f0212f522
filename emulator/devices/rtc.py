"""The real-time clock of a PC: registers in BCD that follow a date (MC146818A data sheet, table 3)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

INDEX, DATA = 0x70, 0x71
STATUS_A, STATUS_B, CENTURY = 0x0A, 0x0B, 0x32
DIVIDER, HOURS_24, UPDATING = 0x26, 0x02, 0x80
UPDATE_NS = 244_000
"""How long before a second ends the registers are about to change."""
DATE = (0x00, 0x02, 0x04, 0x06, 0x07, 0x08, 0x09, CENTURY)
"""Second, minute, hour, day of the week, day, month, year, century."""
NS_PER_S = 1_000_000_000


class Rtc:
    """A clock that keeps time by itself, whatever the processor's counter does; a `Device`.

    Args:
        unix_ns: returns the date, in nanoseconds since 1970.
    """

    def __init__(self, unix_ns: Callable[[], int]) -> None:
        self._unix_ns = unix_ns
        self._index = 0

    def port_in(self, port: int, size: int) -> int | None:
        """Answer the register that was chosen."""
        if port not in (INDEX, DATA) or size != 1:
            return None
        return self._index if port == INDEX else self.register(self._index & 0x7F)

    def port_out(self, port: int, size: int, value: int) -> bool:
        """Choose a register; what is written into one is forgotten."""
        if port not in (INDEX, DATA) or size != 1:
            return False
        if port == INDEX:
            self._index = value
        return True

    def mmio_read(self, physical: int, size: int) -> int | None:
        """Nothing here is memory-mapped."""
        return None

    def mmio_write(self, physical: int, size: int, value: int) -> bool:
        """Nothing here is memory-mapped."""
        return False

    def now_ns(self) -> int:
        """Return the date, in nanoseconds since 1970."""
        return self._unix_ns()

    def register(self, index: int) -> int:
        """Return what a register holds."""
        second, rest = divmod(self._unix_ns(), NS_PER_S)
        if index == STATUS_A:
            return DIVIDER | (UPDATING if rest >= NS_PER_S - UPDATE_NS else 0)
        if index == STATUS_B:
            return HOURS_24
        now = datetime.fromtimestamp(second, UTC)
        date = (
            now.second, now.minute, now.hour, now.isoweekday() % 7 + 1,
            now.day, now.month, now.year % 100, now.year // 100,
        )  # fmt: skip
        value = dict(zip(DATE, date, strict=True)).get(index, 0)
        return value // 10 << 4 | value % 10
