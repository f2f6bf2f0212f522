"""The card as a whole: which one is taken, through what, and when it wakes us."""

from typing import Any

import pytest

from emulator.devices.virtio import F_VERSION_1
from emulator.devices.virtio_net import BAR_BASE, F_MAC, OFFERED
from firmware.errors import NIC_BAR, NIC_FEATURES, NIC_QUEUE, NIC_RESET_STUCK, NIC_UNSUPPORTED
from firmware.layouts.memory import MEMORY
from firmware.layouts.nic import NIC, NIC_RESTARTS, Nic, NicState, Transport, UsedRing
from firmware.layouts.node import NETWORK
from firmware.limits import MMIO_BYTES, PAGE, WINDOW_MMIO
from firmware.nic.device import (
    nic_init,
    nic_irq_ack,
    nic_irq_disable,
    nic_irq_enable,
    nic_link,
    nic_watch,
)
from firmware.nic.queue import nic_commit, nic_flush, nic_poll, nic_release, nic_reserve
from tests.support.nic import DMA_PHYSICAL, MAC, PCI_ADDRESS, NicBench, windows_lab

LAB = windows_lab(
    nic_init, nic_irq_ack, nic_irq_disable, nic_irq_enable, nic_poll, nic_release, nic_reserve,
    nic_commit, nic_watch,
)  # fmt: skip
KINDS: dict[str, dict[str, Any]] = {
    "legacy": {},
    "modern": {"modern": True},
    "transitional": {"transitional": True},
    "modern below 4 GB": {"modern": True, "bar_base": 0xFEB0_0000},
}


def start(bench, lockstep=True):
    inputs = {"address": PCI_ADDRESS, "physical": DMA_PHYSICAL}
    if lockstep:
        return bench.call(nic_init, **inputs).outputs["eax"]
    return bench.run("nic_init", rdi=PCI_ADDRESS, rsi=DMA_PHYSICAL)["rax"]


@pytest.fixture(params=["legacy", "modern"])
def running(request):
    bench = NicBench(LAB, **KINDS[request.param])
    assert start(bench, lockstep=False) == 0
    return bench


@pytest.mark.parametrize("kind", KINDS)
def test_nic_init_every_kind_of_card_runs(kind):
    bench = NicBench(LAB, **KINDS[kind])
    assert start(bench) == 0
    nic = bench.nic
    modern = kind != "legacy"
    assert nic.state == NicState.READY
    assert nic.transport == (Transport.MODERN if modern else Transport.LEGACY)
    assert bytes(LAB.g(NETWORK).mac) == MAC
    assert (nic.mtu, nic.irq_line) == (1500, 11)
    assert LAB.g(NETWORK).link_up == 1
    assert bench.card.running
    assert bench.card.notified == [0]
    assert bench.card.accepted >> F_VERSION_1 & 1 == modern
    assert bench.bus.strays == []


def test_nic_init_sends_and_receives(running):
    bench = running
    for n in range(300):
        assert bench.card.deliver(bytes([n % 256]) * 64)
        got = bench.run("nic_poll")
        assert LAB.machine.read(got["rsi"], 64) == bytes([n % 256]) * 64
        bench.run("nic_release")
        buffer = bench.run("nic_reserve")
        LAB.machine.write(buffer["rdi"], bytes([n % 256]) * 60)
        bench.run("nic_commit", rcx=60)
        bench.run("nic_flush")
        bench.card.service()
    assert bench.card.transmitted == [bytes([n % 256]) * 60 for n in range(300)]


def test_nic_init_again_after_a_failure_keeps_its_windows(running):
    bench = running
    bench.nic.state = NicState.FAILED
    mapped = LAB.g(MEMORY).mmio_next
    assert start(bench) == 0
    assert LAB.g(MEMORY).mmio_next == mapped
    assert bench.card.deliver(bytes(60))


def test_nic_watch_leaves_a_healthy_card_alone(running):
    running.call(nic_watch)
    assert LAB.g(NIC_RESTARTS).count == 0


@pytest.mark.parametrize("status", [0, 15 | 64, 15 | 128])
def test_nic_watch_card_that_gave_up_is_started_anew(running, status):
    bench = running
    bench.card.status = status
    bench.call(nic_watch)
    assert (bench.nic.state, LAB.g(NIC_RESTARTS).count) == (NicState.READY, 1)
    assert bench.card.deliver(bytes(60))


