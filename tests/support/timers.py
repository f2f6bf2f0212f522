"""The timers of a machine that stalls: PIT, ACPI PM timer and TSC, in time of their own."""

import itertools

from emulator.environment import Environment
from firmware.layouts.clock import PIT_HZ, PM_HZ, WINDOW_TICKS

PORT = 0x608
"""Of the PM timer."""
WINDOW_SECONDS = WINDOW_TICKS / PIT_HZ


class Timers(Environment):
    """PIT, PM timer and TSC of a machine that stalls.

    Args:
        mhz: True frequency of the TSC.
        late: Stall of each window between its first TSC and its first timer reading, as a share of
            the window; the last one repeats.
        stall: Seconds that pass unseen in the middle of each window.
        pit, pm: Whether the timer is there.
        step: Seconds that every reading of the PIT takes.
    """

    def __init__(
        self, mhz=2597.0, late=(0.0,), *, stall=0.0, pit=True, pm=True, step=3e-3, pm_start=0,
        pm_hz=PM_HZ,
    ):  # fmt: skip
        super().__init__(tsc=self.count)
        self.hz, self.pit, self.pm, self.step, self.pm_start = mhz * 1e6, pit, pm, step, pm_start
        self.pm_hz, self.stall = pm_hz, stall
        self.late = itertools.chain(late, itertools.repeat(late[-1]))
        self.now, self.windows, self.latched, self.looks, self.reads = 0.0, 0, b"", 0, 0
        self.on_port_in, self.on_port_out = self.read, self.write

    def count(self):
        value = int(self.now * self.hz) + 1_000_000
        self.reads += 1
        if self.reads % 4 == 1:
            self.windows += 1
            self.looks = 0
            self.now += next(self.late) * WINDOW_SECONDS
        return value

    def write(self, port, _size, value):
        if port == 0x43 and value == 0x80:
            self.looks += 1
            if self.looks == 2:
                self.now += self.stall
            ticks = int(self.now * PIT_HZ) if self.pit else 0
            if self.looks == 1:
                self.opened = ticks
            self.latched = ((0xFFFF - ticks) & 0xFFFF).to_bytes(2, "little")

    def read(self, port, _size):
        if port == 0x42:
            value, self.latched = self.latched[0], self.latched[1:]
            # Time passes while we wait, not while a window is opened or closed.
            if not self.latched and self.looks > 1 and self.waiting:
                self.now += self.step
            return value
        if port == PORT:
            return (
                int(self.pm_start + self.now * self.pm_hz) & 0xFFFF_FFFF if self.pm else 2**32 - 1
            )
        return 0

    @property
    def waiting(self):
        """Whether the window's 10 ms are not over yet."""
        return (int(self.now * PIT_HZ) - self.opened) % 2**16 < WINDOW_TICKS
