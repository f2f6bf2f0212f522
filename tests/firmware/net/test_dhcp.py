"""DHCP: the answers that count, and the ones that must not (issues of other stacks as inputs)."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.layers import inet
from scapy.layers.l2 import Ether

from emulator.simulation import dhcp_message as dm
from firmware.layouts.clock import NEVER
from firmware.layouts.net import DhcpState
from firmware.layouts.nic import NicState
from firmware.layouts.node import CLOCK
from firmware.net.dhcp import dhcp_link_up
from tests.support.dhcp import (
    LAB,
    OTHER,
    SERVER,
    WHOLE,
    XID,
    answer,
    client,
    messages,
    now_of,
    raw,
    start,
    take,
    tick,
)
from tests.support.net import IP, MAC, PEER, SECOND, START, NetBench, ip32


# -- exchanges ------------------------------------------------------------------------------------
def test_dhcp_discover_offer_request_ack():
    bench = NetBench(LAB, configured=False)
    start(bench, b"")
    tick(bench)
    (discover,) = messages(bench)
    assert (discover.kind, discover.chaddr, discover.ciaddr) == (dm.DISCOVER, MAC, bytes(4))
    assert discover.option(dm.OPT_CLIENT_ID) == b"\x01" + MAC
    assert discover.option(dm.OPT_PARAMETERS) == bytes((1, 3, 6, 51, 54, 58, 59))
    assert discover.option(dm.OPT_MAX_SIZE) == (1500).to_bytes(2, "big")
    assert discover.option(dm.OPT_REQUESTED_IP) is None
    xid = int.from_bytes(discover.xid.to_bytes(4, "big"), "little")
    bench.advance(3 * SECOND)
    assert take(bench, answer(dm.OFFER, WHOLE, xid=xid)) == DhcpState.REQUESTING
    # A second offer, for another address, changes nothing.
    take(bench, answer(dm.OFFER, WHOLE, xid=xid, address=PEER))
    assert bench.counters.dhcp_others == 1
    tick(bench)
    (request,) = messages(bench)
    assert request.kind == dm.REQUEST
    assert request.option(dm.OPT_REQUESTED_IP) == raw(IP)
    assert request.option(dm.OPT_SERVER) == raw(SERVER)
    assert (request.xid, request.secs) == (discover.xid, 3)
    assert take(bench, answer(dm.ACK, WHOLE, xid=xid)) == DhcpState.BOUND
    assert bench.network.ip == ip32(IP)


def test_dhcp_frames_reach_the_client_before_it_has_an_address():
    """End to end through net_input: broadcast and unicast to the offered address."""
    for destination in ("255.255.255.255", IP):
        bench = client(DhcpState.SELECTING)
        head = Ether(dst=MAC.hex(":"), src="02:00:00:00:00:01")
        packet = head / inet.IP(src=SERVER, dst=destination) / inet.UDP(sport=67, dport=68)
        bench.input(bytes(packet / answer(dm.OFFER, WHOLE)))
        assert bench.dhcp.state == DhcpState.REQUESTING


@pytest.mark.parametrize(
    ("state", "payload"),
    [
        (DhcpState.SELECTING, answer(dm.OFFER, WHOLE, xid=99)),
        (DhcpState.SELECTING, answer(dm.OFFER, WHOLE, server="")),
        (DhcpState.SELECTING, answer(dm.OFFER, WHOLE, address=".".join("0000"))),
        (DhcpState.SELECTING, answer(dm.OFFER, WHOLE, address="230.0.0.1")),
        (DhcpState.SELECTING, answer(dm.OFFER, WHOLE, address="127.0.0.1")),
        (DhcpState.SELECTING, answer(dm.ACK, WHOLE)),
        (DhcpState.SELECTING, answer(dm.NAK)),
        (DhcpState.SELECTING, answer(9)),
        (DhcpState.REQUESTING, answer(dm.OFFER, WHOLE)),
        (DhcpState.REQUESTING, answer(dm.ACK, WHOLE, server=OTHER)),
        (DhcpState.REQUESTING, answer(dm.ACK, WHOLE, address=PEER)),
        (DhcpState.REQUESTING, answer(dm.NAK, server=OTHER, address=".".join("0000"))),
        (DhcpState.REQUESTING, answer(dm.NAK, server="")),
        (DhcpState.BOUND, answer(dm.ACK, WHOLE)),
        (DhcpState.BOUND, answer(dm.NAK)),
        (DhcpState.OFF, answer(dm.NAK)),
        (DhcpState.RENEWING, answer(dm.ACK, WHOLE, address=PEER)),
        (DhcpState.RENEWING, answer(dm.ACK, WHOLE, server=OTHER)),
        (DhcpState.RENEWING, answer(dm.NAK, server=OTHER)),
        (DhcpState.REBINDING, answer(dm.ACK, WHOLE, address=PEER)),
    ],
)
def test_dhcp_input_answers_that_are_not_awaited_change_nothing(state, payload):
    bench = client(state, configured=state >= DhcpState.BOUND)
    before = bytes(LAB.machine.read(bench.network.address_, 0x28))
    assert take(bench, payload) == state
    assert bytes(LAB.machine.read(bench.network.address_, 0x28)) == before
    assert bench.counters.dhcp_others == 1


@pytest.mark.parametrize("state", [DhcpState.REQUESTING, DhcpState.RENEWING])
def test_dhcp_input_nak_of_the_chosen_server_starts_anew_after_a_second(state):
    bench = client(state, configured=state == DhcpState.RENEWING)
    assert take(bench, answer(dm.NAK, address=".".join("0000"))) == DhcpState.SELECTING
    assert (bench.network.configured, bench.network.ip) == (0, 0)
    assert bench.dhcp.xid != XID
    assert tick(bench) == START + SECOND
    assert messages(bench) == []
    assert bench.dhcp.naks == 1


def test_dhcp_input_when_rebinding_any_server_may_answer():
    bench = client(DhcpState.REBINDING, configured=True)
    assert take(bench, answer(dm.ACK, WHOLE, server=OTHER)) == DhcpState.BOUND
    assert bench.dhcp.server == ip32(OTHER)
    bench = client(DhcpState.REBINDING, configured=True)
    assert take(bench, answer(dm.NAK, server=OTHER)) == DhcpState.SELECTING


@pytest.mark.parametrize("state", [DhcpState.REQUESTING, DhcpState.RENEWING])
def test_dhcp_input_ack_without_a_server_counts(state):
    bench = client(state, configured=state == DhcpState.RENEWING)
    assert take(bench, answer(dm.ACK, WHOLE, server="")) == DhcpState.BOUND


# -- timers ---------------------------------------------------------------------------------------
def test_dhcp_tick_asks_for_ever_with_doubling_waits():
    bench = NetBench(LAB, configured=False)
    start(bench, b"")
    waits = []
    for _ in range(10):
        due = tick(bench)
        (message,) = messages(bench)
        assert message.kind == dm.DISCOVER
        waits.append((due - now_of(bench)) / SECOND)
        bench.advance(due - now_of(bench) - 1)
        assert tick(bench) == due
        assert messages(bench) == []
        bench.advance(1)
    assert all(abs(w - 2 ** min(n, 6)) <= 0.52 for n, w in enumerate(waits))
    assert len({w % 1 for w in waits}) > 5, "the waits are jittered"


def test_dhcp_tick_request_without_answer_falls_back_to_discover():
    bench = client(DhcpState.REQUESTING)
    kinds = []
    for _ in range(6):
        due = tick(bench)
        kinds += [m.kind for m in messages(bench)]
        bench.advance(due - now_of(bench))
    assert kinds == [dm.REQUEST] * 4 + [dm.DISCOVER] * 2


def test_dhcp_tick_renews_rebinds_and_gives_up():
    bench = client(DhcpState.BOUND, configured=True)
    dhcp = bench.dhcp
    t1, t2, end = dhcp.t1_at, dhcp.t2_at, dhcp.expires_at
    bench.advance(t1 - START)
    bench.learn(SERVER)
    due = tick(bench)
    (renew,) = messages(bench)
    assert (renew.kind, renew.ciaddr, dhcp.state) == (dm.REQUEST, raw(IP), DhcpState.RENEWING)
    assert renew.option(dm.OPT_SERVER) is None
    assert renew.option(dm.OPT_REQUESTED_IP) is None
    assert due == t1 + (t2 - t1) // 2
    bench.advance(t2 - 30 * SECOND - t1)
    bench.learn(SERVER)
    assert tick(bench) == t2, "the next try may not pass T2"
    bench.sent()
    bench.advance(30 * SECOND)
    due = tick(bench)
    frames = bench.sent()
    assert frames[0][:6] == b"\xff" * 6
    assert frames[0][30:34] == b"\xff" * 4
    assert dhcp.state == DhcpState.REBINDING
    assert due == t2 + (end - t2) // 2
    bench.advance(end - t2 - 1)
    assert tick(bench) == end
    assert bench.network.configured == 1
    bench.sent()
    bench.advance(1)
    tick(bench)
    assert (bench.network.configured, dhcp.state) == (0, DhcpState.SELECTING)
    assert messages(bench)[0].kind == dm.DISCOVER


def test_dhcp_tick_late_wake_goes_straight_to_a_new_exchange():
    bench = client(DhcpState.BOUND, configured=True)
    bench.advance(10_000 * SECOND)
    tick(bench)
    assert bench.dhcp.state == DhcpState.SELECTING


def test_dhcp_tick_that_cannot_send_tries_again_in_a_second():
    bench = client(DhcpState.RENEWING, configured=True)
    bench.dhcp.next_at = START
    assert tick(bench) == START + SECOND, "the server's MAC is not known yet"
    assert bench.dhcp.attempt == 0
    bench.nic.state = NicState.FAILED
    bench.advance(SECOND)
    tick(bench)


def test_dhcp_tick_without_a_clock_does_nothing():
    bench = client(DhcpState.SELECTING)
    LAB.g(CLOCK).tsc_cycles_per_ms = 0
    assert tick(bench) == NEVER
    assert bench.sent() == []


def test_dhcp_send_counts_seconds_up_to_16_bits():
    bench = client(DhcpState.SELECTING)
    bench.advance(100_000 * SECOND)
    tick(bench)
    assert messages(bench)[0].secs == 0xFFFF


@pytest.mark.parametrize(
    ("state", "after"),
    [
        (DhcpState.SELECTING, DhcpState.SELECTING),
        (DhcpState.REQUESTING, DhcpState.SELECTING),
        (DhcpState.BOUND, DhcpState.RENEWING),
        (DhcpState.REBINDING, DhcpState.RENEWING),
    ],
)
def test_dhcp_link_up_confirms_or_restarts(state, after):
    bench = client(state, configured=state >= DhcpState.BOUND)
    bench.dhcp.attempt = 6
    bench.call(dhcp_link_up)
    assert (bench.dhcp.state, bench.dhcp.attempt, bench.dhcp.next_at) == (after, 0, START)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_dhcp_input_any_damaged_answer_agrees_with_the_model(data):
    state = data.draw(st.sampled_from(list(DhcpState)))
    bench = client(state, configured=state >= DhcpState.BOUND)
    kind = data.draw(st.sampled_from([dm.OFFER, dm.ACK, dm.NAK]))
    message = bytearray(answer(kind, WHOLE))
    for _ in range(data.draw(st.integers(0, 3))):
        message[data.draw(st.integers(0, len(message) - 1))] = data.draw(st.integers(0, 255))
    take(bench, bytes(message[: data.draw(st.integers(230, len(message)))]))