def test_nic_watch_ring_that_made_no_sense_is_started_anew(running):
    bench = running
    LAB.view(UsedRing, bench.nic.rx.used).idx = 5000
    assert bench.run("nic_poll")["rcx"] & 0xFFFF_FFFF == 0
    assert bench.nic.state == NicState.FAILED
    bench.call(nic_watch)
    assert bench.card.deliver(b"\x07" * 60)
    got = bench.run("nic_poll")
    assert LAB.machine.read(got["rsi"], 60) == b"\x07" * 60


def test_nic_watch_card_that_is_gone_is_an_error_and_tried_again(running):
    bench = running
    bench.pci.functions.clear()
    bench.card.status = 0
    bench.call(nic_watch)
    assert bench.nic.state == NicState.ABSENT
    assert bench.nic.error == NIC_UNSUPPORTED.code
    bench.pci.functions[PCI_ADDRESS] = bench.card
    bench.call(nic_watch)
    assert bench.nic.state == NicState.READY


def test_nic_watch_card_that_sends_nothing_is_started_anew_after_ten_seconds(running):
    bench = running
    for _ in range(128):
        bench.run("nic_reserve")
        bench.run("nic_commit", rcx=60)
    for _ in range(19):
        bench.run("nic_watch")
    assert LAB.g(NIC_RESTARTS).stalled == 19
    bench.call(nic_watch)
    assert (LAB.g(NIC_RESTARTS).stalled, LAB.g(NIC_RESTARTS).count) == (0, 1)
    assert (bench.nic.state, bench.nic.tx_free_count) == (NicState.READY, 128)


def test_nic_watch_card_that_was_only_slow_goes_on(running):
    bench = running
    for _ in range(128):
        bench.run("nic_reserve")
        bench.run("nic_commit", rcx=60)
    bench.call(nic_watch)
    bench.run("nic_flush")
    bench.card.service()
    bench.call(nic_watch)
    assert (LAB.g(NIC_RESTARTS).stalled, LAB.g(NIC_RESTARTS).count) == (0, 0)


def test_nic_watch_without_a_start_does_nothing():
    bench = NicBench(LAB)
    bench.call(nic_watch)
    assert bench.nic.state == NicState.ABSENT


@pytest.mark.parametrize(("vendor", "device"), [(0x8086, 0x100E), (0x1AF4, 0x1001)])
def test_nic_init_other_cards_are_refused(vendor, device):
    bench = NicBench(LAB)
    bench.card.poke(0, 4, device << 16 | vendor)
    assert start(bench) == NIC_UNSUPPORTED.code
    assert bench.nic.state == NicState.ABSENT
    assert bench.nic.error == NIC_UNSUPPORTED.code


def test_nic_init_nothing_at_the_address_is_refused():
    bench = NicBench(LAB)
    bench.pci.functions.clear()
    assert start(bench) == NIC_UNSUPPORTED.code


def test_nic_init_transitional_card_falls_back_to_ports():
    bench = NicBench(LAB, transitional=True)
    LAB.g(MEMORY).mmio_next = WINDOW_MMIO + MMIO_BYTES
    assert start(bench) == 0
    assert bench.nic.transport == Transport.LEGACY
    assert bench.nic.tx_free_count == 128
    assert bench.card.header_bytes == 10


@pytest.mark.parametrize("pages", range(4))
def test_nic_init_modern_card_without_room_for_its_windows_is_refused(pages):
    bench = NicBench(LAB, modern=True)
    LAB.g(MEMORY).mmio_next = WINDOW_MMIO + MMIO_BYTES - pages * PAGE
    assert start(bench) == NIC_BAR.code


@pytest.mark.parametrize("bar", [0, 1])
def test_nic_init_windows_behind_an_impossible_bar_are_refused(bar):
    bench = NicBench(LAB, modern=True)
    bench.card.poke(0x20, 8, 0 if bar == 0 else 0xC001)
    assert start(bench) == NIC_BAR.code


@pytest.mark.parametrize("kind", [1, 2, 3, 4])
def test_nic_init_structure_missing_from_a_modern_card_is_refused(kind):
    bench = NicBench(LAB, modern=True)
    bench.card.poke(capability_at(bench.card, kind) + 3, 1, 9)
    assert start(bench) == NIC_BAR.code


def test_nic_init_modern_card_without_capabilities_is_refused():
    bench = NicBench(LAB, modern=True)
    bench.card.poke(6, 2, 0)
    assert start(bench) == NIC_BAR.code


