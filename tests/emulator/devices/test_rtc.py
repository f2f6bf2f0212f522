"""The RTC shows the date in BCD, and says when it is about to change."""

from __future__ import annotations

from datetime import UTC, datetime

from emulator.devices.rtc import DATA, INDEX, Rtc

NS_PER_S = 1_000_000_000


def registers(rtc, *indexes):
    out = []
    for index in indexes:
        assert rtc.port_out(INDEX, 1, index)
        out.append(rtc.port_in(DATA, 1))
    return out


def test_a_date_in_bcd():
    when = datetime(2026, 11, 30, 20, 5, 59, tzinfo=UTC)
    rtc = Rtc(lambda: round(when.timestamp()) * NS_PER_S)
    shown = registers(rtc, 0x00, 0x02, 0x04, 0x06, 0x07, 0x08, 0x09, 0x32, 0x0B, 0x40)
    assert shown == [0x59, 0x05, 0x20, 0x02, 0x30, 0x11, 0x26, 0x20, 0x02, 0]


def test_it_says_when_it_is_about_to_change():
    now = [5 * NS_PER_S]
    rtc = Rtc(lambda: now[0])
    assert registers(rtc, 0x0A) == [0x26]
    now[0] = 6 * NS_PER_S - 1
    assert registers(rtc, 0x0A) == [0xA6]


def test_other_ports_and_sizes_are_not_its_own():
    rtc = Rtc(lambda: 0)
    assert rtc.port_in(0x72, 1) is None
    assert rtc.port_in(DATA, 2) is None
    assert not rtc.port_out(0x80, 1, 0)
    assert rtc.port_out(DATA, 1, 7)
    assert rtc.port_in(INDEX, 1) == 0
    assert rtc.mmio_read(0x70, 1) is None
    assert not rtc.mmio_write(0x70, 1, 0)
