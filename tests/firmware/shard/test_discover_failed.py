"""A question that failed: how long everybody waits, and who gets which reason."""

import pytest

from firmware.layouts.config import CONFIG
from firmware.layouts.crypto import DRBG
from firmware.layouts.discovery import (
    DISCOVERY_ABANDONED,
    DISCOVERY_ADDRESS,
    DISCOVERY_CONNECTION,
    DISCOVERY_UNAVAILABLE,
)
from firmware.layouts.node import CORE
from firmware.layouts.policy import STARTUP, OnLimit
from firmware.layouts.shard import End, FailureFlag, Phase, ShardFlag, ShardState
from firmware.layouts.tls_sites import CERTIFICATE_NAME
from firmware.shard.lose import shard_lose
from pxe.gateway.rest import json_reply, rate_limit
from tests.support.discover_node import BUDGET, STARTUP_LEFT, Node, S
from tests.support.shard_node import LAB
from tests.support.states import MS


@pytest.fixture
def node():
    return Node()


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
