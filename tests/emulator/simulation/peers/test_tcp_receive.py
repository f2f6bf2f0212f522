"""Reassembly against the plainest model: a map from position to byte."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from emulator.simulation.peers.tcp_receive import Receiver

STREAM = bytes((7 * n + n // 256) & 0xFF for n in range(600))
pieces = st.lists(st.tuples(st.integers(0, 599), st.integers(1, 120)), max_size=40)


def receiver_of(capacity: int = 10_000) -> Receiver:
    receiver = Receiver(capacity, 0, 1460)
    receiver.advertise()
    return receiver


def prefix(known: set[int]) -> int:
    length = 0
    while length in known:
        length += 1
    return length


@given(pieces)
def test_any_pieces_in_any_order_give_the_stream(parts):
    receiver = receiver_of()
    known: set[int] = set()
    for start, size in parts:
        data = STREAM[start : start + size]
        before = receiver.next
        moved = receiver.add(start + 1, data)
        known.update(range(start, start + len(data)))
        assert receiver.next == prefix(known) + 1
        assert moved == (receiver.next > before)
        assert bytes(receiver.unread) == STREAM[: prefix(known)]
        held = {at - 1 for first, last in receiver.blocks() for at in range(first, last)}
        assert held <= known
        assert len(receiver.blocks()) <= 3
        if start > prefix(known):
            # RFC 2018: the first block holds what came last.
            first, last = receiver.blocks()[0]
            assert first <= start + 1 < last


@given(pieces, st.integers(1, 300))
def test_nothing_beyond_the_window_is_kept(parts, capacity):
    receiver = receiver_of(capacity)
    for start, size in parts:
        receiver.add(start + 1, STREAM[start : start + size])
        assert len(receiver.unread) <= capacity
        assert bytes(receiver.unread) == STREAM[: len(receiver.unread)]


def test_the_edge_that_was_advertised_never_moves_back():
    receiver = receiver_of(1000)
    edges = [receiver.edge]
    for start in range(0, 600, 100):
        receiver.add(start + 1, STREAM[start : start + 100])
        receiver.advertise()
        edges.append(receiver.edge)
        if start == 300:
            assert receiver.take() == STREAM[:400]
    assert edges == sorted(edges)
    assert receiver.window <= 1000


def test_the_window_opens_in_steps_worth_a_segment():
    receiver = receiver_of(4000)
    receiver.add(1, bytes(1400))
    assert receiver.advertise() == 2600
    receiver.take()
    assert not receiver.would_open()
    receiver.add(1401, bytes(100))
    receiver.take()
    assert receiver.would_open()
    assert receiver.advertise() == 4000
