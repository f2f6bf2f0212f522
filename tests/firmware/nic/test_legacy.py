"""The legacy start: what the card sees, and what stops it."""

import pytest

from emulator.devices.virtio import F_ANY_LAYOUT
from emulator.devices.virtio_net import F_MAC, OFFERED
from firmware.errors import NIC_BAR, NIC_FEATURES, NIC_QUEUE, NIC_RESET_STUCK
from firmware.layouts.nic import NIC, NO_HEAD, Nic, Transport
from firmware.layouts.node import NETWORK
from firmware.nic.legacy import legacy_start
from tests.support.lab import Lab
from tests.support.nic import DMA_PHYSICAL, MAC, PCI_ADDRESS, NicBench

LAB = Lab(legacy_start, slots=0)


def bench_of(**options):
    bench = NicBench(LAB, **options)
    nic = bench.nic
    LAB.machine.write(LAB.image.address(NIC), bytes(Nic.SIZE))
    nic.pci_address = PCI_ADDRESS
    nic.dma_physical = DMA_PHYSICAL
    nic.rx_head = NO_HEAD
    return bench


@pytest.mark.parametrize("size", [2, 64, 256, 1024])
@pytest.mark.parametrize("layout", [0, 1 << F_ANY_LAYOUT], ids=["apart", "together"])
def test_legacy_start_any_queue_size_runs(size, layout):
    bench = bench_of(queue_size=size, offered=OFFERED & ~(1 << F_ANY_LAYOUT) | layout)
    assert bench.call(legacy_start).outputs["eax"] == 0
    card, nic = bench.card, bench.nic
    assert card.running
    assert card.accepted == 1 << 3 | 1 << 5 | 1 << 16 | layout
    assert (nic.transport, nic.header_bytes, nic.mtu) == (Transport.LEGACY, 10, 1500)
    assert bytes(LAB.g(NETWORK).mac) == MAC
    # A receive buffer is one descriptor where the card allows that.
    assert card.queues[0].waiting == min(size if layout else size // 2, 256)
    assert nic.tx_free_count == min(size // 2, 128)
    assert card.command & 7 == 7


def test_legacy_start_without_mtu_leaves_it_unknown():
    bench = bench_of(offered=1 << F_MAC)
    assert bench.call(legacy_start).outputs["eax"] == 0
    assert bench.nic.mtu == 0


@pytest.mark.parametrize("size", [0, 1, 3, 48, 2048])
def test_legacy_start_impossible_queue_size_is_refused(size):
    bench = bench_of(queue_size=size)
    assert bench.call(legacy_start).outputs["eax"] == NIC_QUEUE.code | size
    assert not bench.card.running


def test_legacy_start_impossible_transmit_queue_is_refused():
    bench = bench_of(queue_size=(256, 6))
    assert bench.call(legacy_start).outputs["eax"] == NIC_QUEUE.code | 6


def test_legacy_start_without_mac_is_refused():
    bench = bench_of(offered=OFFERED & ~(1 << F_MAC))
    assert bench.call(legacy_start).outputs["eax"] == NIC_FEATURES.code


def test_legacy_start_without_ports_is_refused():
    bench = bench_of()
    bench.card.poke(0x10, 4, 0)
    assert bench.call(legacy_start).outputs["eax"] == NIC_BAR.code
    bench.card.poke(0x10, 4, 0xFEB0_0000)
    assert bench.call(legacy_start).outputs["eax"] == NIC_BAR.code


def test_legacy_reset_slow_card_is_waited_for():
    bench = bench_of()
    bench.card.reset_reads = 3
    assert bench.call(legacy_start).outputs["eax"] == 0


def test_legacy_reset_stuck_card_is_given_up():
    bench = bench_of()
    bench.card.reset_reads = 10**9
    assert bench.call(legacy_start).outputs["eax"] == NIC_RESET_STUCK.code
