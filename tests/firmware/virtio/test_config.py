"""The walk over the capabilities: the first structure of each kind counts, and the walk ends."""

import struct

from emulator.devices.virtio import COMMON
from firmware.layouts.nic import Capability
from firmware.virtio.config import virtio_capabilities
from tests.support.nic import PCI_ADDRESS, NicBench, windows_lab

LAB = windows_lab(virtio_capabilities)


def lay_down(bench):
    """Walk the capabilities; return the rows that were made."""
    rows = LAB.machine.alloc(5 * Capability.SIZE)
    LAB.machine.write(rows, bytes(5 * Capability.SIZE))
    bench.call(virtio_capabilities, function=PCI_ADDRESS, rows=rows)
    return [LAB.view(Capability, rows + n * Capability.SIZE) for n in range(5)]


def test_capabilities_msix_is_switched_off():
    bench = NicBench(LAB, modern=True)
    bench.card.config_write(bench.card.msix + 2, 2, 0x8001)
    assert bench.card.config[bench.card.msix + 3] & 0x80
    found = lay_down(bench)
    assert not bench.card.config[bench.card.msix + 3] & 0x80
    assert (found[1].bar, found[1].offset, found[1].length) == (4, COMMON, 0x38)
    assert found[2].extra == 4


def test_capabilities_loop_ends():
    bench = NicBench(LAB)
    bench.card.poke(bench.card.msix + 1, 1, bench.card.msix)
    lay_down(bench)


def test_capabilities_first_of_a_kind_counts_and_others_are_passed_over():
    bench = NicBench(LAB, modern=True)
    for kind in (1, 5, 0, 255):
        bench.card.add_capability(9, struct.pack("<BBB3xII", 16, kind, 1, 0x9000, 0x77))
    bench.card.add_capability(5, bytes(6))
    found = lay_down(bench)
    assert found[1].length == 0x38
    assert [found[n].length for n in (0, 1, 2, 3, 4)] == [0, 0x38, 0x1000, 1, 12]


def test_capabilities_at_the_end_of_the_space_is_passed_over():
    bench = NicBench(LAB)
    bench.card.poke(bench.card.msix + 1, 1, 0xF4)
    bench.card.poke(0xF4, 4, 0x0110_0009)
    assert lay_down(bench)[1].length == 0


def test_capabilities_of_a_function_without_a_list():
    bench = NicBench(LAB, modern=True)
    bench.card.poke(6, 2, 0)
    assert [row.length for row in lay_down(bench)] == [0] * 5
