"""Phase by phase from the permit to READY, and the farewell of a connection that is over."""

import pytest

from firmware.layouts.config import CONFIG
from firmware.layouts.crypto import DRBG
from firmware.layouts.discovery import DiscoveryMode
from firmware.layouts.gateway import GatewayState
from firmware.layouts.node import CLOCK, CORE
from firmware.layouts.permit import PERMITS
from firmware.layouts.policy import STARTUP, OnLimit
from firmware.layouts.sessions import SESSIONS
from firmware.layouts.shard import End, Gap, Phase, ShardFlag, ShardState
from firmware.layouts.tcp import TcpState
from firmware.layouts.tls import TlsState
from firmware.layouts.tls_pool import TLS_POOL
from firmware.layouts.tls_sites import NO_ENTROPY
from firmware.layouts.variants import Variant
from firmware.layouts.websocket import WsState
from firmware.shard.dial import NO_CONNECTION, shard_begin, shard_dial
from firmware.shard.phases import shard_advance, shard_become_ready, shard_follow, shard_say_goodbye
from firmware.shard.resume import shard_is_resumable
from tests.support.net import START
from tests.support.shard_node import LAB, NEVER, Node
from tests.support.states import MS
from tests.support.variants import choose

TIMERS = ("rtx_at", "give_up_at", "ack_at", "keep_at", "wait_at")


@pytest.fixture
def node():
    made = Node()
    for context in made.shards:
        context.state = ShardState.STARTING
        for name in TIMERS:
            setattr(context.tcp, name, NEVER)
    return made


def advance(node, phase, **layers):
    context = node.shards[0]
    context.phase = phase
    for name, state in layers.items():
        getattr(context, name).state = state
    call(node, shard_advance)
    return context


def call(node, routine):
    env = node.bench.environment()
    env._tsc = lambda: node.now
    return LAB.call(routine, env, shard=node.shards[0].address_).outputs


@pytest.mark.parametrize("state", [TcpState.SYN_SENT, TcpState.ESTABLISHED])
def test_advance_tcp_waits_for_the_handshake(node, state):
    context = advance(node, Phase.TCP, tcp=state)
    established = state == TcpState.ESTABLISHED
    assert context.phase == (Phase.WS if established else Phase.TCP)
    assert context.tls.state == (TlsState.PASS_THROUGH if established else TlsState.IDLE)


def test_advance_tls_waits_for_its_layer(node):
    context = advance(node, Phase.TLS, tcp=TcpState.ESTABLISHED, tls=TlsState.FAILED)
    assert context.phase == Phase.TLS


@pytest.mark.parametrize("state", [WsState.HANDSHAKE, WsState.OPEN])
def test_advance_websocket_waits_for_the_upgrade(node, state):
    context = advance(node, Phase.WS, websocket=state)
    assert context.phase == (Phase.HELLO if state == WsState.OPEN else Phase.WS)


@pytest.mark.parametrize("state", WsState)
def test_follow_an_accepted_upgrade_counts_also_when_the_connection_closed(node, state):
    context = node.shards[0]
    context.phase, context.websocket.state = Phase.WS, state
    call(node, shard_follow)
    upgraded = WsState.OPEN <= state <= WsState.CLOSED
    assert context.phase == (Phase.HELLO if upgraded else Phase.WS)


@pytest.mark.parametrize(
    ("gateway", "phase", "identifies"),
    [
        (GatewayState.WAIT_HELLO, Phase.HELLO, 0),
        (GatewayState.ANSWER, Phase.HELLO, 0),
        (GatewayState.WAIT_READY, Phase.IDENT, 1),
        (GatewayState.WAIT_RESUMED, Phase.REPLAY, 0),
    ],
)
def test_advance_hello_goes_where_the_answer_went(node, gateway, phase, identifies):
    LAB.g(PERMITS).keys[0].owner = 1
    context = advance(node, Phase.HELLO, gateway=gateway)
    assert (context.phase, context.identifies) == (phase, identifies)
    # Only a sent Identify starts the five seconds of the key.
    busy = LAB.g(PERMITS).keys[0].busy_until
    assert busy == (START + 5000 * MS if identifies else 0)


@pytest.mark.parametrize(
    ("flags", "counts"),
    [(0, (1, 0)), (ShardFlag.SEQ_VALID, (1, 0)), (ShardFlag.RESUMED, (0, 1))],
)
def test_advance_ready_that_came_with_hello_gives_the_permit_back(node, flags, counts):
    LAB.g(PERMITS).keys[0].owner = counts[0]
    node.shards[0].flags = flags
    context = advance(node, Phase.HELLO, gateway=GatewayState.READY)
    assert context.state == ShardState.READY
    assert (context.identifies, context.resumes) == counts
    assert LAB.g(PERMITS).keys[0].owner == 0


@pytest.mark.parametrize(("phase", "resumes"), [(Phase.IDENT, 0), (Phase.REPLAY, 1)])
def test_advance_ready_counts_a_resume(node, phase, resumes):
    context = advance(node, phase, gateway=GatewayState.READY)
    assert (context.state, context.resumes) == (ShardState.READY, resumes)


