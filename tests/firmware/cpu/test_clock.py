"""TSC calibration against modelled timers, with the errors that machines were seen to make."""

import itertools

import pytest

from emulator.environment import Environment
from firmware.cpu.clock import clock_calibrate, clock_window
from firmware.layouts import clock
from firmware.layouts.clock import PIT_HZ, PM_HZ, PM_MASK, WINDOW_TICKS, WINDOWS_MAX
from firmware.layouts.node import CLOCK
from tests.support.lab import Lab

LAB = Lab(clock_calibrate, clock_window)
PORT = 0x608
WINDOW_SECONDS = WINDOW_TICKS / PIT_HZ


class Timers(Environment):
    """PIT, PM timer and TSC of a machine that is late by a share of each window.

    Args:
        mhz: True frequency of the TSC.
        late: How much later than the end of the PIT each window is noticed, as a share; the last
            one repeats.
        pit, pm: Whether the timer is there.
        step: Seconds that every look at a port takes.
    """

    def __init__(
        self, mhz=2597.0, late=(0.0,), *, pit=True, pm=True, step=4e-3, pm_start=0, pm_hz=PM_HZ
    ):
        super().__init__(tsc=self.count)
        self.hz, self.pit, self.pm, self.step, self.pm_start = mhz * 1e6, pit, pm, step, pm_start
        self.pm_hz = pm_hz
        self.late = itertools.chain(late, itertools.repeat(late[-1]))
        self.now, self.started, self.windows = 0.0, None, 0
        self.on_port_in, self.on_port_out = self.read, self.write

    def count(self):
        return int(self.now * self.hz) + 1_000_000

    def write(self, port, _size, _value):
        if port == 0x43:
            self.windows += 1
            self.lateness = next(self.late) * WINDOW_SECONDS
        if port == 0x42:
            self.started = self.now

    def read(self, port, _size):
        if port == 0x61:
            if self.started is None or not self.pit:
                self.now += self.step
                return 0
            end = self.started + WINDOW_SECONDS
            if self.now < end:
                self.now = min(self.now + self.step, end) + (
                    self.lateness if self.now + self.step >= end else 0
                )
            return 0x20 if self.now >= end else 0
        if port == PORT:
            return (
                int(self.pm_start + self.now * self.pm_hz) & 0xFFFF_FFFF if self.pm else 0xFFFF_FFFF
            )
        raise AssertionError(f"port {port:#x}")


def calibrate(timers):
    LAB.call(clock_calibrate, timers, port=PORT)
    return LAB.g(CLOCK)


@pytest.mark.parametrize("mhz", [99.5, 1000.0, 2597.0, 4300.0, 6000.0])
def test_clock_calibrate_quiet_machine_is_right(mhz):
    timers = Timers(mhz)
    state = calibrate(timers)
    assert state.tsc_cycles_per_ms == pytest.approx(mhz * 1000, rel=1e-3)
    assert state.source == 3
    assert timers.windows == clock.WINDOWS_MIN


def test_clock_calibrate_lateness_of_some_windows_does_not_count():
    # The windows of a busy host: +0.1, +4.3, +0.03, +9.1 percent.
    state = calibrate(Timers(late=(0.001, 0.043, 0.0003, 0.091)))
    assert state.tsc_cycles_per_ms == pytest.approx(2_597_000, rel=1e-3)


def test_clock_calibrate_late_for_long_goes_on_until_one_is_good():
    timers = Timers(late=(0.05,) * 9 + (0.0002,))
    state = calibrate(timers)
    assert timers.windows == 10
    assert state.tsc_cycles_per_ms == pytest.approx(2_597_000, rel=1e-3)


@pytest.mark.parametrize(("share", "believed"), [(0.997, True), (0.9, False), (1.1, False)])
def test_clock_calibrate_pm_timer_of_another_rate(share, believed):
    state = calibrate(Timers(pm_hz=PM_HZ * share))
    assert (state.tsc_cycles_per_ms > 0) is believed


def test_clock_calibrate_always_late_is_not_believed():
    timers = Timers(late=(0.05,))
    state = calibrate(timers)
    assert timers.windows == WINDOWS_MAX
    assert state.tsc_cycles_per_ms == 0
    assert 45_000 < state.spread_ppm < 55_000


def test_clock_calibrate_small_steady_difference_is_accepted_in_the_end():
    timers = Timers(late=(0.003,))
    state = calibrate(timers)
    assert timers.windows == WINDOWS_MAX
    assert state.tsc_cycles_per_ms == pytest.approx(2_597_000, rel=1e-3)


@pytest.mark.parametrize("start", [PM_MASK - 10, 0xFFFF_FFF0])
def test_clock_calibrate_pm_timer_may_wrap(start):
    state = calibrate(Timers(pm_start=start))
    assert state.tsc_cycles_per_ms == pytest.approx(2_597_000, rel=1e-3)


def test_clock_calibrate_without_pm_timer_is_not_calibrated():
    state = calibrate(Timers(pm=False))
    assert (state.tsc_cycles_per_ms, state.source) == (0, clock.ClockSource.PIT)


def test_clock_calibrate_without_pit_ends_by_the_pm_timer():
    timers = Timers(pit=False)
    state = calibrate(timers)
    assert (state.tsc_cycles_per_ms, state.source) == (0, 0)
    assert timers.windows == 1
    assert timers.now < 0.1


def test_clock_window_with_neither_timer_ends():
    lab = Lab(clock_window, semantics=False)
    result = lab.call(clock_window, Timers(pit=False, pm=False, step=1e-7), port=PORT)
    assert result.outputs["cf"] == 1
    assert len(result.events) < 3 * clock.SPIN_LIMIT


def test_clock_calibrate_frozen_or_jumping_tsc_is_not_calibrated():
    assert calibrate(Timers(mhz=0.0)).tsc_cycles_per_ms == 0
    assert calibrate(Timers(mhz=2e9)).tsc_cycles_per_ms == 0


def test_clock_calibrate_tsc_that_does_not_count_gives_no_estimate():
    timers = Timers()
    timers._tsc = lambda: 5
    assert calibrate(timers).tsc_cycles_per_ms == 0


def test_clock_calibrate_repeatable_clock_of_an_emulator():
    state = calibrate(Timers(mhz=1000.0, step=1e-3))
    assert state.tsc_cycles_per_ms == pytest.approx(1_000_000, rel=1e-3)
