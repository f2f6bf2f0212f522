"""Frames through the rings: what a good card does, and what a bad one may not achieve."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.devices.virtio import F_ANY_LAYOUT
from emulator.devices.virtio_net import OFFERED
from emulator.devices.virtqueue import DriverError
from firmware.errors import NIC_RING
from firmware.layouts.nic import (
    NIC,
    NO_HEAD,
    RECEIVE_MAX,
    RX_BUFFERS,
    Nic,
    NicState,
    UsedElement,
    UsedRing,
)
from firmware.nic.legacy import legacy_start
from firmware.nic.queue import (
    nic_commit,
    nic_flush,
    nic_leave,
    nic_poll,
    nic_release,
    nic_reserve,
    queue_kick,
)
from tests.support.lab import Lab
from tests.support.nic import DMA_PHYSICAL, PCI_ADDRESS, NicBench

LAB = Lab(
    legacy_start, nic_poll, nic_leave, nic_release, nic_reserve, nic_commit, nic_flush, slots=0
)
FRAME = bytes(range(60))
LAYOUTS = {"apart": OFFERED & ~(1 << F_ANY_LAYOUT), "together": OFFERED}
"""Cards that want a header in a descriptor of its own, and those that do not mind."""


@pytest.fixture(params=LAYOUTS)
def layout(request):
    """What the card offers."""
    return {"offered": LAYOUTS[request.param]}


def running(**options):
    bench = NicBench(LAB, **options)
    LAB.machine.write(LAB.image.address(NIC), bytes(Nic.SIZE))
    nic = bench.nic
    nic.pci_address, nic.dma_physical, nic.rx_head = PCI_ADDRESS, DMA_PHYSICAL, NO_HEAD
    bench.run("legacy_start")
    nic.state = NicState.READY
    return bench


def receive(bench):
    got = bench.call(nic_poll).outputs
    return LAB.machine.read(got["rsi"], got["ecx"]) if got["ecx"] else b""


def send(bench, frame):
    got = bench.call(nic_reserve).outputs
    assert got["cf"] == 0
    LAB.machine.write(got["rdi"], frame)
    bench.call(nic_commit, length=len(frame))


def test_nic_poll_nothing_there_gives_none():
    bench = running()
    assert receive(bench) == b""
    bench.call(nic_release)  # nothing in hand
    assert bench.nic.rx_head == NO_HEAD


def test_nic_poll_frames_in_order_and_buffers_return(layout):
    bench = running(queue_size=4, **layout)
    buffers = 4 // bench.nic.rx.links
    for n in range(9):
        assert bench.card.deliver(FRAME + bytes([n]))
        assert receive(bench) == FRAME + bytes([n])
        bench.call(nic_release)
        bench.call(nic_flush)
    assert bench.card.queues[0].waiting == buffers
    assert bench.nic.rx_frames == 9


def test_nic_leave_keeps_the_frame_for_the_next_poll(layout):
    bench = running(queue_size=4, **layout)
    buffers = 4 // bench.nic.rx.links
    bench.call(nic_leave)  # nothing in hand
    assert (bench.nic.rx.seen, bench.nic.rx_frames) == (0, 0)
    for n in range(9):
        for more in range(buffers):
            assert bench.card.deliver(FRAME + bytes([n, more]))
        for _ in range(3):
            assert receive(bench) == FRAME + bytes([n, 0])
            bench.call(nic_leave)
            assert bench.nic.rx_head == NO_HEAD
        for more in range(buffers):
            assert receive(bench) == FRAME + bytes([n, more])
            bench.call(nic_release)
    assert bench.nic.rx_frames == 9 * buffers


def test_nic_poll_as_many_frames_as_there_are_buffers_and_no_more(layout):
    """Each has a buffer of its own; what comes beyond them is lost at the card."""
    bench = running(**layout)
    most = 256 // bench.nic.rx.links
    frames = [FRAME + n.to_bytes(2, "little") for n in range(most)]
    assert all(bench.card.deliver(frame) for frame in frames)
    assert not bench.card.deliver(FRAME)
    LAB.machine.environment = bench.environment()
    for frame in frames:
        got = bench.run("nic_poll")
        assert LAB.machine.read(got["rsi"], got["rcx"]) == frame
        bench.run("nic_release")
    assert bench.card.deliver(FRAME)
    assert receive(bench) == FRAME


def test_nic_poll_full_ring_then_more(layout):
    """A ring that filled completely goes on (index 65535 -> 0 included)."""
    bench = running(queue_size=8, **layout)
    rx = bench.nic.rx
    most, links = rx.buffers, rx.links
    # Start near the wrap: both sides agree on the index.
    rx.given, rx.seen = most - 4, 65532
    queue = bench.card.queues[0]
    queue.taken = queue.returned = 65532
    ring = LAB.view(UsedRing, rx.used)
    ring.idx = 65532
    LAB.machine.write(rx.available + 2, rx.given.to_bytes(2, "little"))
    for n in range(most):
        slot = (65532 + n) % 8
        LAB.machine.write(rx.available + 4 + 2 * slot, (links * n).to_bytes(2, "little"))
    for n in range(most):
        assert bench.card.deliver(FRAME + bytes([n]))
    assert not bench.card.deliver(FRAME)
    for n in range(most):
        assert receive(bench)[-1] == n
        bench.call(nic_release)
    assert bench.card.deliver(FRAME)
    assert receive(bench) == FRAME


@pytest.mark.parametrize(("flags", "trusted"), [(0, 0), (1, 1), (2, 2), (0xFF, 3)])
def test_nic_poll_notes_whether_the_host_vouches(flags, trusted, layout):
    bench = running(**layout)
    bench.card.deliver(FRAME, flags=flags)
    receive(bench)
    assert bench.nic.trusted == trusted


def corrupt(bench, *, number=None, length=None):
    used = LAB.view(UsedRing, bench.nic.rx.used)
    at = used.elements[bench.nic.rx.seen % 256].address_
    if number is not None:
        LAB.machine.write(at, number.to_bytes(4, "little"))
    if length is not None:
        LAB.machine.write(at + 4, length.to_bytes(4, "little"))
    assert UsedElement.SIZE == 8


@pytest.mark.parametrize("number", [256, 257, 0xFFFF, 0x8000_0000, 0xFFFF_FFFF])
def test_nic_poll_impossible_id_is_skipped_and_counted(number, layout):
    _skips(number, layout)


@pytest.mark.parametrize("number", [1, 255])
def test_nic_poll_the_frame_of_a_chain_is_no_head(number):
    _skips(number, {"offered": LAYOUTS["apart"]})


def _skips(number, layout):
    bench = running(**layout)
    bench.card.deliver(FRAME)
    bench.card.deliver(FRAME + b"good")
    corrupt(bench, number=number)
    assert receive(bench) == FRAME + b"good"
    assert bench.nic.bad_ids == 1


@pytest.mark.parametrize("length", [0, 9, 10, 23, RECEIVE_MAX + 11, 0x7FFF_FFFF, 0xFFFF_FFFF])
def test_nic_poll_impossible_length_gives_the_buffer_back(length):
    bench = running()
    before = bench.card.queues[0].waiting
    bench.card.deliver(FRAME)
    corrupt(bench, length=length)
    assert receive(bench) == b""
    assert bench.nic.bad_lengths == 1
    assert bench.card.queues[0].waiting == before


@pytest.mark.parametrize("length", [14, RECEIVE_MAX])
def test_nic_poll_shortest_and_longest_frame_are_taken(length, layout):
    bench = running(**layout)
    bench.card.deliver(bytes(length))
    assert len(receive(bench)) == length


def test_nic_poll_ring_ahead_of_itself_fails_the_card(layout):
    bench = running(**layout)
    beyond = bench.nic.rx.buffers + 1
    LAB.view(UsedRing, bench.nic.rx.used).idx = beyond
    assert receive(bench) == b""
    assert bench.nic.state == NicState.FAILED
    assert bench.nic.error == NIC_RING.code | beyond
    assert receive(bench) == b""
    assert bench.call(nic_reserve).outputs["cf"] == 1
    bench.call(nic_flush)


def test_nic_commit_pads_with_zeros_and_flush_rings_once():
    bench = running()
    for frame in (b"\x01" * 42, b"\x02" * 60, b"\x03" * 1514):
        send(bench, frame)
    bench.call(nic_flush)
    bench.call(nic_flush)
    assert bench.card.notified == [1, 0]  # the receive buffers of the start, once
    bench.card.service()
    assert bench.card.transmitted == [b"\x01" * 42 + bytes(18), b"\x02" * 60, b"\x03" * 1514]
    assert bench.nic.tx_frames == 3


def test_nic_reserve_is_the_same_buffer_until_commit():
    bench = running()
    first = bench.call(nic_reserve).outputs["rdi"]
    assert bench.call(nic_reserve).outputs["rdi"] == first


def test_nic_reserve_all_out_then_reclaimed():
    bench = running(queue_size=8)
    for n in range(4):
        send(bench, bytes([n]) * 60)
    assert bench.call(nic_reserve).outputs["cf"] == 1
    assert bench.nic.tx_full == 1
    bench.call(nic_flush)
    bench.card.service()
    for n in range(4):
        send(bench, bytes([n]) * 60)
    assert bench.nic.tx_free_count == 0


def test_nic_reclaim_does_not_free_twice():
    bench = running(queue_size=4)
    for n in range(2):
        send(bench, bytes([n]) * 60)
    bench.call(nic_flush)
    bench.card.service()
    used = LAB.view(UsedRing, bench.nic.tx.used)
    used.elements[1].id = used.elements[0].id
    assert bench.call(nic_reserve).outputs["cf"] == 0
    assert (bench.nic.tx_free_count, bench.nic.bad_ids) == (1, 1)


def test_nic_flush_device_that_polls_is_not_told():
    bench = running()
    bench.card.queues[1].set_no_notify(on=True)
    send(bench, FRAME)
    bench.call(nic_flush)
    assert bench.card.notified == [0]
    bench.card.service()
    assert bench.card.transmitted == [FRAME]


def test_queue_kick_before_ready_would_be_a_driver_error():
    bench = running()
    bench.card.status = 3
    bench.nic.tx.pending = 1
    with pytest.raises(DriverError, match="before DRIVER_OK"):
        bench.call(queue_kick, queue=bench.nic.tx.address_)


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(list(LAYOUTS.values())),
    st.binary(min_size=4, max_size=64),
    st.integers(0, 2**16 - 1),
)
def test_nic_poll_any_used_ring_stays_within_bounds(offered, garbage, index):
    bench = running(offered=offered)
    used = bench.nic.rx.used
    LAB.machine.write(used + 4, garbage)
    LAB.view(UsedRing, used).idx = index
    for _ in range(4):
        got = bench.call(nic_poll).outputs
        if got["ecx"]:
            assert RX_BUFFERS < got["rsi"] < RX_BUFFERS + bench.nic.rx.buffers * 2048
            bench.call(nic_release)
