"""From ASSIGNED to a connection: why a shard waits, its permit, and where it dials."""

import pytest

from firmware.layouts.config import CONFIG
from firmware.layouts.events import Stuck
from firmware.layouts.node import CLOCK, LEASE, NETWORK
from firmware.layouts.permit import PERMITS
from firmware.layouts.plan import Leaving
from firmware.layouts.policy import STARTUP, OnLimit, SessionProvider
from firmware.layouts.shard import End, Hold, Phase, ShardFlag, ShardState
from firmware.layouts.survivor import SURVIVAL, SURVIVOR
from tests.support.net import ROUTER, START, ip32
from tests.support.shard_node import GATEWAY, LAB, NEVER, Node
from tests.support.states import MS
from tests.support.token import set_token


@pytest.mark.parametrize(
    ("expired", "cycles", "configured", "hold"),
    [
        (1, MS, 1, Hold.LEASE_EXPIRED),
        (0, 0, 1, Hold.NO_CLOCK),
        (0, MS, 0, Hold.NO_NETWORK),
        (1, 0, 0, Hold.LEASE_EXPIRED),
    ],
)
def test_tick_assigned_says_why_it_waits(expired, cycles, configured, hold):
    node = Node()
    LAB.g(LEASE).expired = expired
    LAB.g(CLOCK).tsc_cycles_per_ms = cycles
    LAB.g(NETWORK).configured = configured
    # Without a clock nothing can be put off; the calibration makes every shard due.
    assert node.tick() == (START + 100 * cycles if cycles else NEVER)
    assert (node.shards[0].state, node.shards[0].hold) == (ShardState.ASSIGNED, hold)
    assert node.bench.sent() == []


def test_tick_assigned_without_a_token_waits():
    node = Node()
    set_token(LAB, b"")
    assert node.tick() == START + 100 * MS
    context = node.shards[0]
    assert (context.state, context.hold) == (ShardState.ASSIGNED, Hold.NO_TOKEN)
    assert node.bench.sent() == []
    set_token(LAB, b"released")
    node.tick()
    assert context.state == ShardState.STARTING


def test_tick_assigned_dials_the_gateway_in_one_step():
    node = Node()
    node.tick()
    context = node.shards[0]
    assert (context.state, context.phase) == (ShardState.STARTING, Phase.TCP)
    assert (context.attempts, context.recovery_attempts) == (1, 0)
    assert context.tcp.remote_ip == ip32(GATEWAY)
    assert context.tls.tcp_ptr == context.tcp.address_
    assert len(node.bench.sent()) == 1
    reset, budget, attempt = node.lines()
    assert "code=shard.reset reconnects=0" in reset
    assert "code=lifecycle.startupDeadline budgetMs=35000 shards=2" in budget
    assert (
        "code=lifecycle.attempt attempt=1 phase=startup mode=identify address=10.0.0.9 port=8080"
        in attempt
    )
    assert context.attempt_deadline == START + 35_000 * MS


def test_tick_assigned_after_three_crashes_waits():
    node = Node()
    LAB.g(SURVIVAL).held = 1
    assert node.tick() == START + 100 * MS
    assert (node.shards[0].state, node.shards[0].hold) == (ShardState.ASSIGNED, Hold.CRASH_LOOP)


def test_tick_assigned_waits_for_a_saved_session():
    node = Node()
    LAB.g(CONFIG).session_provider = SessionProvider.HOST
    LAB.g(CONFIG).load_timeout_ms = 5_000
    assert node.tick() == START + 100 * MS
    assert (node.shards[0].state, node.shards[0].hold) == (ShardState.ASSIGNED, Hold.SESSION_LOAD)


@pytest.mark.parametrize("state", [ShardState.ASSIGNED, ShardState.BACKOFF])
def test_tick_of_a_shard_that_leaves_only_drains(state):
    node = Node()
    node.shards[0].state, node.shards[0].leaving = state, Leaving.KEEPING
    assert node.tick() == NEVER
    assert (node.shards[0].state, node.shards[0].hold) == (ShardState.ASSIGNED, Hold.PLAN_CHANGED)


def spend():
    LAB.g(CONFIG).identify_allowance = LAB.g(SURVIVOR).identified = 5


def test_tick_assigned_without_an_identify_waits_for_the_next_window():
    node = Node()
    spend()
    for _ in range(2):
        assert node.tick() == START + 100 * MS
        assert node.shards[0].state == ShardState.ASSIGNED
        assert node.shards[0].hold == Hold.NO_IDENT_BUDGET
    assert len(node.lines()) == 1


def test_tick_a_shard_that_waits_for_its_permit_goes_back_when_none_is_left():
    node = Node()
    node.tick(0)
    node.tick(1)
    assert node.shards[1].phase == Phase.PERMIT
    spend()
    assert node.tick(1) == START + 100 * MS
    other = node.shards[1]
    assert (other.state, other.phase) == (ShardState.ASSIGNED, Phase.NONE)
    assert (other.hold, other.attempts) == (Hold.NO_IDENT_BUDGET, 0)
    assert LAB.g(PERMITS).keys[0].waiter == 0
    assert LAB.g(PERMITS).owned == 1


