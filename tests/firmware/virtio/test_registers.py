"""Register structures: what can be mapped, how long a reset may take, where a notify register may lie."""

import pytest

from emulator.devices.virtio import COMMON, NOTIFY
from firmware.layouts.memory import MEMORY
from firmware.layouts.nic import RESET_READS, Capability, Virtqueue
from firmware.limits import MMIO_BYTES, PAGE, WINDOW_DMA, WINDOW_MMIO
from firmware.virtio.registers import (
    virtio_queue_enable,
    virtio_reset_ports,
    virtio_reset_window,
    virtio_window,
)
from tests.support.nic import DMA_PHYSICAL, PCI_ADDRESS, NicBench, windows_lab

LAB = windows_lab(virtio_window, virtio_reset_ports, virtio_reset_window, virtio_queue_enable)
STATUS_PORT = 0xC000 + 18


@pytest.fixture
def bench():
    """A bench with a modern card that decodes its windows and may master the bus."""
    made = NicBench(LAB, modern=True)
    made.card.poke(4, 2, 7)
    return made


def row(*, bar=4, offset=COMMON, length=0x38, extra=0):
    """Lay a capability down."""
    address = LAB.machine.alloc(Capability.SIZE)
    place = LAB.view(Capability, address)
    place.bar, place.offset, place.length, place.extra = bar, offset, length, extra
    return address


def window(bench, **fields):
    return bench.call(virtio_window, function=PCI_ADDRESS, row=row(**fields)).outputs["rax"]


def test_window_lies_where_the_structure_does(bench):
    assert window(bench) == WINDOW_MMIO
    assert window(bench, offset=0x1008, length=4) == WINDOW_MMIO + PAGE + 8
    assert LAB.g(MEMORY).mmio_next == WINDOW_MMIO + 2 * PAGE


@pytest.mark.parametrize(
    ("offset", "length", "pages"),
    [(0, 1, 1), (0, PAGE, 1), (0, PAGE + 1, 2), (0xFFC, 4, 1), (0xFFC, 5, 2), (8, 1 << 20, 17)],
)
def test_window_covers_the_structure_and_no_more_than_sixteen_pages(bench, offset, length, pages):
    assert window(bench, offset=offset, length=length) == WINDOW_MMIO + offset
    assert LAB.g(MEMORY).mmio_next == WINDOW_MMIO + pages * PAGE


@pytest.mark.parametrize("bar", [0, 6, 255])
def test_window_behind_no_bar(bench, bar):
    assert window(bench, bar=bar) == 0


def test_window_behind_ports(bench):
    bench.card.poke(0x20, 4, 0xC001)
    assert window(bench) == 0


def test_window_without_room(bench):
    LAB.g(MEMORY).mmio_next = WINDOW_MMIO + MMIO_BYTES
    assert window(bench) == 0


@pytest.mark.parametrize(("reads", "stuck"), [(0, 0), (3, 0), (RESET_READS - 1, 0), (10**9, 1)])
def test_reset_is_read_back_a_bounded_number_of_times(reads, stuck):
    made = NicBench(LAB, transitional=True)
    made.card.poke(4, 2, 7)
    made.card.reset_reads = reads
    assert made.call(virtio_reset_ports, port=STATUS_PORT).outputs["cf"] == stuck
    common = window(made)
    assert made.call(virtio_reset_window, common=common).outputs["cf"] == stuck


@pytest.mark.parametrize(
    ("length", "extra", "outside"),
    [
        (0x1000, 4, 0),
        (6, 4, 0),  # the register is the last one of the structure
        (5, 4, 1),
        (1, 0, 1),
        (2, 0, 0),
        (0x2_0000, 0xFFFE, 0),  # the last one of what is mapped
        (0x2_0000, 0xFFFF, 1),
        (0x2_0000, 0xFFFF_FFFF, 1),
    ],
)
def test_queue_enable_notify_register_lies_inside_its_structure(bench, length, extra, outside):
    common = window(bench)
    queue = LAB.machine.alloc(Virtqueue.SIZE)
    rings = LAB.view(Virtqueue, queue)
    rings.descriptors, rings.available, rings.used = (WINDOW_DMA + PAGE * n for n in range(3))
    bench.card.select = 1
    got = bench.call(
        virtio_queue_enable,
        queue=queue,
        common=common,
        row=row(offset=NOTIFY, length=length, extra=extra),
        window=0x1000,
        shift=DMA_PHYSICAL - WINDOW_DMA & 0xFFFF_FFFF_FFFF_FFFF,
    )
    assert got.outputs["cf"] == outside
    device = bench.card.queues[1]
    assert (device.table, device.available, device.used) == tuple(
        DMA_PHYSICAL + PAGE * n for n in range(3)
    )
    assert device.enabled != outside
    if not outside:
        assert rings.notify == 0x1000 + extra
