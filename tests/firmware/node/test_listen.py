"""The verbs of a listener, as its commands arrive: authenticated, told where they came from."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware.layouts.control import CONTROL, ControlRequest, ControlResult, ControlVerb
from firmware.layouts.events import EVENT_SHARDS_ALL, EVENTS
from firmware.layouts.net import NET
from firmware.layouts.node import CLOCK, CORE
from firmware.node.control import operator_input
from firmware.node.listen import control_subscribe, control_unsubscribe
from tests.firmware.node.test_control import ASKER_PORT, one, prepare
from tests.support.control import command
from tests.support.lab import Lab
from tests.support.net import NEEDED, PEER, PEER_MAC, SECOND, NetBench, ip32
from tests.support.pages import tables_region

LAB = Lab(*NEEDED, operator_input, slots=1, semantics=False, extra=(tables_region(),))
JUDGED = Lab(*NEEDED, control_subscribe, control_unsubscribe, slots=1)
V, R = ControlVerb, ControlResult


@pytest.fixture
def bench():
    return prepare(lab=LAB)


def place(number=3):
    """Return a row; places are taken from the last one on."""
    return LAB.g(EVENTS).subscribers[number]


def test_subscribe_takes_a_place_for_whoever_asked(bench):
    payload = struct.pack("<II", 7, 1)
    got = one(bench, command(V.SUBSCRIBE, argument=30_000, payload=payload))
    assert (got["result"], got["value"]) == (R.DONE, 0)
    row = place()
    assert (row.ip, row.port, bytes(row.mac)) == (ip32(PEER), ASKER_PORT, PEER_MAC)
    assert (row.first, row.count) == (7, 1)
    assert row.expires == LAB.g(CORE).now + 30 * SECOND
    assert LAB.g(EVENTS).listeners == 1


def test_subscribe_without_a_payload_means_all_shards(bench):
    one(bench, command(V.SUBSCRIBE, argument=30_000))
    assert (place().first, place().count) == (0, EVENT_SHARDS_ALL)


def test_a_renewal_tells_how_much_was_lost(bench):
    one(bench, command(V.SUBSCRIBE, argument=30_000))
    place().lost = 2**40
    got = one(bench, command(V.SUBSCRIBE, argument=30_000, counter=2))
    assert (got["value"], LAB.g(EVENTS).listeners) == (2**40, 1)


@pytest.mark.parametrize(
    ("argument", "payload"), [(2**32, b""), (2**64 - 1, b""), (1000, b"1234"), (1000, b"1" * 9)]
)
def test_what_cannot_be_meant_is_refused(bench, argument, payload):
    got = one(bench, command(V.SUBSCRIBE, argument=argument, payload=payload))
    assert got["result"] == R.ARGUMENT
    assert LAB.g(EVENTS).listeners == 0


def test_a_node_without_a_clock_or_a_free_place_says_so(bench):
    for n in range(4):
        row = place(n)
        row.expires, row.ip = LAB.g(CORE).now + SECOND, n + 1
    LAB.g(EVENTS).listeners = 4
    assert one(bench, command(V.SUBSCRIBE, argument=1000))["result"] == R.LISTENERS_FULL
    LAB.g(CLOCK).tsc_cycles_per_ms = 0
    assert one(bench, command(V.SUBSCRIBE, argument=1000, counter=2))["result"] == R.NO_CLOCK


def test_unsubscribe_frees_the_place_and_may_be_said_twice(bench):
    one(bench, command(V.SUBSCRIBE, argument=30_000))
    for counter in (2, 3):
        assert one(bench, command(V.UNSUBSCRIBE, counter=counter))["result"] == R.DONE
        assert LAB.g(EVENTS).listeners == 0


@settings(max_examples=40, deadline=None)
@given(
    argument=st.sampled_from([0, 1000, 30_000, 2**32 - 1, 2**32, 2**64 - 1]),
    length=st.sampled_from([0, 7, 8, 9, 2**31]),
    taken=st.integers(0, 4),
    clock=st.sampled_from([0, 1_000_000]),
    known=st.booleans(),
)
def test_handlers_any_request_match_the_model(argument, length, taken, clock, known):
    bench = NetBench(JUDGED)
    state, rows = JUDGED.g(CONTROL), JUDGED.g(EVENTS).subscribers
    state.asker, state.asker_port = ip32(PEER), ASKER_PORT
    for n in range(taken):
        rows[n].expires, rows[n].ip = JUDGED.g(CORE).now + n, ip32(PEER) + n - known
        rows[n].port = ASKER_PORT
    JUDGED.g(EVENTS).listeners = taken
    JUDGED.g(CLOCK).tsc_cycles_per_ms = clock
    at = JUDGED.put(
        command(V.SUBSCRIBE, argument=argument, payload=b"01234567")[: ControlRequest.SIZE + 8]
    )
    given_ = {"request": at, "length": length, "answer": at, "room": 0}
    JUDGED.g(NET).rx_frame = bench.put(bytes(60))
    bench.call(control_subscribe, **given_)
    bench.call(control_unsubscribe, **given_)
