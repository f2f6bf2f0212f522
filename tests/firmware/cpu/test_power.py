"""The power button and soft off, on PM1 blocks that do what the specification lets them do."""

import pytest

from emulator.environment import Environment
from firmware.cpu.power import ENABLE_READS, power_arm, power_off, power_pressed
from firmware.layouts.power import POWER
from tests.support.lab import Lab

LAB = Lab(power_arm, power_off, power_pressed)
PLAIN = Lab(power_arm, semantics=False)
"""For a long wait."""
STATUS, ENABLE, CONTROL_A, CONTROL_B, SMI = 0x600, 0x602, 0x604, 0x608, 0xB2


class Block:
    """PM1 registers behind ports; `after` reads pass before the firmware has enabled ACPI mode."""

    def __init__(self, *, enabled=True, after=0):
        self.ports = {STATUS: 0, ENABLE: 0, CONTROL_A: int(enabled), CONTROL_B: 0x0C02}
        self.after, self.asked = after, None
        self.written = []

    def port_in(self, port, size):
        assert size == 2
        if port == CONTROL_A and self.asked is not None:
            if self.after == 0:
                self.ports[CONTROL_A] |= 1
            self.after -= 1
        return self.ports[port]

    def port_out(self, port, size, value):
        if port == SMI:
            assert size == 1
            self.asked = value
            return
        assert size == 2
        self.written.append((port, value))
        self.ports[port] = self.ports[port] & ~value if port == STATUS else value

    def call(self, routine, lab=LAB):
        where = Environment(on_port_in=self.port_in, on_port_out=self.port_out)
        return lab.call(routine, where).outputs


def prepare(lab=LAB, **fields):
    lab.reset()
    given = {"status": STATUS, "enable": ENABLE, "control_a": CONTROL_A, "smi_command": SMI}
    given |= {"acpi_enable": 0xF1} | fields
    for name, value in given.items():
        setattr(lab.g(POWER), name, value)


@pytest.mark.parametrize(("enabled", "after"), [(True, 0), (False, 0), (False, 5)])
def test_arming_switches_to_acpi_mode_and_enables_the_button_alone(enabled, after):
    prepare()
    block = Block(enabled=enabled, after=after)
    block.ports[STATUS] = 0x0131
    block.call(power_arm)
    assert block.asked == (None if enabled else 0xF1)
    assert (block.ports[STATUS], block.ports[ENABLE]) == (0x0031, 0x0100)


def test_arming_waits_within_a_bound():
    prepare(PLAIN)
    block = Block(enabled=False, after=10 * ENABLE_READS)
    block.call(power_arm, PLAIN)
    assert 10 * ENABLE_READS - block.after == ENABLE_READS
    assert block.ports[ENABLE] == 0x0100


def test_arming_without_a_command_port_takes_the_machine_as_it_is():
    prepare(smi_command=0)
    block = Block(enabled=False)
    block.call(power_arm)
    assert (block.asked, block.ports[ENABLE]) == (None, 0x0100)


def test_a_machine_without_the_button_is_not_touched():
    prepare(status=0)
    block = Block()
    block.call(power_arm)
    assert block.call(power_pressed)["cf"] == 0
    assert block.written == []


def test_a_press_is_seen_once_and_other_events_are_not_it():
    prepare()
    block = Block()
    block.ports[STATUS] = 0x0121
    assert block.call(power_pressed)["cf"] == 1
    assert block.ports[STATUS] == 0x0021
    assert block.call(power_pressed)["cf"] == 0


def test_soft_off_writes_type_and_then_enable_to_both_blocks():
    prepare(off_known=1, off_a=5, off_b=7, control_b=CONTROL_B)
    block = Block()
    block.call(power_off)
    assert block.written == [
        (CONTROL_A, 5 << 10 | 1),
        (CONTROL_A, 5 << 10 | 1 | 0x2000),
        (CONTROL_B, 7 << 10 | 2),
        (CONTROL_B, 7 << 10 | 2 | 0x2000),
    ]


def test_soft_off_with_one_block_or_without_knowledge():
    prepare(off_known=1)
    block = Block()
    block.call(power_off)
    assert block.written == [(CONTROL_A, 1), (CONTROL_A, 0x2001)]
    prepare(off_known=1, control_a=0)
    block = Block()
    block.call(power_off)
    assert block.written == []
    prepare()
    block = Block()
    block.call(power_off)
    assert block.written == []
