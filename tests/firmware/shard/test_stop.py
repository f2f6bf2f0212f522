"""A shard of a node that stops: one polite close with its session kept, and no new attempt."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware.layouts.log import LOG, LOG_RING
from firmware.layouts.node import CLOCK, CORE, LEASE
from firmware.layouts.permit import PERMITS
from firmware.layouts.plan import Leaving
from firmware.layouts.shard import Hold, Phase, ShardContext, ShardFlag, ShardState
from firmware.layouts.stop import STOP, StopPhase
from firmware.layouts.tcp import TcpState
from firmware.layouts.tls import TlsState
from firmware.layouts.websocket import WsFlag, WsState
from firmware.shard.stop import shard_drain, shard_put_away, shard_stop
from firmware.shard.tick import shard_tick
from tests.support.lab import Lab
from tests.support.net import MS, NEEDED, ROUTER, NetBench, ip32
from tests.support.states import layer_states, session_fields, shard_fields

LAB = Lab(*NEEDED, shard_tick, shard_drain, shard_stop, shard_put_away, slots=1)
GATEWAY = "10.0.0.9"
NEVER = 2**64 - 1
S = ShardState


class Node:
    """A node that stops, with one shard."""

    def __init__(self, *, cycles=MS):
        self.bench = NetBench(LAB)
        self.bench.learn(GATEWAY, slot=0)
        self.bench.learn(ROUTER, slot=1)
        LAB.g(PERMITS).max_concurrency = 1
        LAB.g(CLOCK).tsc_cycles_per_ms = cycles
        LAB.g(STOP).phase = StopPhase.DRAINING
        self.context = LAB.view(ShardContext, LAB.shard())
        self.context.session_ptr = self.context.session.address_

    def connected(self, state=S.READY, *, phase=Phase.NONE, websocket=WsState.OPEN):
        """Give the shard an established connection and a session."""
        c = self.context
        c.state, c.phase, c.connected_at = state, phase, self.now - 500
        c.flags, c.sequence = ShardFlag.SEQ_VALID | ShardFlag.ESTABLISHED, 41
        c.session.valid, c.session.session_id_len = 1, 8
        tcp = c.tcp
        tcp.state, tcp.remote_ip, tcp.remote_port = TcpState.ESTABLISHED, ip32(GATEWAY), 80
        tcp.local_port, tcp.snd_wnd, tcp.snd_mss, tcp.cwnd = 50_000, 60_000, 1208, 12_080
        tcp.rcv_adv = 20_480
        for name in ("rtx_at", "give_up_at", "ack_at", "keep_at", "wait_at"):
            setattr(tcp, name, NEVER)
        tcp.rto = 1000 * MS
        c.tls.state, c.websocket.state = TlsState.PASS_THROUGH, websocket
        return c

    @property
    def now(self):
        return self.bench.lab.g(CORE).now

    def tick(self, routine=shard_tick):
        got = self.bench.call(routine, shard=self.context.address_)
        return got.outputs.get("rax")

    def closes(self):
        """Return the payloads of the TCP segments that left, masked close frames unmasked."""
        found = []
        for frame in self.bench.sent():
            payload = frame[14 + 20 + 20 :][: int.from_bytes(frame[16:18], "big") - 40]
            if payload[:1] == b"\x88":
                mask, body = payload[2:6], payload[6 : 6 + (payload[1] & 0x7F)]
                plain = bytes(b ^ mask[n % 4] for n, b in enumerate(body))
                found.append(int.from_bytes(plain[:2], "big"))
        return found

    def receive(self, data):
        """Put bytes of the peer into the ring."""
        tcp = self.context.tcp
        LAB.machine.write(self.context.ring_base + tcp.ring_ready, data)
        tcp.ring_ready += len(data)
        tcp.rcv_nxt += len(data)


def lines():
    raw = LAB.machine.read(LAB.image.address(LOG_RING), LAB.g(LOG).head)
    return [line.split(" code=")[1] for line in raw.decode().splitlines()]


def counts():
    return LAB.g(STOP).closed, LAB.g(STOP).reset


@pytest.mark.parametrize(
    ("state", "phase"),
    [(S.READY, Phase.NONE), (S.STARTING, Phase.HELLO), (S.STARTING, Phase.REPLAY)],
)
def test_an_open_websocket_closes_with_4000_and_keeps_its_session(state, phase):
    node = Node()
    c = node.connected(state, phase=phase)
    deadline = node.tick()
    assert node.closes() == [4000]
    assert (c.state, c.hold, c.phase) == (S.ASSIGNED, Hold.STOPPED, Phase.NONE)
    assert c.websocket.state == WsState.CLOSING
    assert c.close_deadline == node.now + 5000 * MS >= deadline
    assert lines() == ["shard.held hold=stopped sequence=41"]

    node.receive(b"\x88\x02\x0f\xa0")  # the peer's close frame
    node.tick()
    assert c.tcp.state == TcpState.FIN_WAIT_1
    c.tcp.state = TcpState.TIME_WAIT
    assert node.tick() == NEVER
    assert counts() == (1, 0)
    assert (c.tcp.state, c.websocket.state, c.close_deadline) == (0, 0, 0)
    assert (c.session.valid, c.sequence, c.flags & ShardFlag.SEQ_VALID) == (1, 41, 1)
    assert node.tick() == NEVER
    assert counts() == (1, 0)


def test_a_peer_that_closed_but_never_released_its_end_is_reset_after_five_seconds():
    node = Node()
    c = node.connected()
    node.tick()
    node.receive(b"\x88\x02\x0f\xa0")
    node.tick()
    assert (c.websocket.state, c.tcp.state) == (WsState.CLOSED, TcpState.FIN_WAIT_1)
    node.bench.advance(5000 * MS)
    assert node.tick() == NEVER
    assert counts() == (0, 1)


def test_a_peer_that_never_answers_is_reset_after_five_seconds():
    node = Node()
    c = node.connected()
    node.tick()
    node.bench.sent()
    node.bench.advance(5000 * MS - 1)
    node.tick()
    assert c.close_deadline != 0
    node.bench.advance(1)
    assert node.tick() == NEVER
    assert counts() == (0, 1)
    *_, frame = node.bench.sent()
    assert frame[14 + 20 + 13] & 0x04, "the last word is a reset"
    assert (c.tcp.state, c.session.valid) == (TcpState.CLOSED, 1)


@pytest.mark.parametrize(
    ("phase", "tcp", "websocket", "reset"),
    [
        (Phase.PERMIT, TcpState.CLOSED, WsState.IDLE, 0),
        (Phase.RESOLVE, TcpState.CLOSED, WsState.IDLE, 0),
        (Phase.TCP, TcpState.SYN_SENT, WsState.IDLE, 1),
        (Phase.WS, TcpState.ESTABLISHED, WsState.HANDSHAKE, 1),
    ],
)
def test_a_handshake_is_dropped_without_a_close_frame(phase, tcp, websocket, reset):
    node = Node()
    c = node.connected(S.STARTING, phase=phase, websocket=websocket)
    c.tcp.state = tcp
    assert node.tick() == NEVER
    assert node.closes() == []
    assert (c.state, c.hold, c.tcp.state) == (S.ASSIGNED, Hold.STOPPED, TcpState.CLOSED)
    assert counts() == (0, reset)


@pytest.mark.parametrize("tcp", TcpState)
def test_a_connection_that_is_put_away_counts_as_reset_while_it_is_there(tcp):
    node = Node()
    c = node.connected()
    c.tcp.state = tcp
    node.tick(shard_put_away)
    gone = tcp in (TcpState.CLOSED, TcpState.TIME_WAIT, TcpState.FAILED)
    assert counts() == (0, not gone)


@pytest.mark.parametrize("late", [-1, 0, 1])
@pytest.mark.parametrize("websocket", [WsState.OPEN, WsState.CLOSED])
def test_the_end_of_a_close_is_compared_without_a_sign(websocket, late):
    """One that still waits for room, and one that both sides have closed."""
    node = Node()
    c = node.connected(S.ASSIGNED, websocket=websocket)
    c.hold, c.close_deadline = Hold.STOPPED, 2**63
    if websocket == WsState.OPEN:
        c.tcp.tx_end = 8190
    else:
        c.tcp.state = TcpState.TIME_WAIT
    LAB.g(CORE).now = 2**63 + late
    over = websocket == WsState.CLOSED or late >= 0
    assert node.tick() == (NEVER if over else 2**63)
    assert counts() == ((0, 0) if not over else (1, 0) if late < 0 else (0, 1))


def test_a_close_that_waits_for_room_looks_again_with_tcp():
    """Whatever comes first: what TCP wants, or the end of the close."""
    node = Node()
    c = node.connected(S.ASSIGNED)
    c.hold, c.tcp.tx_end, LAB.g(CORE).now = Hold.STOPPED, 8190, 2**63 - 3
    c.close_deadline, c.tcp.keep_at = 2**63 + 7, 2**63 - 1
    assert node.tick() == 2**63 - 1
    c.tcp.keep_at = 2**63 + 9
    assert node.tick() == 2**63 + 7


def test_a_farewell_that_had_begun_goes_on_with_the_time_it_has_left():
    node = Node()
    c = node.connected(S.BACKOFF, websocket=WsState.CLOSING)
    c.reconnect_deadline, c.close_deadline = node.now + 10, node.now + 70 * MS
    node.tick()
    assert (c.state, c.close_deadline) == (S.ASSIGNED, node.now + 70 * MS)
    assert c.reconnect_deadline == 0
    assert node.closes() == []
    node.bench.advance(70 * MS)
    node.tick()
    assert counts() == (0, 1)


def test_a_backoff_ends_and_nothing_begins_again():
    node = Node()
    node.context.state, node.context.reconnect_deadline = S.BACKOFF, 1
    assert node.tick() == NEVER
    assert (node.context.state, node.context.hold) == (S.ASSIGNED, Hold.STOPPED)
    assert counts() == (0, 0)


def test_a_peer_that_has_ended_its_direction_still_gets_the_close():
    node = Node()
    c = node.connected()
    c.tcp.state = TcpState.CLOSE_WAIT
    node.tick()
    assert node.closes() == [4000]


@pytest.mark.parametrize("tcp", [TcpState.CLOSED, TcpState.FAILED])
def test_a_transport_that_ended_leaves_nothing_to_close(tcp):
    node = Node()
    c = node.connected(S.BACKOFF)
    c.tcp.state = tcp
    assert node.tick() == NEVER
    assert (c.state, c.tcp.state, counts()) == (S.ASSIGNED, TcpState.CLOSED, (0, 0))


@pytest.mark.parametrize("hold", [Hold.NEW, Hold.NO_NETWORK, Hold.LEASE_EXPIRED])
def test_a_held_shard_is_stopped_without_a_word(hold):
    node = Node()
    node.context.hold = hold
    assert node.tick() == NEVER
    assert (node.context.hold, lines(), node.bench.sent()) == (Hold.STOPPED, [], [])


def test_a_fatal_shard_stays_fatal_and_finishes_its_farewell():
    node = Node()
    c = node.connected(S.FATAL, websocket=WsState.CLOSING)
    c.close_deadline = node.now
    node.tick()
    assert (c.state, c.close_deadline, c.tcp.state) == (S.FATAL, 0, TcpState.CLOSED)


def test_without_the_lease_a_closing_shard_falls_silent():
    node = Node()
    c = node.connected()
    node.tick()
    node.bench.sent()
    LAB.g(LEASE).expired, c.hold = 1, Hold.LEASE_EXPIRED
    assert node.tick() == NEVER
    assert node.bench.sent() == []
    assert (c.tcp.state, c.hold, counts()) == (TcpState.CLOSED, Hold.LEASE_EXPIRED, (0, 1))
    assert node.tick() == NEVER


def test_a_close_frame_waits_for_room_in_the_transmit_buffer():
    node = Node()
    c = node.connected()
    c.tcp.tx_end = 8190
    node.tick()
    assert (c.websocket.state, c.state) == (WsState.OPEN, S.ASSIGNED)
    c.tcp.tx_start = c.tcp.tx_end = 0
    c.tcp.snd_una = c.tcp.snd_nxt = c.tcp.snd_max
    node.tick()
    assert c.websocket.state == WsState.CLOSING
    c.websocket.state, c.tcp.tx_end = WsState.OPEN, 8190
    node.bench.advance(5000 * MS)
    node.tick()
    assert counts() == (0, 1)


def test_a_connection_without_keys_is_not_waited_for():
    node = Node()
    c = node.connected()
    c.tls.state = TlsState.FAILED
    assert node.tick() == NEVER
    assert (c.close_deadline, c.tcp.state, counts()) == (0, TcpState.CLOSED, (0, 1))


def test_what_a_busy_peer_had_queued_does_not_hold_the_close():
    node = Node()
    c = node.connected()
    node.receive(b"\x81\x02{}" * 50)
    node.tick()
    node.receive(b"\x81\x02{}" * 50 + b"\x88\x02\x0f\xa0")
    node.tick()
    assert c.websocket.state == WsState.CLOSED
    assert c.sequence == 41


@pytest.mark.parametrize(("leaving", "code"), [(Leaving.KEEPING, 4000), (Leaving.ENDING, 1000)])
def test_a_shard_that_leaves_closes_as_its_session_wants(leaving, code):
    node = Node()
    c = node.connected(S.READY)
    c.leaving = leaving
    node.tick()
    assert node.closes() == [code]
    assert (c.state, c.hold) == (S.ASSIGNED, Hold.PLAN_CHANGED)
    assert lines() == ["shard.held hold=plan_changed sequence=41"]
    node.tick()
    assert lines() == ["shard.held hold=plan_changed sequence=41"]


@settings(max_examples=150)
@given(
    fields=shard_fields(),
    layers=layer_states(),
    session=session_fields(),
    shift=st.sampled_from([-1, 0, 1]),
    cycles=st.sampled_from([0, MS, MS]),
    expired=st.booleans(),
    hold=st.sampled_from([Hold.NEW, Hold.STOPPED, Hold.PLAN_CHANGED]),
    leaving=st.sampled_from(Leaving),
)
def test_any_state_matches_model(fields, layers, session, shift, cycles, expired, hold, leaving):
    node = Node(cycles=cycles)
    times = ("reconnect_deadline", "attempt_deadline", "close_deadline", "connected_at")
    for name, value in fields.items():
        setattr(node.context, name, node.now + shift if name in times and value else value)
    for name, value in layers.items():
        getattr(node.context, name).state = value
    for name, value in session.items():
        setattr(node.context.session, name, value)
    node.context.hold, node.context.leaving = hold, leaving
    node.context.websocket.flags = WsFlag.TEXT
    LAB.g(LEASE).expired = expired
    node.tick(shard_drain)
    if not expired and fields["state"] != S.FATAL:
        held = Hold.PLAN_CHANGED if leaving else Hold.STOPPED
        assert (node.context.state, node.context.hold) == (S.ASSIGNED, held)


def test_stop_aborts_half_an_event_of_a_listener():
    node = Node()
    node.connected().events.open = 1
    node.tick(shard_stop)
    assert node.context.events.open == 0
