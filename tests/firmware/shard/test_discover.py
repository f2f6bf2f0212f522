"""Who asks for the gateway, who waits, and what everybody gets."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware.layouts.config import CONFIG
from firmware.layouts.crypto import DRBG
from firmware.layouts.discovery import DiscoveryMode
from firmware.layouts.node import CLOCK, CORE, NETWORK
from firmware.layouts.policy import STARTUP
from firmware.layouts.shard import End, Hold, Phase, ShardFlag, ShardState
from firmware.layouts.tcp import TcpState
from firmware.layouts.tls import TlsState
from firmware.layouts.tls_pool import TLS_POOL
from firmware.layouts.variants import Variant
from firmware.shard.dial import shard_dial
from firmware.shard.discover import shard_confirm_permit
from pxe.gateway.rest import json_reply, redirect
from tests.support.discover_node import BUDGET, DOCUMENT, Node, S
from tests.support.net import ROUTER, START, ip32
from tests.support.shard_node import LAB
from tests.support.variants import choose


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
