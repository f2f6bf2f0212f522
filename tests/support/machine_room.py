"""A PC for set-up routines: PCI bus, timers, RTC, interrupt controllers, COM1, watchdog."""

from __future__ import annotations

from emulator.environment import Environment
from firmware.layouts.clock import PIT_HZ, PM_HZ, RTC_REGISTERS

PM_PORT = 0x608
ABSENT = 0xFFFF_FFFF


class Room(Environment):
    """Answers every port that the boot asks.

    Args:
        functions: PCI configuration space as `{(function, offset): dword}`.
        hz: Frequency of the TSC; 0 stands still.
        rtc: The eight RTC registers.
        fixed: Registers of PCI configuration space that keep their value.
    """

    def __init__(
        self,
        functions: dict[tuple[int, int], int],
        hz: float = 2e9,
        rtc: bytes = bytes(8),
        fixed: tuple[tuple[int, int], ...] = (),
    ) -> None:
        super().__init__(tsc=self.count)
        self.functions, self.hz, self.rtc, self.fixed = dict(functions), hz, rtc, fixed
        self.now, self.selected, self.index, self.reads = 0.0, 0, 0, 0
        self.latched: list[int] = []
        self.on_port_in, self.on_port_out = self.read, self.write
        self.on_mmio_read = lambda _address, _size: 0

    def count(self) -> int:
        """Return the TSC; a little time passes."""
        self.now += 1e-7
        self.reads += 1
        return int(self.now * self.hz)

    def write(self, port: int, size: int, value: int) -> None:
        """Take a port write."""
        if port == 0xCF8:
            self.selected = value
        elif 0xCFC <= port < 0xD00:
            key = (self.selected >> 8 & 0xFFFF, self.selected & 0xFC)
            # The watchdog's own registers take accesses of one width only.
            narrow = {0x60: 2, 0x68: 1}.get(key[1], size)
            if key in self.functions and key not in self.fixed and narrow == size:
                self.functions[key] = value
        elif (port, value) == (0x43, 0x80):
            count = 0xFFFF - int(self.now * PIT_HZ) & 0xFFFF
            self.latched = list(count.to_bytes(2, "little"))
        elif port == 0x70:
            self.index = value

    def read(self, port: int, _size: int) -> int:
        """Answer a port read."""
        if 0xCFC <= port < 0xD00:
            return self.functions.get((self.selected >> 8 & 0xFFFF, self.selected & 0xFC), ABSENT)
        if port == 0x42:
            # Time passes while a window waits: between its second and its third TSC.
            if len(self.latched) == 1 and self.reads % 4 == 2:
                self.now += 2e-3
            return self.latched.pop(0)
        if port == PM_PORT:
            return int(self.now * PM_HZ) & 0xFF_FFFF
        if port == 0x71:
            return 0x26 if self.index == 0x0A else self.rtc[RTC_REGISTERS.index(self.index)]
        return 0xC1 if port == 0x3FA else 0x60 if port == 0x3FD else 0
