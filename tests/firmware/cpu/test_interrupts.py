"""Interrupt controllers and the idle halt."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.environment import Environment
from firmware.cpu.interrupts import cpu_idle, irq_handle, irq_unmask, pic_init
from firmware.layouts.node import CLOCK, CORE
from tests.support.lab import Lab

LAB = Lab(pic_init, irq_unmask, irq_handle, cpu_idle)


class Pics(Environment):
    """Two 8259s: masks, what is in service, how many times each was told that it is done."""

    def __init__(self, in_service=()):
        super().__init__()
        self.mask = {0x21: 0xFB, 0xA1: 0xFF}
        self.in_service = {0x20: 0, 0xA0: 0}
        for line in in_service:
            self.in_service[0xA0 if line > 7 else 0x20] |= 1 << (line & 7)
        self.done = {0x20: 0, 0xA0: 0}
        self.on_port_in = lambda port, _size: (self.mask | self.in_service)[port]
        self.on_port_out = self.write

    def write(self, port, _size, value):
        if port in self.mask:
            self.mask[port] = value
        elif value == 0x20:
            self.done[port] += 1


def test_pic_init_moves_vectors_and_masks():
    sent = []
    environment = Environment()
    environment.on_port_out = lambda port, _size, value: sent.append((port, value))
    LAB.call(pic_init, environment)
    assert (0x21, 0x20) in sent
    assert (0xA1, 0x28) in sent
    assert sent[-2:] == [(0x21, 0xFA), (0xA1, 0xFF)]


@pytest.mark.parametrize("line", range(16))
def test_irq_handle_then_unmask(line):
    pics = Pics(in_service=[line])
    pics.mask = {0x21: 0, 0xA1: 0}
    LAB.g(CORE).wake = 0
    LAB.call(irq_handle, pics, line=line)
    assert LAB.g(CORE).wake == 1
    masked = pics.mask[0xA1] << 8 | pics.mask[0x21]
    assert masked == (1 << line if line else 0)
    assert pics.done == {0x20: 1, 0xA0: int(line > 7)}
    again = Pics()
    again.mask = pics.mask
    LAB.call(irq_unmask, again, line=line)
    assert again.mask == {0x21: 0, 0xA1: 0}


@pytest.mark.parametrize(("line", "done"), [(7, {0x20: 0, 0xA0: 0}), (15, {0x20: 1, 0xA0: 0})])
def test_irq_handle_spurious_masks_nothing(line, done):
    pics = Pics()
    LAB.call(irq_handle, pics, line=line)
    assert pics.mask == {0x21: 0xFB, 0xA1: 0xFF}
    assert pics.done == done


def idle(now, deadline, cycles):
    LAB.g(CLOCK).tsc_cycles_per_ms = cycles
    LAB.g(CORE).wake = 1
    sent = []
    environment = Environment(tsc=[now])
    environment.on_port_out = lambda port, _size, value: sent.append((port, value))
    LAB.call(cpu_idle, environment, deadline=deadline)
    assert LAB.g(CORE).wake == 0
    if not sent:
        return 0
    assert [port for port, _ in sent] == [0x43, 0x40, 0x40]
    return sent[1][1] | sent[2][1] << 8


@settings(max_examples=60, deadline=None)
@given(
    now=st.integers(0, 2**64 - 1),
    ahead=st.one_of(st.integers(-5, 5), st.integers(-(2**40), 2**40)),
    cycles=st.sampled_from([0, 1000, 1_000_000, 2_597_000, 6_000_000]),
)
def test_cpu_idle_any_deadline_halts_at_most_50_ms(now, ahead, cycles):
    ticks = idle(now, max(0, min(2**64 - 1, now + ahead)), cycles)
    assert ticks <= 59_700


@pytest.mark.parametrize(
    ("ahead", "ticks"),
    [(0, 0), (-1, 0), (1, 1), (1_000_000, 1194), (50_000_000, 59_651), (2**50, 59_651)],
)
def test_cpu_idle_halts_until_the_deadline(ahead, ticks):
    assert idle(10**12, 10**12 + ahead, 1_000_000) == ticks


def test_cpu_idle_without_a_clock_halts_10_ms():
    assert idle(0, 5, 0) == 11_932
