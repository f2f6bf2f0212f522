"""COM1 set-up and polled output."""

import pytest

from emulator.environment import Environment
from firmware.cpu.serial import COM1, LINE_STATUS, SPIN_LIMIT, serial_init, serial_put
from firmware.layouts.log import LOG
from tests.support.lab import Lab

LAB = Lab(serial_init, serial_put)


@pytest.mark.parametrize(
    ("identification", "burst"), [(0xC1, 16), (0x01, 1), (0x81, 1), (0xFF, 16)]
)
def test_serial_init_burst_follows_the_fifo(identification, burst):
    LAB.call(serial_init, Environment(on_port_in=lambda _port, _size: identification))
    assert LAB.g(LOG).burst == burst


@pytest.mark.parametrize("polls", [1, 2, 50])
def test_serial_put_waits_for_the_port(polls):
    answers = iter([0] * (polls - 1) + [0x20])
    environment = Environment(on_port_in=lambda _port, _size: next(answers))
    sent = []
    environment.on_port_out = lambda port, _size, value: sent.append((port, value))
    LAB.call(serial_put, environment, value=0x41)
    assert sent == [(COM1, 0x41)]


def test_serial_put_gives_up_on_a_dead_port():
    environment = Environment(on_port_in=lambda _port, _size: 0)
    result = LAB.call(serial_put, environment, value=0xFF)
    asked = [event.key for event in result.events if event.key[0] == "in"]
    assert asked == [("in", COM1 + LINE_STATUS, 1)] * SPIN_LIMIT
    assert result.events[-1].key == ("out", COM1, 1, 0xFF)
