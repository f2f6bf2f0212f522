"""PCI configuration space against a modelled bus."""

import pytest

from emulator.environment import Environment
from firmware.layouts.pci import BAR_64, BAR_IO, BUS_FUNCTIONS, FUNCTIONS, NO_FUNCTION, PciCommand
from firmware.pci import (
    pci_bar,
    pci_command,
    pci_find,
    pci_read,
    pci_read8,
    pci_read16,
    pci_write,
    pci_write8,
    pci_write16,
)
from tests.support.lab import Lab

LAB = Lab(
    pci_read,
    pci_write,
    pci_read8,
    pci_read16,
    pci_write8,
    pci_write16,
    pci_command,
    pci_bar,
    pci_find,
)
ABSENT = 0xFFFF_FFFF


class Bus(Environment):
    """Configuration space as `{(function, offset): dword}`; anything else reads as all ones."""

    def __init__(self, space):
        super().__init__()
        self.space, self.selected = space, 0
        self.looked_at: set[int] = set()
        self.on_port_out, self.on_port_in = self.write, self.read

    def write(self, port, size, value):
        assert size == 4
        if port == 0xCF8:
            assert value >> 31 == 1
            self.selected = value
            self.looked_at.add(value >> 8 & 0xFFFF)
            return
        assert port == 0xCFC
        self.space[self.selected >> 8 & 0xFFFF, self.selected & 0xFC] = value

    def read(self, port, size):
        assert (port, size) == (0xCFC, 4)
        return self.space.get((self.selected >> 8 & 0xFFFF, self.selected & 0xFC), ABSENT)


def test_pci_read_names_the_register():
    got = LAB.call(pci_read, Bus({(0x18, 0x10): 0x1234_5678}), function=0x18, offset=0x13)
    assert got.outputs["eax"] == 0x1234_5678


def test_pci_write_reaches_the_register():
    space: dict[tuple[int, int], int] = {}
    LAB.call(pci_write, Bus(space), function=0xFFFF, offset=0xFC, value=0xDEAD_BEEF)
    assert space == {(0xFFFF, 0xFC): 0xDEAD_BEEF}


@pytest.mark.parametrize("offset", [0x60, 0x61, 0x62, 0x63, 0xFF])
def test_pci_narrow_accesses_use_the_port_of_their_bytes(offset):
    sent = []
    environment = Environment(on_port_in=lambda port, size: (port & 3) + 0x40 * size)
    environment.on_port_out = lambda port, size, value: sent.append((port, size, value))
    select = (0xCF8, 4, 0x8000_1800 | offset & 0xFC)
    port = 0xCFC + offset % 4
    got = LAB.call(pci_read8, environment, function=0x18, offset=offset).outputs["eax"]
    assert got == offset % 4 + 0x40
    LAB.call(pci_write8, Environment(on_port_out=environment.on_port_out), function=0x18,
             offset=offset, value=0x5A)  # fmt: skip
    assert sent == [select, select, (port, 1, 0x5A)]
    if offset % 2 == 0:
        sent.clear()
        environment = Environment(on_port_in=environment.on_port_in)
        got = LAB.call(pci_read16, environment, function=0x18, offset=offset).outputs["eax"]
        assert got == offset % 4 + 0x80
        environment = Environment(on_port_out=lambda *event: sent.append(event))
        LAB.call(pci_write16, environment, function=0x18, offset=offset, value=0x1234)
        assert sent == [select, (port, 2, 0x1234)]


def test_pci_command_clears_then_sets_and_spares_the_status():
    space = {(8, 4): 0xF810_0147}
    LAB.call(
        pci_command,
        Bus(space),
        function=8,
        set_bits=PciCommand.NO_INTX | PciCommand.MEMORY,
        clear_bits=PciCommand.BUS_MASTER | PciCommand.MEMORY,
    )
    assert space == {(8, 4): 0x0543}


