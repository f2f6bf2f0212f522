"""The date of a turn."""

from hypothesis import given
from hypothesis import strategies as st

from firmware.cpu.date import date_now
from firmware.layouts.node import CLOCK, CORE
from tests.support.lab import Lab

LAB = Lab(date_now)
MS, UNIX = 2_600_000, 1_790_000_000


def date(*, read_at, now, cycles=MS, unix=UNIX):
    LAB.reset()
    clock = LAB.g(CLOCK)
    clock.tsc_cycles_per_ms, clock.unix_time, clock.unix_tsc = cycles, unix, read_at
    LAB.g(CORE).now = now
    return LAB.call(date_now).outputs["rax"]


def test_seconds_count_from_the_reading_of_the_rtc():
    assert date(read_at=5 * MS, now=5 * MS) == UNIX
    assert date(read_at=0, now=999 * MS) == UNIX
    assert date(read_at=0, now=1000 * MS) == UNIX + 1
    assert date(read_at=0, now=86_400_000 * MS) == UNIX + 86_400


def test_without_a_date_it_counts_from_the_boot():
    assert date(read_at=0, now=7000 * MS, unix=0) == 7


def test_without_a_clock_the_date_stands_still():
    assert date(read_at=0, now=2**60, cycles=0) == UNIX


def test_a_turn_before_the_reading_has_its_date():
    assert date(read_at=9, now=8) == UNIX


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), st.integers(0, 2**32))
def test_any_numbers(read_at, now, cycles):
    date(read_at=read_at, now=now, cycles=cycles)
