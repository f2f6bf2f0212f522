"""Who asks for the gateway, who waits, and what everybody gets."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware.layouts.config import CONFIG
from firmware.layouts.crypto import DRBG
from firmware.layouts.discovery import (
    DISCOVERY,
    DISCOVERY_ABANDONED,
    DISCOVERY_ADDRESS,
    DISCOVERY_CONNECTION,
    DISCOVERY_UNAVAILABLE,
    DiscoveryMode,
    DiscoveryState,
)
from firmware.layouts.node import CLOCK, CORE, NETWORK
from firmware.layouts.permit import PERMITS
from firmware.layouts.policy import STARTUP, OnLimit
from firmware.layouts.shard import End, FailureFlag, Hold, Phase, ShardFlag, ShardState
from firmware.layouts.tcp import TcpState
from firmware.layouts.tls import TlsState
from firmware.layouts.tls_pool import TLS_POOL
from firmware.layouts.tls_sites import CERTIFICATE_NAME
from firmware.layouts.variants import Variant
from firmware.shard.dial import shard_dial
from firmware.shard.discover import shard_confirm_permit, shard_discover
from firmware.shard.lose import shard_lose
from pxe.gateway.rest import json_reply, rate_limit, redirect
from tests.support.net import ROUTER, START, ip32
from tests.support.shard_node import LAB
from tests.support.shard_node import Node as TickNode
from tests.support.states import MS
from tests.support.stream import Stream
from tests.support.variants import choose

S = DiscoveryState
BUDGET, STARTUP_LEFT = 30_000 * MS, 600_000 * MS
DOCUMENT: dict[str, object] = {
    "url": "ws://10.0.0.9:9090/",
    "session_start_limit": {"total": 9, "remaining": 8, "max_concurrency": 2},
}


class Node(TickNode):
    """Two shards in phase RESOLVE that need the gateway."""

    def __init__(self):
        super().__init__()
        LAB.g(CONFIG).discovery = DiscoveryMode.HTTP
        LAB.g(STARTUP).deadline = self.now + STARTUP_LEFT
        self.permits = LAB.g(PERMITS)
        for n, context in enumerate(self.shards):
            context.slot = n
            self.resolve(n)

    @property
    def found(self):
        return LAB.g(DISCOVERY)

    def resolve(self, n=0):
        context = self.shards[n]
        context.state, context.phase = ShardState.STARTING, Phase.RESOLVE
        context.failure, context.attempts = End.NONE, context.attempts + 1
        context.attempt_started, context.attempt_deadline = self.now, self.now + BUDGET

    def call(self, routine, n=0):
        env = self.bench.environment()
        env._tsc = lambda: self.now
        return LAB.call(routine, env, shard=self.shards[n].address_).outputs

    def discover(self, n=0):
        """Return whether the shard may go on."""
        return not self.call(shard_discover, n)["cf"]

    def connected(self, n=0):
        """Let the connection of the shard that asks be made."""
        stream = Stream(LAB, self.shards[n].address_)
        stream.tcp.state = TcpState.ESTABLISHED
        return stream

    def asked(self, n=0):
        """Return a stream on which the question was sent."""
        assert not self.discover(n)
        stream = self.connected(n)
        assert not self.discover(n)
        assert self.found.state == S.HEAD
        return stream

    def later(self, milliseconds):
        LAB.g(CORE).now = self.now + round(milliseconds * MS)


@pytest.fixture
def node():
    return Node()


def test_a_static_gateway_is_known(node):
    LAB.g(CONFIG).discovery = DiscoveryMode.STATIC
    assert node.discover()
    assert (node.found.state, node.found.owner) == (S.IDLE, 0)


def test_the_first_shard_asks_over_its_own_connection(node):
    assert not node.discover()
    assert (node.found.owner, node.found.attempt, node.found.state) == (1, 1, S.CONNECT)
    tcp = node.shards[0].tcp
    assert (tcp.state, tcp.remote_ip, tcp.remote_port) == (
        TcpState.SYN_SENT,
        ip32("10.0.0.9"),
        8080,
    )
    assert "code=discovery.ask address=10.0.0.9 port=8080 redirects=0 token=1" in node.lines()[0]
    assert not node.discover()
    assert node.found.state == S.CONNECT


def test_the_second_shard_waits_and_then_both_know(node):
    stream = node.asked()
    assert not node.discover(1)
    assert node.shards[1].tcp.state == TcpState.CLOSED
    stream.feed(json_reply(200, DOCUMENT).wire())
    assert node.discover()
    assert node.shards[0].tcp.state == TcpState.CLOSED
    assert node.discover(1)
    assert (node.found.requests, node.permits.max_concurrency) == (1, 2)
    # The request that was laid down before is for the gateway now.
    request = bytes(node.shards[1].websocket.request)
    assert request.startswith(b"GET /?v=10&encoding=json HTTP/1.1\r\nHost: 10.0.0.9:9090\r\n")


@pytest.mark.parametrize("weak", [0, 1])
def test_the_question_waits_for_an_arena_at_nobodys_expense(node, weak):
    config, pool = LAB.g(CONFIG), LAB.g(TLS_POOL)
    config.gateway_secure, config.build_time, LAB.g(DRBG).weak = 1, 1, weak
    LAB.g(CLOCK).unix_time = 2
    choose(LAB, Variant.FAST)
    pool.slots[0].address, pool.slots[0].owner = 0x6B00_0000, 1
    context, began = node.shards[0], node.now
    node.later(100)
    assert not node.discover()
    assert (node.found.state, context.tcp.state) == (S.RESOLVE, TcpState.CLOSED)
    assert pool.waiting == 1 - weak
    assert context.attempt_started == (began if weak else node.now)
    assert bool(context.failure) == bool(weak)


def test_the_question_waits_for_tls(node):
    assert not node.discover()
    node.connected()
    node.shards[0].tls.state = TlsState.FAILED
    assert not node.discover()
    assert (node.found.state, node.found.requests) == (S.CONNECT, 0)


def test_the_dial_goes_where_discovery_pointed(node):
    node.asked().feed(json_reply(200, DOCUMENT).wire())
    node.call(shard_dial)
    context = node.shards[0]
    assert (context.phase, context.tcp.remote_port) == (Phase.TCP, 9090)


def test_the_dial_waits_while_the_question_is_open(node):
    node.call(shard_dial)
    context = node.shards[0]
    assert (context.phase, node.found.state) == (Phase.RESOLVE, S.CONNECT)
    node.call(shard_dial, 1)
    assert node.shards[1].phase == Phase.RESOLVE
    assert len(node.bench.sent()) == 1


def test_a_shard_whose_key_is_taken_waits_and_spends_no_budget(node):
    document = DOCUMENT | {"session_start_limit": {"max_concurrency": 1}}
    node.permits.max_concurrency = 2
    node.asked().feed(json_reply(200, document).wire())
    assert node.discover()
    node.later(4_000)
    assert not node.discover(1)
    context = node.shards[1]
    assert (context.phase, context.attempts, context.failure) == (Phase.RESOLVE, 1, End.NONE)
    assert context.attempt_deadline == node.now + BUDGET
    node.permits.keys[0].owner = 0
    assert node.discover(1)


@pytest.mark.parametrize(("allowance", "free"), [(0, True), (1, False), (2, True)])
def test_a_key_that_is_new_is_taken_only_within_the_allowance(node, allowance, free):
    LAB.g(CONFIG).identify_allowance = allowance
    node.asked().feed(json_reply(200, DOCUMENT).wire())
    assert node.discover()
    assert node.discover(1) == free
    context = node.shards[1]
    assert context.state == (ShardState.STARTING if free else ShardState.ASSIGNED)
    assert context.hold == (Hold.NONE if free else Hold.NO_IDENT_BUDGET)
    assert (node.permits.owned, node.permits.keys[1].owner) == ((2, 2) if free else (1, 0))
    # Who has the permit keeps it.
    assert node.discover()


def test_a_resume_needs_no_permit(node):
    context = node.shards[0]
    context.session.valid, context.flags = 1, ShardFlag.SEQ_VALID
    node.permits.keys[0].owner = 2
    assert not node.call(shard_confirm_permit)["cf"]


@pytest.mark.parametrize("on_limit", OnLimit)
@pytest.mark.parametrize(
    "flags", [0, ShardFlag.SEQ_VALID, ShardFlag.ESTABLISHED, ShardFlag.STARTUP_OVER]
)
@pytest.mark.parametrize(("asked_ms", "late"), [(30_000, -1), (30_000, 0), (30_000, 1), (0, 1)])
def test_a_wait_that_outlasts_the_startup_is_its_end(node, asked_ms, late, flags, on_limit):
    LAB.g(CONFIG).on_limit, LAB.g(CONFIG).attempt_timeout_ms = on_limit, 7_000
    context, deadline = node.shards[0], LAB.g(STARTUP).deadline
    context.flags, node.found.status = flags, 429
    node.found.retry_after_ms, node.found.not_before = asked_ms, deadline + late
    assert not node.discover()
    starts = flags in (0, ShardFlag.SEQ_VALID)
    over = starts and asked_ms and late >= 0
    assert context.failure == (End.NETWORK if over else End.NONE)
    assert context.failure_flags == (FailureFlag.WAIT if over else 0)
    assert context.required_wait_ms == (STARTUP_LEFT // MS + late // MS + (late > 0) if over else 0)
    ends = starts and on_limit == OnLimit.FATAL
    assert context.attempt_deadline == (deadline if ends else node.now + 7_000 * MS)


@pytest.mark.parametrize("late", [-1, 0, 1])
def test_when_a_question_failed_is_compared_without_a_sign(node, late):
    context = node.shards[0]
    context.attempt_started, node.found.failed_at = 2**63, 2**63 + late
    node.found.not_before = LAB.g(CORE).now + 1
    assert not node.discover()
    assert context.failure == (End.NETWORK if late > 0 else End.NONE)


@pytest.mark.parametrize("late", [-1, 0, 1])
def test_when_the_next_question_may_be_asked_is_compared_without_a_sign(node, late):
    node.found.not_before, LAB.g(CORE).now = 2**63, 2**63 + late
    assert not node.discover()
    assert node.found.state == (S.IDLE if late < 0 else S.CONNECT)


@pytest.mark.parametrize("late", [-1, 0, 1])
def test_a_wait_past_the_startup_is_compared_without_a_sign(node, late):
    LAB.g(CORE).now, LAB.g(STARTUP).deadline = 2**63 - 9 * MS, 2**63
    node.found.retry_after_ms, node.found.not_before = 1, 2**63 + late
    assert not node.discover()
    assert node.shards[0].failure == (End.NONE if late < 0 else End.NETWORK)


@pytest.mark.parametrize("flags", [0, ShardFlag.SEQ_VALID, ShardFlag.ESTABLISHED])
def test_an_answer_ends_the_attempt_with_the_startup_that_it_moved(node, flags):
    LAB.g(CONFIG).startup_timeout_ms, LAB.g(CORE).slots_used = 30_000, 2
    node.permits.max_concurrency = 2
    start, context = LAB.g(STARTUP), node.shards[0]
    start.budget_ms, context.flags = 30_000, flags
    stream, before = node.asked(), context.attempt_deadline
    limits = {"session_start_limit": {"max_concurrency": 1}}
    stream.feed(json_reply(200, DOCUMENT | limits).wire())
    assert node.discover()
    assert start.budget_ms == 35_000
    own = flags == ShardFlag.ESTABLISHED
    assert context.attempt_deadline == (before if own else start.deadline)


def test_a_wait_counts_for_all_and_spends_no_budget(node):
    stream = node.asked()
    node.later(200)
    assert not node.discover(1)
    stream.feed(rate_limit(30).wire())
    assert not node.discover()
    assert node.found.not_before == node.now + 30_000 * MS
    # Who waited while it failed shares the failure, whoever asked.
    assert not node.discover(1)
    for context in node.shards:
        assert (context.failure, context.failure_flags) == (End.NETWORK, FailureFlag.WAIT)
        assert context.last_error == DISCOVERY_UNAVAILABLE.code | 429
        assert context.websocket.http_status == 429
    for wait in (5_000, 24_999):
        node.later(wait)
        node.resolve(1)
        assert not node.discover(1)
        context = node.shards[1]
        assert (context.failure, node.found.state) == (End.NONE, S.IDLE)
        assert context.attempt_deadline == node.now + BUDGET
    node.later(1)
    assert not node.discover(1)
    assert (node.found.owner, node.found.state) == (2, S.CONNECT)


def test_a_refusal_is_everybodys(node):
    stream = node.asked()
    stream.feed(json_reply(404, {}).wire())
    for n in (0, 1):
        assert not node.discover(n)
        assert (node.shards[n].failure, node.shards[n].failure_flags) == (
            End.NETWORK,
            FailureFlag.FATAL,
        )
        assert node.shards[n].websocket.http_status == 404
    node.later(10**6)
    node.resolve(1)
    assert not node.discover(1)
    assert node.shards[1].failure_flags == FailureFlag.FATAL


@pytest.mark.parametrize("change", ["state", "phase", "attempts"])
def test_an_attempt_that_ended_asks_no_more(node, change):
    node.asked()
    node.later(100)
    owner = node.shards[0]
    if change == "state":
        owner.state = ShardState.BACKOFF
    elif change == "phase":
        owner.phase = Phase.PERMIT
    else:
        owner.attempts += 1
    assert not node.discover(1)
    assert (node.shards[1].failure, node.shards[1].last_error) == (
        End.NETWORK,
        DISCOVERY_ABANDONED.code,
    )
    assert (node.found.state, node.found.not_before) == (S.IDLE, node.now + 5_000 * MS)


@pytest.mark.parametrize("state", S)
@pytest.mark.parametrize(
    ("phase", "owner", "error", "ends"),
    [
        (Phase.RESOLVE, 1, CERTIFICATE_NAME.code | 2, True),
        (Phase.RESOLVE, 2, CERTIFICATE_NAME.code | 2, False),
        (Phase.TLS, 1, CERTIFICATE_NAME.code | 2, False),
        (Phase.RESOLVE, 1, DISCOVERY_UNAVAILABLE.code, False),
    ],
)
def test_a_question_that_fails_in_tls_ends_with_its_own_reason(
    node, state, phase, owner, error, ends
):
    context = node.shards[0]
    context.phase, context.failure, context.last_error = phase, End.TLS_FAILED, error
    context.required_wait_ms = 120_000
    node.found.state, node.found.owner, node.found.attempt = state, owner, 1
    node.later(100)
    node.call(shard_lose)
    if ends and S.RESOLVE <= state <= S.BODY:
        assert (node.found.state, node.found.owner, node.found.error) == (S.IDLE, 0, error)
        assert node.found.not_before == node.now + 120_000 * MS
        assert not node.discover(1)
        other = node.shards[1]
        assert (other.failure, other.last_error) == (End.NETWORK, error)
        assert other.required_wait_ms == 120_000
    else:
        assert (node.found.state, node.found.owner) == (state, owner)


def test_who_began_when_it_was_abandoned_waits(node):
    node.asked()
    node.shards[0].state = ShardState.BACKOFF
    node.resolve(1)
    assert not node.discover(1)
    assert node.shards[1].failure == End.NONE


def test_the_next_attempt_of_who_asked_asks_anew(node):
    node.asked()
    context = node.shards[0]
    context.tcp.state = TcpState.CLOSED
    node.resolve()
    assert not node.discover()
    assert (node.found.attempt, node.found.state) == (2, S.CONNECT)
    assert node.found.not_before == 0


def test_a_redirect_is_dialled_by_the_next_look(node):
    stream = node.asked()
    stream.feed(redirect("http://10.0.0.9:9/x").wire())
    assert not node.discover()
    assert (node.found.state, node.shards[0].tcp.state) == (S.RESOLVE, TcpState.CLOSED)
    assert not node.discover()
    assert node.shards[0].tcp.remote_port == 9
    assert "redirects=1 token=0" in node.lines()[-1]


def test_a_name_that_is_pending_is_asked_for_again(node):
    config = LAB.g(CONFIG)
    config.gateway_host[:8] = b"api.test"
    config.gateway_host_len = 8
    LAB.g(NETWORK).dns1 = ip32(ROUTER)
    began = node.now
    node.later(100)
    assert not node.discover()
    assert (node.found.state, node.shards[0].failure) == (S.RESOLVE, End.NONE)
    assert node.shards[0].attempt_started == began


@pytest.mark.parametrize(
    ("dns", "seeded", "site"), [(0, 1, DISCOVERY_ADDRESS), (1, 0, DISCOVERY_CONNECTION)]
)
def test_what_fails_before_the_question_fails_for_now(node, dns, seeded, site):
    config = LAB.g(CONFIG)
    if not dns:
        config.gateway_host[:8] = b"api.test"
        config.gateway_host_len = 8
    LAB.g(DRBG).seeded = seeded
    assert not node.discover()
    assert (node.shards[0].failure, node.shards[0].last_error) == (End.NETWORK, site.code)
    assert node.found.state == S.IDLE


@settings(max_examples=150, deadline=None)
@given(
    state=st.sampled_from(S),
    owner=st.integers(1, 2),
    attempt=st.integers(0, 2),
    other=st.sampled_from([(s, p) for s in (1, 3) for p in (Phase.RESOLVE, Phase.TCP)]),
    failed=st.sampled_from([0, START - 1, START, START + 1]),
    not_before=st.sampled_from([0, START, START + 1]),
    tcp=st.sampled_from([TcpState.SYN_SENT, TcpState.ESTABLISHED, TcpState.CLOSE_WAIT]),
    key=st.integers(0, 2),
)
def test_any_state_matches_the_model(state, owner, attempt, other, failed, not_before, tcp, key):
    node = Node()
    found = node.found
    found.state, found.owner, found.attempt = state, owner, attempt
    found.failed_at, found.not_before = failed, not_before
    found.host[:8], found.host_len, found.port = b"10.0.0.9", 8, 80
    node.shards[1].state, node.shards[1].phase = other
    node.shards[0].tcp.state = tcp
    node.permits.keys[0].owner = key
    node.discover()