@pytest.mark.parametrize(
    ("number", "registers", "wanted"),
    [
        (0, {0x10: 0xC001}, (0xC000, BAR_IO, 0)),
        (1, {0x14: 0xFEBF_1000}, (0xFEBF_1000, 0, 0)),
        (4, {0x20: 0x0000_000C, 0x24: 0x70}, (0x70_0000_0000, BAR_64, 0)),
        (4, {0x20: 0xFE00_000C, 0x24: 0}, (0xFE00_0000, BAR_64, 0)),
        (5, {0x24: 0xFE00_000C}, (0, None, 1)),
        (5, {0x24: 0xFE00_0008}, (0xFE00_0000, 0, 0)),
        (2, {0x18: 0}, (0, None, 1)),
        (2, {0x18: 1}, (0, None, 1)),
        (6, {}, (0, None, 1)),
        (0xFFFF_FFFF, {}, (0, None, 1)),
    ],
)
def test_pci_bar_every_kind(number, registers, wanted):
    bus = Bus({(0x18, offset): value for offset, value in registers.items()})
    got = LAB.call(pci_bar, bus, function=0x18, number=number).outputs
    assert (got["rax"], got["cf"]) == (wanted[0], wanted[2])
    if wanted[1] is not None:
        assert got["r8d"] == wanted[1]


def test_pci_find_looks_at_functions_of_multi_function_devices_only():
    space = {
        (0x08, 0): 0x7000_8086, (0x08, 0xC): 0x0080_0000, (0x0B, 0): 0x7113_8086,
        (0x10, 0): 0x1237_8086, (0x10, 0xC): 0, (0x11, 0): 0x1000_1AF4,
        (0x18, 0): 0x1041_1AF4,
    }  # fmt: skip
    got = LAB.call(
        pci_find, Bus(space), first=0x1000_1AF4, second=0x1041_1AF4, limit=FUNCTIONS
    ).outputs
    assert (got["edi"], got["cf"]) == (0x18, 0)
    got = LAB.call(
        pci_find, Bus(space), first=0x7113_8086, second=0x7113_8086, limit=BUS_FUNCTIONS
    ).outputs
    assert (got["edi"], got["cf"]) == (0x0B, 0)


def look(space, limit):
    """Look for a device that is not there; return how many functions were read."""
    bus = Bus(space)
    got = LAB.call(pci_find, bus, first=1, second=2, limit=limit).outputs
    assert (got["edi"], got["cf"]) == (NO_FUNCTION, 1)
    return len(bus.looked_at)


@pytest.mark.parametrize(("limit", "functions"), [(FUNCTIONS, 32 * 256), (BUS_FUNCTIONS, 32)])
def test_pci_find_nothing(limit, functions):
    assert look({}, limit) == functions


@pytest.mark.parametrize(
    ("header", "buses", "functions"),
    [
        (0x0001_0000, 0x0002_0100, 3 * 32),  # a bridge to bus 1, and behind that to bus 2
        (0x0081_0000, 0x0001_0100, 2 * 32 + 7),  # the same of a device with functions
        (0x0001_0000, 0x00FF_0100, 256 * 32),
        (0x0001_0000, 0x0000_0000, 32),  # a bridge that nobody set up
        (0x0000_0000, 0x0002_0100, 32),  # no bridge
        (0x0002_0000, 0x0002_0100, 32),  # a CardBus bridge
    ],
)
def test_pci_find_follows_bridges(header, buses, functions):
    space = {(0x18, 0): 0x2448_8086, (0x18, 0xC): header, (0x18, 0x18): buses}
    assert look(space, BUS_FUNCTIONS) == functions


def test_pci_find_follows_a_bridge_that_is_not_function_0():
    space = {
        (0x10, 0): 0x000C_1B36, (0x10, 0xC): 0x0080_0000,
        (0x12, 0): 0x000C_1B36, (0x12, 0xC): 0x0001_0000, (0x12, 0x18): 0x0001_0100,
        (0x100, 0): 0x1044_1AF4,
    }  # fmt: skip
    got = LAB.call(pci_find, Bus(space), first=1, second=0x1044_1AF4, limit=BUS_FUNCTIONS).outputs
    assert (got["edi"], got["cf"]) == (0x100, 0)
    got = LAB.call(pci_find, Bus({(0x100, 0): 0x1044_1AF4}), first=1, second=0x1044_1AF4, limit=BUS_FUNCTIONS).outputs  # fmt: skip
    assert got["cf"] == 1
