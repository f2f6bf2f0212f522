"""COM1 of the emulated node."""

import pytest

from emulator.devices.bus import Bus
from emulator.devices.serial import COM1, LINE_CONTROL, LINE_STATUS, SerialPort


def test_lines_are_split_and_strange_bytes_stay_visible():
    port = SerialPort()
    for byte in b"one\r\ntwo \xff\nrest":
        assert port.port_out(COM1, 1, byte)
    assert port.lines == ["one", "two \\xff"]
    assert port.sent == 15


def test_typed_bytes_are_read_one_by_one_and_then_there_are_none():
    port = SerialPort()
    bus = Bus([port])
    port.type("lease")
    seen = bytearray()
    while bus.port_in(COM1 + LINE_STATUS, 1) & 1:
        seen.append(bus.port_in(COM1, 1))
    assert seen == b"lease\n"
    assert port.port_in(COM1, 1) == 0


@pytest.mark.parametrize("ready", [True, False])
def test_a_stuck_port_never_says_that_it_is_empty(ready):
    assert bool(Bus([SerialPort(ready=ready)]).port_in(COM1 + LINE_STATUS, 1) & 0x20) is ready


def test_the_divisor_is_no_text():
    port = SerialPort()
    port.port_out(COM1 + LINE_CONTROL, 1, 0x80)
    port.port_out(COM1, 1, 1)
    port.port_out(COM1 + LINE_CONTROL, 1, 3)
    assert port.sent == 0
    assert port.port_in(COM1 + LINE_CONTROL, 1) == 3
    assert Bus([port]).port_in(COM1 + 2, 1) & 0xC0 == 0xC0


def test_other_ports_and_widths_are_not_its_own():
    bus = Bus([SerialPort()])
    assert bus.port_in(COM1 + 8, 1) == 0xFF
    assert bus.port_in(COM1, 4) == 0xFFFF_FFFF
    bus.port_out(COM1 - 1, 1, 0)
    assert [kind for kind, _, _ in bus.strays] == ["in", "in", "out"]
    assert bus.mmio_read(0x1000, 4) == 0xFFFF_FFFF
