"""TSC calibration against modelled timers, with the errors that machines were seen to make."""

import pytest

from firmware.cpu.clock import clock_calibrate, clock_window
from firmware.layouts import clock
from firmware.layouts.clock import PM_HZ, PM_MASK, WINDOWS_MAX
from firmware.layouts.node import CLOCK
from tests.support.lab import Lab
from tests.support.timers import PORT, Timers

LAB = Lab(clock_calibrate, clock_window)


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


def test_clock_calibrate_slow_ports_shift_both_ends_alike():
    state = calibrate(Timers(late=(0.003,)))
    assert state.tsc_cycles_per_ms == pytest.approx(2_597_000, rel=2e-3)


@pytest.mark.parametrize("start", [PM_MASK - 10, 0xFFFF_FFF0])
def test_clock_calibrate_pm_timer_may_wrap(start):
    state = calibrate(Timers(pm_start=start))
    assert state.tsc_cycles_per_ms == pytest.approx(2_597_000, rel=1e-3)


def test_clock_calibrate_without_pm_timer_is_not_calibrated():
    state = calibrate(Timers(pm=False))
    assert (state.tsc_cycles_per_ms, state.source) == (0, clock.ClockSource.PIT)


def test_clock_calibrate_without_pit_ends():
    lab = Lab(clock_calibrate, semantics=False)
    timers = Timers(pit=False, step=1e-7)
    result = lab.call(clock_calibrate, timers, port=PORT)
    assert (lab.g(CLOCK).tsc_cycles_per_ms, lab.g(CLOCK).source) == (0, 0)
    assert timers.windows == 1
    assert len(result.events) < 6 * clock.SPIN_LIMIT


@pytest.mark.parametrize("stall", [0.001, 0.02, 0.04])
def test_clock_calibrate_stalls_inside_the_windows_do_no_harm(stall):
    timers = Timers(stall=stall)
    state = calibrate(timers)
    assert state.tsc_cycles_per_ms == pytest.approx(2_597_000, rel=1e-3)
    assert timers.windows == clock.WINDOWS_MIN


def test_clock_calibrate_stall_of_more_than_a_turn_of_the_pit_is_not_believed():
    assert calibrate(Timers(stall=0.057, step=5e-3)).tsc_cycles_per_ms == 0


def test_clock_calibrate_stall_of_exactly_a_turn_gives_no_estimate():
    timers = Timers()
    answers = iter([0xFFFF, 0x1000, 0xFFFF] * WINDOWS_MAX)

    def write(port, _size, value):
        if port == 0x43 and value == 0x80:
            timers.latched = next(answers).to_bytes(2, "little")

    timers.on_port_out = write
    assert calibrate(timers).tsc_cycles_per_ms == 0


def test_clock_calibrate_frozen_or_jumping_tsc_is_not_calibrated():
    assert calibrate(Timers(mhz=0.0)).tsc_cycles_per_ms == 0
    assert calibrate(Timers(mhz=2e9)).tsc_cycles_per_ms == 0


def test_clock_calibrate_repeatable_clock_of_an_emulator():
    state = calibrate(Timers(mhz=1000.0, step=1e-3))
    assert state.tsc_cycles_per_ms == pytest.approx(1_000_000, rel=1e-3)