def test_tick_second_shard_of_a_key_waits_without_spending_its_attempt():
    node = Node()
    node.tick(0)
    node.tick(1)
    other = node.shards[1]
    assert (other.phase, other.attempts, other.attempt_deadline) == (Phase.PERMIT, 0, 0)


@pytest.mark.parametrize("on_limit", OnLimit)
@pytest.mark.parametrize("flags", [0, ShardFlag.SEQ_VALID, ShardFlag.ESTABLISHED])
def test_tick_a_startup_whose_end_is_fatal_ends_the_wait_for_a_permit_too(flags, on_limit):
    node = Node()
    LAB.g(CONFIG).on_limit = on_limit
    node.tick(0)
    other = node.shards[1]
    other.flags = flags
    node.tick(1)
    bounded = on_limit == OnLimit.FATAL and flags != ShardFlag.ESTABLISHED
    end = LAB.g(STARTUP).deadline if bounded else 0
    assert (other.phase, other.attempt_deadline) == (Phase.PERMIT, end)


@pytest.mark.parametrize("flags", [0, ShardFlag.SEQ_VALID, ShardFlag.ESTABLISHED])
def test_tick_a_shard_that_asked_for_the_address_waits_for_its_permit_until_the_startup_ends(flags):
    node = Node()
    node.tick(0)
    node.tick(1)
    other = node.shards[1]
    other.attempt_deadline, other.flags = START + 50 * MS, flags
    node.tick(1)
    own = flags == ShardFlag.ESTABLISHED
    end = START + 50 * MS if own else LAB.g(STARTUP).deadline
    assert (other.phase, other.attempt_deadline) == (Phase.PERMIT, end)


@pytest.mark.parametrize("stuck", Stuck)
def test_tick_a_new_connection_does_not_end_for_what_failed_before_it(stuck):
    """A publication may be found overdue when its connection is gone already."""
    node = Node()
    context = node.shards[0]
    context.connection, context.events.stuck, context.events.stuck_at = 3, stuck, START
    node.tick()
    assert (context.phase, context.connection) == (Phase.TCP, 4)
    assert context.events.stuck == Stuck.NO


def test_tick_resumable_shard_needs_no_permit():
    node = Node()
    node.tick(0)
    other = node.shards[1]
    other.session.valid, other.sequence = 1, 41
    other.flags = ShardFlag.SEQ_VALID | ShardFlag.ESTABLISHED
    node.tick(1)
    assert (other.phase, other.recovery_attempts, other.sequence) == (Phase.TCP, 1, 41)


def test_tick_resume_goes_to_the_host_that_ready_named():
    node = Node()
    context = node.shards[0]
    context.session.valid, context.flags = 1, ShardFlag.SEQ_VALID
    host = b"10.0.0.1"
    context.session.resume_host[0 : len(host)] = host
    context.session.resume_host_len, context.session.resume_port = len(host), 9999
    node.tick()
    assert (context.tcp.remote_ip, context.tcp.remote_port) == (ip32("10.0.0.1"), 9999)


def test_tick_a_session_that_ended_is_not_dialled_at_its_host():
    """The host may still stand there; without a session only the configured one counts."""
    node = Node()
    context = node.shards[0]
    host = b"10.0.0.1"
    context.session.resume_host[0 : len(host)] = host
    context.session.resume_host_len, context.session.resume_port = len(host), 9999
    node.tick()
    assert (context.tcp.remote_ip, context.tcp.remote_port) == (ip32(GATEWAY), 8080)


def test_tick_name_without_an_address_fails_the_attempt():
    node = Node()
    config = LAB.g(CONFIG)
    config.gateway_host[0:4] = b"none"
    config.gateway_host_len = 4
    node.tick()
    assert node.shards[0].failure == End.NETWORK
    node.tick()
    assert node.shards[0].state == ShardState.BACKOFF


def test_tick_pending_name_is_asked_again_soon():
    node = Node()
    LAB.g(NETWORK).dns1 = ip32(ROUTER)
    LAB.g(CONFIG).gateway_host[0:7] = b"gw.test"
    LAB.g(CONFIG).gateway_host_len = 7
    assert node.tick() == START + 100 * MS
    assert node.shards[0].phase == Phase.RESOLVE


def test_tick_without_a_clock_a_waiting_shard_asks_for_no_turn():
    """Now plus nothing would be due at once, for ever; the calibration wakes the shards."""
    node = Node()
    context = node.shards[0]
    context.state, context.phase = ShardState.STARTING, Phase.PERMIT
    LAB.g(PERMITS).keys[0].owner = 2
    LAB.g(CLOCK).tsc_cycles_per_ms = 0
    assert node.tick() == NEVER
    assert context.phase == Phase.PERMIT