@pytest.mark.parametrize("refuse", ["version", "mac", "settled"])
def test_nic_init_modern_features_that_do_not_fit_are_refused(refuse):
    offered = OFFERED & ~(1 << F_MAC) if refuse == "mac" else OFFERED
    bench = NicBench(LAB, modern=True, offered=offered)
    if refuse == "version":
        bench.card.offered &= ~(1 << F_VERSION_1)
    bench.card.refuse_features = refuse == "settled"
    assert start(bench) == NIC_FEATURES.code


@pytest.mark.parametrize("size", [1, 2, 128, 1024])
def test_nic_init_modern_queue_sizes(size):
    bench = NicBench(LAB, modern=True, queue_size=size)
    assert start(bench) == (NIC_QUEUE.code | 1 if size == 1 else 0)
    assert bench.card.queues[0].size == min(size, 256)
    if size > 1:
        assert (bench.nic.rx.links, bench.nic.rx.buffers) == (1, min(size, 256))
        assert (bench.nic.tx.links, bench.nic.tx.buffers) == (2, min(size, 256) // 2)


def test_nic_init_modern_reset_that_never_ends_is_given_up():
    bench = NicBench(LAB, modern=True)
    bench.card.reset_reads = 10**9
    assert start(bench) == NIC_RESET_STUCK.code


def test_nic_init_modern_slow_reset_is_waited_for():
    bench = NicBench(LAB, modern=True)
    bench.card.reset_reads = 2
    assert start(bench) == 0


def test_nic_init_modern_without_mtu_leaves_it_unknown():
    bench = NicBench(LAB, modern=True, offered=1 << F_MAC)
    assert start(bench) == 0
    assert bench.nic.mtu == 0
    assert LAB.g(NETWORK).link_up == 1, "a card that cannot tell counts as linked"


def capability_at(card, kind):
    at = card.config[0x34]
    while at:
        if card.config[at] == 9 and card.config[at + 3] == kind:
            return at
        at = card.config[at + 1]
    raise LookupError(kind)


@pytest.mark.parametrize(("length", "multiplier"), [(1, 4), (5, 4), (0x1000, 0x2000_0000)])
def test_nic_init_notify_register_outside_its_structure_is_refused(length, multiplier):
    bench = NicBench(LAB, modern=True)
    at = capability_at(bench.card, 2)
    bench.card.poke(at + 12, 4, length)
    bench.card.poke(at + 16, 4, multiplier)
    assert start(bench) == NIC_BAR.code


def test_nic_init_long_structure_is_mapped_in_part():
    bench = NicBench(LAB, modern=True)
    bench.card.poke(capability_at(bench.card, 2) + 12, 4, 0x40_0000)
    assert start(bench) == 0
    assert LAB.g(MEMORY).mmio_next <= WINDOW_MMIO + 0x14000


def test_nic_link_follows_the_cable(running):
    bench = running
    bench.card.set_link(up=False)
    assert bench.call(nic_irq_ack).outputs["eax"] & 2
    assert bench.call(nic_link).outputs["eax"] == 0
    assert LAB.g(NETWORK).link_up == 0
    bench.card.set_link(up=True)
    assert bench.call(nic_link).outputs["eax"] == 1
    bench.nic.state = NicState.FAILED
    assert bench.call(nic_link).outputs["eax"] == 0


def test_nic_irq_only_wakes_between_enable_and_disable(running):
    bench = running
    card = bench.card
    card.deliver(bytes(60))
    assert card.interrupts == 0, "while the node runs, frames are polled"
    assert bench.call(nic_irq_enable).outputs["cf"] == 1, "a frame came before: do not halt"
    bench.run("nic_poll")
    assert bench.call(nic_irq_enable).outputs["cf"] == 0
    card.deliver(bytes(60))
    assert card.interrupts == 1
    assert bench.call(nic_irq_ack).outputs["eax"] == 1
    assert bench.call(nic_irq_ack).outputs["eax"] == 0, "reading the status clears it"
    bench.call(nic_irq_disable)
    card.deliver(bytes(60))
    assert card.interrupts == 1


def test_nic_irq_without_card_is_quiet():
    bench = NicBench(LAB)
    LAB.machine.write(LAB.image.address(NIC), bytes(Nic.SIZE))
    assert bench.call(nic_irq_ack).outputs["eax"] == 0
    assert bench.call(nic_irq_enable).outputs["cf"] == 0
    bench.call(nic_irq_disable)
    assert BAR_BASE > 2**32
    assert nic_flush.name in LAB.image.symbols