@pytest.mark.parametrize("present", [True, False])
def test_become_ready_clears_what_the_attempt_left(node, present):
    context = node.shards[0]
    context.phase, context.attempts = Phase.REPLAY, 3
    context.attempt_started, context.attempt_deadline = START - 22 * MS, START + MS
    context.disconnected_at = START - MS
    context.session.unanswered_resumes = 2
    if not present:
        context.session_ptr = 0
    call(node, shard_become_ready)
    assert (context.state, context.phase) == (ShardState.READY, Phase.NONE)
    assert context.flags & ShardFlag.ESTABLISHED
    assert (context.attempt_deadline, context.disconnected_at) == (0, 0)
    assert context.connected_at == START
    assert context.session.unanswered_resumes == (0 if present else 2)
    assert context.outage_ms == 1
    assert (
        "code=lifecycle.ready durationMs=22 attempt=3 mode=resume shards=2 outageMs=1 "
        "gap=replayed known=0 missingFrom=0 missingTo=0 sequence=none" in node.lines()[0]
    )


@pytest.mark.parametrize(("cycles", "away_ms"), [(MS, 1), (0, MS)])
def test_become_ready_tells_the_outage_as_far_as_the_clock_does(node, cycles, away_ms):
    LAB.g(CLOCK).tsc_cycles_per_ms = cycles
    node.shards[0].disconnected_at = START - MS
    call(node, shard_become_ready)
    assert node.shards[0].outage_ms == away_ms


@pytest.mark.parametrize(
    ("phase", "flags", "stream", "hole", "gap", "missing"),
    [
        (Phase.IDENT, 0, (1, 9), (4, 52), Gap.NONE, (0, 0)),
        (Phase.IDENT, ShardFlag.ESTABLISHED, (0, 9), (4, 52), Gap.POSSIBLE, (0, 0)),
        (Phase.IDENT, ShardFlag.ESTABLISHED, (1, 9), (4, 52), Gap.POSSIBLE, (9, 0)),
        (Phase.IDENT, ShardFlag.RESTORED, (1, 2**32 - 1), (0, 0), Gap.POSSIBLE, (0, 0)),
        (Phase.REPLAY, ShardFlag.ESTABLISHED, (0, 9), (0, 0), Gap.REPLAYED, (0, 0)),
        (Phase.REPLAY, ShardFlag.ESTABLISHED, (1, 9), (4, 52), Gap.PARTIAL, (4, 52)),
    ],
)
def test_become_ready_says_whether_events_may_be_missing(
    node, phase, flags, stream, hole, gap, missing
):
    context = node.shards[0]
    context.phase, context.flags = phase, flags
    context.hole_first, context.hole_last = hole
    context.events.gap_open, context.events.gap_first = stream
    call(node, shard_become_ready)
    assert context.gap == gap
    assert (context.hole_first, context.hole_last) == missing
    assert context.events.gap_open == 0
    assert not context.flags & ShardFlag.RESTORED
    known = "none" if gap == Gap.NONE else "0"
    words = {Gap.PARTIAL: "possible"}.get(gap, gap.name.lower())
    assert (
        f"gap={words} known={known} missingFrom={missing[0]} missingTo={missing[1]} "
        in (node.lines()[0])
    )


@pytest.mark.parametrize("on_limit", OnLimit)
@pytest.mark.parametrize("flags", [ShardFlag.RESTORED, ShardFlag.ESTABLISHED])
def test_begin_bounds_a_startup_whose_end_is_fatal_also_with_a_session(node, flags, on_limit):
    LAB.g(CONFIG).on_limit = on_limit
    context = node.shards[0]
    context.session.valid, context.flags = 1, ShardFlag.SEQ_VALID | flags
    call(node, shard_begin)
    assert context.flags == ShardFlag.SEQ_VALID | flags
    bounded = on_limit == OnLimit.FATAL and flags == ShardFlag.RESTORED
    assert context.attempt_deadline == (LAB.g(STARTUP).deadline if bounded else 0)


def test_begin_leaves_the_queue_for_arenas_also_without_a_connection(node):
    pool, context = LAB.g(TLS_POOL), node.shards[0]
    pool.queue[0].shard, pool.waiting = context.address_, 1
    call(node, shard_begin)
    assert pool.waiting == 0


def test_dial_without_entropy_fails_the_attempt(node):
    LAB.g(DRBG).seeded = 0
    context = node.shards[0]
    context.phase = Phase.RESOLVE
    call(node, shard_dial)
    assert (context.failure, context.last_error) == (End.NETWORK, NO_CONNECTION.code)
    assert context.phase == Phase.RESOLVE


def restored(node, endpoint):
    """A shard in RESOLVE that would resume a session of that endpoint."""
    context = node.shards[0]
    context.phase = Phase.RESOLVE
    context.flags = ShardFlag.SEQ_VALID | ShardFlag.RESTORED
    context.sequence, context.session.valid = 5, 1
    LAB.g(SESSIONS).endpoint_known = LAB.g(SESSIONS).bot_known = 1
    LAB.g(SESSIONS).endpoint[:] = b"here".ljust(16)
    context.restored_endpoint[:] = endpoint.ljust(16)
    return context


