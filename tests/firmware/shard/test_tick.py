"""The lifecycle of one shard, one step at a time, from any state."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.environment import Environment
from firmware.layouts.config import CONFIG
from firmware.layouts.fleet_config import FLEET_CONFIG, FLEET_MAGIC
from firmware.layouts.gateway import GatewayFlag, GatewayState
from firmware.layouts.node import CLOCK, CORE, LEASE, NETWORK
from firmware.layouts.permit import PERMITS
from firmware.layouts.policy import OnLimit
from firmware.layouts.shard import End, Hold, Phase, ShardContext, ShardFlag, ShardState
from firmware.layouts.tcp import TcpState
from firmware.layouts.tls import TlsState
from firmware.layouts.tls_sites import HANDSHAKE_TIMEOUT
from firmware.layouts.websocket import WsState
from firmware.shard.tick import shard_find_failure, shards_tick
from tests.support.net import START
from tests.support.shard_node import LAB, NEVER, Node
from tests.support.states import (
    MS,
    layer_states,
    policies,
    session_fields,
    set_policy,
    shard_fields,
)
from tests.support.stream import Stream, server_frame


def apply(context, fields, layers, session):
    for name, value in fields.items():
        setattr(context, name, value)
    for name, value in layers.items():
        getattr(context, name).state = value
    for name, value in session.items():
        setattr(context.session, name, value)


@settings(max_examples=250, deadline=None)
@given(
    fields=shard_fields(),
    layers=layer_states(),
    session=session_fields(),
    shift=st.sampled_from([-1, 0, 1]),
    cycles=st.sampled_from([0, MS, MS, MS]),
    expired=st.booleans(),
    configured=st.booleans(),
    policy=policies(),
)
def test_shard_tick_any_state_matches_model(
    fields, layers, session, shift, cycles, expired, configured, policy
):
    node = Node()
    set_policy(LAB, policy, node.now)
    deadlines = ("reconnect_deadline", "attempt_deadline", "close_deadline", "connected_at")
    moved = {k: (node.now + shift if k in deadlines and v else v) for k, v in fields.items()}
    apply(node.shards[0], moved, layers, session)
    LAB.g(CLOCK).tsc_cycles_per_ms = cycles
    LAB.g(LEASE).expired, LAB.g(NETWORK).configured = expired, configured
    node.tick()


@settings(max_examples=120, deadline=None)
@given(
    fields=shard_fields(),
    layers=layer_states(),
    session=session_fields(),
    state=st.sampled_from([ShardState.STARTING, ShardState.READY, ShardState.BACKOFF]),
    now=st.sampled_from([2**31, 2**63 - 1, 2**63, 2**63 + 1]),
    close=st.sampled_from([-2, -1, 0, 1, 2]),
    ahead=st.sampled_from([-1, 0, 1]),
)
def test_shard_tick_compares_times_without_a_sign(
    fields, layers, session, state, now, close, ahead
):
    """The counter stands where a signed number would turn; each deadline is near."""
    node = Node()
    context = node.shards[0]
    apply(context, fields, layers, session)
    context.state, LAB.g(CORE).now = state, now
    for name in ("reconnect_deadline", "attempt_deadline", "close_deadline", "phase_deadline"):
        if getattr(context, name):
            setattr(context, name, now + close)
    context.tcp.ack_at = now + close + ahead
    node.tick()


@pytest.mark.parametrize("websocket", WsState)
def test_tick_a_stream_that_is_gone_fails_the_attempt_in_any_phase(websocket):
    node = Node()
    context = node.shards[0]
    context.state, context.phase = ShardState.STARTING, Phase.TCP
    context.tcp.state, context.websocket.state = TcpState.SYN_SENT, websocket
    node.tick()
    gone = websocket in (WsState.CLOSED, WsState.FAILED)
    assert context.state == (ShardState.BACKOFF if gone else ShardState.STARTING)
    assert context.evidence.end == (End.NETWORK if gone else End.NONE)


@pytest.mark.parametrize("phase", Phase)
def test_tick_reads_the_stream_from_its_upgrade_on(phase):
    node = Node()
    context = node.shards[0]
    context.state, context.phase = ShardState.STARTING, phase
    context.tls.state, context.websocket.state = TlsState.PASS_THROUGH, WsState.OPEN
    LAB.g(PERMITS).keys[0].owner = 2
    stream = Stream(LAB, context.address_)
    stream.feed(server_frame(1, b"no document"))
    node.tick()
    read = phase in (Phase.WS, Phase.HELLO, Phase.IDENT, Phase.REPLAY)
    assert context.evidence.end == (End.PROTOCOL if read else End.NONE)


@pytest.mark.parametrize("flags", [0, GatewayFlag.ACK_PENDING])
def test_tick_ready_shard_waits_for_its_next_heartbeat(flags):
    node = Node()
    context = node.shards[0]
    context.gateway.flags, context.gateway.hb_sent_at = flags, START
    context.gateway.interval_cycles = 41_250 * MS
    context.attempt_started, context.attempt_deadline = START - 9, START + 1
    LAB.g(CONFIG).attempt_timeout_ms = 30_000
    context.state, context.gateway.state = ShardState.READY, GatewayState.READY
    context.tcp.state, context.tls.state = TcpState.ESTABLISHED, TlsState.PASS_THROUGH
    context.websocket.state = WsState.OPEN
    beat = START + 41_250 * MS
    context.gateway.heartbeat_interval_ms, context.gateway.hb_next = 41_250, beat
    assert node.tick() == beat
    assert (context.state, context.failure) == (ShardState.READY, 0)
    assert (context.attempt_started, context.attempt_deadline) == (START - 9, START + 1)
    assert (node.bench.sent(), node.lines()) == ([], [])


@pytest.mark.parametrize("layer", ["tcp", "tls"])
def test_tick_failed_transport_enters_backoff(layer):
    node = Node()
    context, other = node.shards
    context.state = other.state = ShardState.READY
    context.tcp.state, context.tls.state = TcpState.ESTABLISHED, TlsState.PASS_THROUGH
    context.websocket.state = WsState.IDLE
    failed = {"tcp": TcpState.FAILED, "tls": TlsState.FAILED}[layer]
    getattr(context, layer).state = failed
    getattr(context, layer).error = 0x04050000
    before = LAB.machine.read(other.address_, ShardContext.SIZE)
    node.tick()
    assert (context.state, context.reconnects) == (ShardState.BACKOFF, 1)
    assert context.reconnect_deadline == START + 5000 * MS
    assert context.evidence.error == 0x04050000
    assert LAB.machine.read(other.address_, ShardContext.SIZE) == before


@pytest.mark.parametrize(
    ("gateway", "phase", "identifies"),
    [
        (GatewayState.WAIT_HELLO, Phase.HELLO, 0),
        (GatewayState.WAIT_READY, Phase.IDENT, 1),
        (GatewayState.WAIT_RESUMED, Phase.REPLAY, 0),
    ],
)
def test_tick_what_came_before_the_failure_counts(gateway, phase, identifies):
    """Upgrade, Hello and close in one segment: the host was reached, an Identify was sent."""
    node = Node()
    context = node.shards[0]
    context.state, context.phase = ShardState.STARTING, Phase.WS
    context.tcp.state, context.tls.state = TcpState.ESTABLISHED, TlsState.PASS_THROUGH
    context.websocket.state, context.peer_close = WsState.CLOSED, 4000
    context.gateway.state = gateway
    context.session.valid, context.session.resume_host_len = 1, 4
    node.tick()
    assert (context.evidence.phase, context.evidence.end) == (phase, End.CLOSED)
    assert context.identifies == identifies
    assert context.session.resume_host_len == 4
    assert context.session.unanswered_resumes == (phase == Phase.REPLAY)


@pytest.mark.parametrize("phase", [Phase.IDENT, Phase.REPLAY])
def test_tick_a_shard_closed_together_with_ready_had_been_ready(phase):
    node = Node()
    context = node.shards[0]
    context.state, context.phase = ShardState.STARTING, phase
    context.tcp.state, context.tls.state = TcpState.ESTABLISHED, TlsState.PASS_THROUGH
    context.websocket.state, context.peer_close = WsState.CLOSED, 4000
    context.gateway.state = GatewayState.READY
    context.session.valid, context.session.unanswered_resumes = 1, 2
    node.tick()
    assert (context.evidence.lost, context.state) == (1, ShardState.BACKOFF)
    assert context.resumes == (phase == Phase.REPLAY)
    assert (context.session.valid, context.session.unanswered_resumes) == (1, 0)
    assert context.flags & ShardFlag.ESTABLISHED


@pytest.mark.parametrize(("late", "state"), [(-1, ShardState.BACKOFF), (0, ShardState.STARTING)])
def test_tick_backoff_waits_for_its_deadline(late, state):
    node = Node()
    context = node.shards[0]
    context.state, context.reconnect_deadline = ShardState.BACKOFF, START - late
    deadline = node.tick()
    assert context.state == state
    assert deadline == (START + 1 if late < 0 else START)


def test_tick_zero_deadline_schedules_once_with_one_record():
    node = Node()
    context = node.shards[0]
    context.state = ShardState.BACKOFF
    for _ in range(3):
        assert node.tick() == START + 5000 * MS
    assert context.reconnects == 1
    assert len([x for x in node.lines() if "code=lifecycle.retry" in x]) == 1


def test_tick_zero_deadline_of_a_startup_that_is_over_ends_the_shard():
    node = Node()
    config, context = LAB.g(CONFIG), node.shards[0]
    config.on_limit, config.startup_attempts = OnLimit.FATAL, 3
    context.state, context.attempts = ShardState.BACKOFF, 3
    assert node.tick() == NEVER
    assert (context.state, context.reconnect_deadline) == (ShardState.FATAL, 0)
    assert [line.count("code=lifecycle.connectionEnded") for line in node.lines()] == [1]


def test_tick_zero_deadline_without_a_clock_ends_in_assigned_and_nothing_grows():
    node = Node()
    context = node.shards[0]
    context.state, context.reconnects = ShardState.BACKOFF, 9
    LAB.g(CLOCK).tsc_cycles_per_ms = 0
    for _ in range(3):
        node.tick()
    assert (context.state, context.hold) == (ShardState.ASSIGNED, Hold.NO_CLOCK)
    assert (context.reconnects, context.reconnect_deadline) == (9, 0)
    assert len([x for x in node.lines() if "code=shard.no_clock" in x]) == 1


def test_tick_no_clock_record_says_what_the_evidence_says():
    node = Node()
    context = node.shards[0]
    context.state = ShardState.BACKOFF
    before = context.offset_of("evidence") - 4
    LAB.machine.write(before, b"\x77" * 4)
    context.evidence.error, context.evidence.tcp_state = 0x04050002, TcpState.FAILED
    context.evidence.tls_state = TlsState.PASS_THROUGH
    LAB.g(CLOCK).tsc_cycles_per_ms = 0
    node.tick()
    (line,) = [x for x in node.lines() if "code=shard.no_clock" in x]
    assert "error=0x4050002 tcp=failed tls=pass_through" in line


@pytest.mark.parametrize("end", [End.RECONNECT_REQUESTED, End.HEARTBEAT_TIMEOUT])
def test_tick_backoff_that_is_due_waits_for_the_farewell_of_a_live_peer(end):
    node = Node()
    context = node.shards[0]
    context.state, context.reconnect_deadline = ShardState.BACKOFF, node.now - 1
    context.tcp.state, context.websocket.state = TcpState.ESTABLISHED, WsState.CLOSING
    context.close_deadline = node.now + 7 * MS
    for name in ("rtx_at", "give_up_at", "ack_at", "keep_at", "wait_at"):
        setattr(context.tcp, name, NEVER)
    context.evidence.end = end
    if end == End.RECONNECT_REQUESTED:
        assert node.tick() == context.close_deadline
        assert context.state == ShardState.BACKOFF
        LAB.g(CORE).now = context.close_deadline
    node.tick()
    assert (context.state, context.close_deadline) == (ShardState.STARTING, 0)


def test_tick_fatal_never_retries():
    node = Node()
    context = node.shards[0]
    context.state = ShardState.FATAL
    assert node.tick() == NEVER
    assert context.state == ShardState.FATAL
    assert node.bench.sent() == []


def test_tick_attempt_ends_at_its_deadline():
    node = Node()
    node.tick()
    LAB.g(CORE).now = node.shards[0].attempt_deadline
    node.tick()
    context = node.shards[0]
    assert (context.state, context.evidence.end) == (ShardState.BACKOFF, End.TIMEOUT)
    assert context.evidence.phase == Phase.TCP


@pytest.mark.parametrize("state", TlsState)
@pytest.mark.parametrize("late", [-1, 0])
@pytest.mark.parametrize("arena", [0, 0x6B00_0000])
def test_the_time_of_tls_counts_from_before_the_syn(state, late, arena):
    node = Node()
    context = node.shards[0]
    context.state, context.phase, context.tcp.state = (
        ShardState.STARTING,
        Phase.TCP,
        TcpState.SYN_SENT,
    )
    context.tls.state, context.tls.arena_ptr = state, arena
    context.tls.deadline = LAB.g(CORE).now - late
    LAB.call(shard_find_failure, shard=context.address_)
    if state != TlsState.FAILED:
        over = state == TlsState.IDLE and arena and late == 0
        expected = (End.TIMEOUT, HANDSHAKE_TIMEOUT.code) if over else (End.NONE, 0)
        assert (context.failure, context.last_error) == expected


@pytest.mark.parametrize("now", [START, 2**63 - 5])
def test_tick_an_attempt_looks_again_when_it_ends(now):
    """Nothing below wakes it; the cycle before the deadline is the last that is in time."""
    node = Node()
    context = node.shards[0]
    context.state, context.phase, LAB.g(CORE).now = ShardState.STARTING, Phase.TCP, now
    context.attempt_deadline = now + 7
    assert node.tick() == now + 6
    assert context.failure == End.NONE


@pytest.mark.parametrize("waits", [True, False])
def test_tick_the_wait_for_a_ticket_of_the_fleet_spends_nothing_of_the_attempt(waits):
    node = Node()
    context = node.shards[0]
    context.state, context.phase = ShardState.STARTING, Phase.HELLO
    context.tcp.state, context.tls.state = TcpState.ESTABLISHED, TlsState.PASS_THROUGH
    context.websocket.state = WsState.OPEN
    context.gateway.state = GatewayState.ANSWER if waits else GatewayState.WAIT_HELLO
    context.flags = ShardFlag.ESTABLISHED
    LAB.g(CONFIG).attempt_timeout_ms = 30_000
    context.attempt_started, context.attempt_deadline = START - 9, START + 1
    LAB.g(FLEET_CONFIG).magic = FLEET_MAGIC
    node.tick()
    if waits:
        assert context.gateway.flags == GatewayFlag.TICKET_WAIT
        assert context.attempt_started == START
        assert context.attempt_deadline == START + 30_000 * MS
    else:
        assert (context.attempt_started, context.attempt_deadline) == (START - 9, START + 1)


def test_shards_tick_sweeps_active_slots_only():
    node = Node()
    LAB.g(CORE).slots[1].flags = 0
    env = node.bench.environment()
    env = Environment(tsc=lambda: START, on_port_in=env.on_port_in, on_port_out=env.on_port_out)
    LAB.call(shards_tick, env)
    states = [s.state for s in node.shards]
    assert states == [ShardState.STARTING, ShardState.ASSIGNED]


def test_shards_tick_ticks_every_active_shard_and_notes_its_deadline():
    node = Node()
    LAB.g(LEASE).expired = 1
    env = node.bench.environment()
    env = Environment(tsc=lambda: START, on_port_in=env.on_port_in, on_port_out=env.on_port_out)
    LAB.call(shards_tick, env)
    assert [s.hold for s in node.shards] == [Hold.LEASE_EXPIRED] * 2
    assert [LAB.g(CORE).slots[n].deadline for n in range(2)] == [START + 100 * MS] * 2


def test_shards_tick_without_shards_does_nothing():
    node = Node()
    LAB.g(CORE).slots_used = 0
    LAB.call(shards_tick, Environment())
    assert node.shards[0].state == ShardState.ASSIGNED


@pytest.mark.parametrize(
    ("now", "deadline", "over"),
    [(1 << 63, (1 << 63) - 1, True), ((1 << 63) - 1, 1 << 63, False), (7, 7, True), (7, 8, False)],
)
def test_find_failure_compares_the_end_of_a_handshake_without_a_sign(now, deadline, over):
    context = Node().shards[0]
    context.state, context.phase, LAB.g(CORE).now = ShardState.STARTING, Phase.TCP, now
    context.tcp.state, context.websocket.state = TcpState.SYN_SENT, WsState.IDLE
    context.tls.state, context.tls.arena_ptr = TlsState.IDLE, 1
    context.tls.deadline, context.attempt_deadline = deadline, 0
    LAB.call(shard_find_failure, shard=context.address_)
    assert context.failure == (End.TIMEOUT if over else End.NONE)
    assert context.last_error == (HANDSHAKE_TIMEOUT.code if over else 0)
