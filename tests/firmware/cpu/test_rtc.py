"""The RTC in every dialect: BCD or binary, 12 or 24 hours, with or without a century."""

import calendar
import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.environment import Environment
from firmware.cpu.rtc import rtc_read, rtc_snapshot, rtc_unix
from firmware.layouts.clock import RTC_READS, RTC_REGISTERS
from tests.support.lab import Lab

LAB = Lab(rtc_read, rtc_snapshot, rtc_unix)
BCD_24, BCD_12, BINARY_24, BINARY_12 = 0x02, 0x00, 0x06, 0x04


def registers(when, status, century=True):
    """Return what an RTC set to `when` holds in its eight registers."""
    hour = when.hour
    if not status & 2:
        hour = when.hour % 12 or 12
    values = [
        when.second,
        when.minute,
        hour,
        when.day,
        when.month,
        when.year % 100,
        when.year // 100,
    ]
    if not status & 4:
        values = [v // 10 << 4 | v % 10 for v in values]
    if not status & 2 and when.hour >= 12:
        values[2] |= 0x80
    if not century:
        values[6] = 0xFF
    return bytes([*values, status])


def decode(raw):
    return LAB.call(rtc_unix, snapshot=int.from_bytes(raw, "little")).outputs["rax"]


@settings(max_examples=60, deadline=None)
@given(
    when=st.datetimes(datetime.datetime(1970, 1, 1), datetime.datetime(2899, 12, 31)),
    status=st.sampled_from([BCD_24, BCD_12, BINARY_24, BINARY_12]),
)
def test_rtc_unix_any_date_in_any_dialect(when, status):
    assert decode(registers(when, status)) == calendar.timegm(when.timetuple())


@pytest.mark.parametrize("status", [BCD_24, BCD_12, BINARY_24, BINARY_12])
@pytest.mark.parametrize("hour", [0, 1, 11, 12, 13, 23])
def test_rtc_unix_every_kind_of_hour(status, hour):
    when = datetime.datetime(2026, 11, 30, hour, 59, 58)
    assert decode(registers(when, status)) == calendar.timegm(when.timetuple())


@pytest.mark.parametrize(
    ("year", "wanted"), [(70, 1970), (99, 1999), (0, 2000), (26, 2026), (69, 2069)]
)
def test_rtc_unix_without_century_guesses_it(year, wanted):
    when = datetime.datetime(2000 + year, 2, 28, 1, 2, 3)
    right = datetime.datetime(wanted, 2, 28, 1, 2, 3)
    assert decode(registers(when, BCD_24, century=False)) == calendar.timegm(right.timetuple())


@settings(max_examples=60, deadline=None)
@given(st.binary(min_size=8, max_size=8))
def test_rtc_unix_any_bytes_match_model(raw):
    decode(raw)


@pytest.mark.parametrize(
    ("byte", "value"),
    [
        (0, 0x60),
        (1, 0x60),
        (2, 0x24),
        (3, 0x00),
        (3, 0x32),
        (4, 0x00),
        (4, 0x13),
        (4, 0x02),
        (5, 0xA0),
    ],
)
def test_rtc_unix_no_date_is_zero(byte, value):
    raw = bytearray(registers(datetime.datetime(2026, 11, 30), BCD_24))
    raw[byte] = value
    assert (decode(bytes(raw)) == 0) is ((byte, value) != (4, 0x02))


def test_rtc_unix_before_1970_and_hour_13_of_12_are_zero():
    assert decode(registers(datetime.datetime(1969, 12, 31, 23), BCD_24)) == 0
    raw = bytearray(registers(datetime.datetime(2026, 11, 30), BINARY_12))
    raw[2] = 13
    assert decode(bytes(raw)) == 0


class Rtc(Environment):
    """An RTC: `frames` are its register contents, one per snapshot; busy for some looks first."""

    def __init__(self, frames, busy=0):
        super().__init__()
        self.frames, self.busy, self.index = list(frames), busy, 0
        self.on_port_in, self.on_port_out = self.read, self.write

    def write(self, port, _size, value):
        assert port == 0x70
        self.index = value

    def read(self, port, _size):
        assert port == 0x71
        if self.index == 0x0A:
            self.busy -= 1
            return 0xA6 if self.busy >= 0 else 0x26
        value = self.frames[0][RTC_REGISTERS.index(self.index)]
        if self.index == RTC_REGISTERS[0]:
            self.frames.append(self.frames.pop(0))
        return value


NOW = datetime.datetime(2026, 11, 30, 0, 43, 57)


def test_rtc_read_waits_for_the_update():
    environment = Rtc([registers(NOW, BCD_24)], busy=300)
    assert LAB.call(rtc_read, environment).outputs["rax"] == calendar.timegm(NOW.timetuple())


def test_rtc_read_again_when_the_second_changed_meanwhile():
    later = NOW + datetime.timedelta(seconds=1)
    torn = [registers(when, BCD_24) for when in (NOW, later, later, later)]
    assert LAB.call(rtc_read, Rtc(torn)).outputs["rax"] == calendar.timegm(later.timetuple())


def test_rtc_read_that_never_holds_still_is_unknown():
    frames = [registers(NOW + datetime.timedelta(seconds=n), BCD_24) for n in range(2 * RTC_READS)]
    assert LAB.call(rtc_read, Rtc(frames)).outputs["rax"] == 0


def test_rtc_snapshot_for_ever_busy_goes_on():
    environment = Rtc([registers(NOW, BCD_24)], busy=10**9)
    got = Lab(rtc_snapshot, semantics=False).call(rtc_snapshot, environment).outputs["rax"]
    assert got.to_bytes(8, "little") == registers(NOW, BCD_24)