def secure(node):
    """Let the configured URL have TLS, and every arena be in use."""
    config, pool = LAB.g(CONFIG), LAB.g(TLS_POOL)
    config.gateway_secure, config.build_time = 1, 1
    LAB.g(CLOCK).unix_time = 2
    choose(LAB, Variant.FAST)
    pool.slots[0].address, pool.slots[0].owner = 0x6B00_0000, 1
    context = node.shards[0]
    context.phase, context.attempt_started = Phase.RESOLVE, 7
    call(node, shard_dial)
    return context


def test_dial_waits_for_others_handshakes_at_nobodys_expense(node):
    context = secure(node)
    assert (context.phase, context.tcp.state) == (Phase.RESOLVE, TcpState.CLOSED)
    assert (context.failure, context.attempt_started) == (End.NONE, node.now)
    assert LAB.g(TLS_POOL).queue[0].shard == context.address_


def test_dial_that_may_not_have_tls_fails_and_keeps_its_times(node):
    LAB.g(DRBG).weak = 1
    context = secure(node)
    assert (context.failure, context.last_error) == (End.TLS_FAILED, NO_ENTROPY.code)
    assert (context.phase, context.attempt_started) == (Phase.RESOLVE, 7)


def test_dial_resumes_a_restored_session_of_this_gateway(node):
    context = restored(node, b"here")
    call(node, shard_dial)
    assert context.session.valid == 1
    assert context.flags == ShardFlag.SEQ_VALID | ShardFlag.RESTORED


def test_dial_drops_a_restored_session_of_another_gateway_and_asks_for_a_permit(node):
    context = restored(node, b"there")
    call(node, shard_dial)
    assert (context.session.valid, context.flags) == (0, 0)
    assert (context.phase, context.tcp.state) == (Phase.PERMIT, TcpState.CLOSED)
    assert "problem=another_endpoint" in node.lines()[0]


def test_dial_of_a_restored_session_waits_for_discovery(node):
    context = restored(node, b"there")
    LAB.g(CONFIG).discovery = DiscoveryMode.HTTP
    call(node, shard_dial)
    assert (context.session.valid, context.phase) == (1, Phase.RESOLVE)


@pytest.mark.parametrize(
    ("present", "valid", "flags", "resumable"),
    [
        (False, 1, ShardFlag.SEQ_VALID, 0),
        (True, 0, ShardFlag.SEQ_VALID, 0),
        (True, 2, ShardFlag.SEQ_VALID, 0),
        (True, 1, 0, 0),
        (True, 1, ShardFlag.SEQ_VALID, 1),
    ],
)
def test_is_resumable_needs_both(node, present, valid, flags, resumable):
    context = node.shards[0]
    context.session.valid, context.flags = valid, flags
    if not present:
        context.session_ptr = 0
    assert call(node, shard_is_resumable)["cf"] == resumable


def closing(
    node, *, tcp=TcpState.ESTABLISHED, websocket=WsState.CLOSING, left=5000, tls=TlsState.IDLE
):
    context = node.shards[0]
    context.state = ShardState.BACKOFF
    context.tcp.state, context.websocket.state = tcp, websocket
    context.tls.state = tls
    context.close_deadline = START + left * MS
    return context


def test_goodbye_waits_for_the_peer_until_its_deadline(node):
    context = closing(node)
    assert call(node, shard_say_goodbye)["rax"] == context.close_deadline
    assert context.tcp.state == TcpState.ESTABLISHED


def test_goodbye_keeps_the_timers_of_tcp(node):
    context = closing(node)
    context.tcp.keep_at = START + 7 * MS
    assert call(node, shard_say_goodbye)["rax"] == START + 7 * MS


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (TcpState.ESTABLISHED, TcpState.FIN_WAIT_1),
        (TcpState.CLOSE_WAIT, TcpState.LAST_ACK),
        (TcpState.FIN_WAIT_2, TcpState.FIN_WAIT_2),
    ],
)
def test_goodbye_after_both_close_frames_ends_the_stream(node, before, after):
    context = closing(node, tcp=before, websocket=WsState.CLOSED)
    call(node, shard_say_goodbye)
    assert context.tcp.state == after
    assert context.close_deadline == START + 5000 * MS


@pytest.mark.parametrize(
    "change",
    [
        {"websocket": WsState.FAILED},
        {"websocket": WsState.OPEN},
        {"tcp": TcpState.FAILED},
        {"tcp": TcpState.CLOSED},
        {"tcp": TcpState.TIME_WAIT},
        {"left": 0},
        {"tls": TlsState.FAILED},
    ],
)
def test_goodbye_ends_when_there_is_nothing_to_wait_for(node, change):
    context = closing(node, **change)
    if not change.get("left", 1):
        context.close_deadline = LAB.g(CORE).now
    assert call(node, shard_say_goodbye)["rax"] == NEVER
    assert context.close_deadline == 0
    assert context.tcp.state == TcpState.CLOSED
