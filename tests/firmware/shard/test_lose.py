"""A lost shard: evidence first, session settled, one record, the right farewell."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.environment import Environment
from firmware.layouts.config import CONFIG
from firmware.layouts.events import Stuck
from firmware.layouts.log import LOG, LOG_RING
from firmware.layouts.node import LEASE, PLAN
from firmware.layouts.plan import MOVES
from firmware.layouts.policy import OnLimit, Policy
from firmware.layouts.refusal import PlanRefusal
from firmware.layouts.shard import (
    End,
    FailureFlag,
    NextStep,
    Phase,
    ShardFlag,
    ShardState,
    Stop,
    Then,
)
from firmware.layouts.tcp import TcpState
from firmware.layouts.tls_sites import CERTIFICATE_NAME
from firmware.layouts.websocket import WsState
from firmware.shard.lose import record_backoff, settle_session, shard_lose
from tests.support.lab import Lab
from tests.support.states import (
    MS,
    NOW,
    layer_states,
    policies,
    session_fields,
    set_policy,
    shard_fields,
    shard_in,
)

LAB = Lab(settle_session, record_backoff, shard_lose, slots=2)


def prepare(fields=None, layers=None, session=None, **settings):
    return shard_in(LAB, fields, layers, session, **settings)


def lines():
    """Return what the log ring holds."""
    state = LAB.g(LOG)
    raw = LAB.machine.read(LAB.image.address(LOG_RING), state.head)
    return raw.decode().splitlines()


@settings(max_examples=80, deadline=None)
@given(fields=shard_fields(), session=session_fields(), present=st.booleans())
def test_settle_session_any_state_matches_model(fields, session, present):
    shard, _ = prepare(fields, session=session, present=present)
    LAB.call(settle_session, shard=shard)


def test_settle_session_of_a_shard_without_a_session_does_nothing():
    shard, context = prepare(
        {"failure_flags": FailureFlag.RESET_SESSION, "flags": ShardFlag.SEQ_VALID}, present=False
    )
    LAB.call(settle_session, shard=shard)
    assert (context.flags, lines()) == (ShardFlag.SEQ_VALID, [])


@pytest.mark.parametrize(
    ("before", "valid"),
    [(0, 1), (1, 1), (2, 0), (0x7FFE, 0), (0x7FFF, 0), (0xFFFE, 0), (0xFFFF, 1)],
)
def test_settle_session_third_unanswered_resume_ends_it(before, valid):
    shard, context = prepare(
        {"phase": Phase.REPLAY, "flags": ShardFlag.SEQ_VALID},
        session={"valid": 1, "unanswered_resumes": before},
    )
    LAB.call(settle_session, shard=shard)
    assert context.session.valid == valid
    assert bool(context.flags & ShardFlag.SEQ_VALID) == bool(valid)


@pytest.mark.parametrize("end", [End.SEND_FAILED, End.TIMEOUT, End.RECONNECT_REQUESTED])
@pytest.mark.parametrize(
    ("stuck", "stalled_at", "counts"),
    [
        (Stuck.NO, 0, True),
        (Stuck.NO, NOW - 1, False),
        (Stuck.DROPPED, 0, False),
        (Stuck.FAILED, 0, False),
        (Stuck.DROPPED, 1 << 32, False),
    ],
)
def test_shard_lose_a_replay_that_the_stream_does_not_take_is_no_unanswered_resume(
    end, stuck, stalled_at, counts
):
    shard, context = prepare(
        {
            "state": ShardState.STARTING,
            "phase": Phase.REPLAY,
            "failure": end,
            "flags": ShardFlag.SEQ_VALID | ShardFlag.ESTABLISHED,
        },
        session={"valid": 1, "unanswered_resumes": 2},
    )
    context.events.stuck, context.events.stalled_at = stuck, stalled_at
    LAB.call(shard_lose, Environment(tsc=lambda: NOW), shard=shard)
    assert context.session.valid == (not counts)
    assert context.session.unanswered_resumes == (0 if counts else 2)


def test_settle_session_a_refused_resume_counts_whatever_the_stream_took():
    flags = FailureFlag.RESET_IN_REPLAY | FailureFlag.UNTAKEN
    shard, context = prepare({"failure_flags": flags, "phase": Phase.REPLAY}, session={"valid": 1})
    LAB.call(settle_session, shard=shard)
    assert context.session.valid == 0


@pytest.mark.parametrize(("phase", "kept"), [(Phase.REPLAY, 0), (Phase.NONE, 1), (Phase.IDENT, 1)])
def test_settle_session_a_refused_resume_alone_costs_it_on_fluxer(phase, kept):
    shard, context = prepare(
        {"failure_flags": FailureFlag.RESET_IN_REPLAY, "phase": phase}, session={"valid": 1}
    )
    LAB.call(settle_session, shard=shard)
    assert context.session.valid == kept


@pytest.mark.parametrize("valid", [0, 1, 2])
def test_settle_session_says_so_when_a_session_was_there_to_drop(valid):
    shard, context = prepare({"failure_flags": FailureFlag.RESET_SESSION}, session={"valid": valid})
    LAB.call(settle_session, shard=shard)
    assert context.session.valid == 0
    assert len([line for line in lines() if "lifecycle.sessionReset" in line]) == (valid == 1)


@pytest.mark.parametrize("policy", [Policy.FIXED, Policy.JITTERED])
@pytest.mark.parametrize("key", [0, 0xFF])
def test_shard_lose_fixed_delays_alone_have_the_order_of_the_seed(policy, key):
    """Seen where the clock turns; what lies before the policy in the page is no matter."""
    shard, context = prepare(
        {"state": ShardState.READY, "failure": End.NETWORK, "required_wait_ms": 5_000}
    )
    set_policy(LAB, {"policy": policy, "deadline_in_ms": 0}, NOW)
    LAB.g(CONFIG).startup_max_ms = 1
    LAB.g(CONFIG).control_key[:] = bytes([key]) * 64
    LAB.call(shard_lose, Environment(tsc=lambda: 2**64 - 5_000 * MS), shard=shard)
    wanted = (0, 0) if policy == Policy.FIXED else (1, 5_000)
    assert (context.reconnect_deadline, context.evidence.delay_ms) == wanted


@pytest.mark.parametrize("phase", list(Phase))
def test_settle_session_drops_only_a_host_that_was_not_reached(phase):
    shard, context = prepare({"phase": phase}, session={"valid": 1, "resume_host_len": 9})
    LAB.call(settle_session, shard=shard)
    dropped = phase in (Phase.RESOLVE, Phase.TCP, Phase.TLS, Phase.WS)
    assert context.session.resume_host_len == (0 if dropped else 9)
    assert context.session.valid == 1


@pytest.mark.parametrize(
    ("phase", "host", "flags", "wait"),
    [
        (Phase.TLS, 9, ShardFlag.SEQ_VALID, 0),
        (Phase.RESOLVE, 9, ShardFlag.SEQ_VALID, 120_000),  # that was discovery's server
        (Phase.WS, 9, ShardFlag.SEQ_VALID, 120_000),
        (Phase.TLS, 9, 0, 120_000),
        (Phase.TLS, 0, ShardFlag.SEQ_VALID, 120_000),
    ],
)
def test_settle_session_does_not_wait_for_the_certificate_of_a_host_that_it_drops(
    phase, host, flags, wait
):
    shard, context = prepare(
        {"phase": phase, "flags": flags, "required_wait_ms": 120_000},
        session={"valid": 1, "resume_host_len": host},
    )
    LAB.call(settle_session, shard=shard)
    assert context.required_wait_ms == wait


@pytest.mark.parametrize("site", [0, CERTIFICATE_NAME.number])
def test_record_backoff_tells_who_wants_the_wait(site):
    shard, context = prepare({"state": ShardState.BACKOFF, "reconnect_deadline": NOW + 1})
    kept = context.evidence
    kept.required_wait_ms, kept.tls_site, kept.end = 120_000, site, End.TLS_FAILED
    LAB.call(record_backoff, shard=shard)
    assert kept.then == (Then.IDENTIFY if site else Then.WAIT_IDENTIFY)
    assert ("the wait that the gateway requires" in lines()[0]) == (not site)


@settings(max_examples=250, deadline=None)
@given(
    fields=shard_fields(),
    layers=layer_states(),
    session=session_fields(),
    cycles=st.sampled_from([0, MS]),
    expired=st.booleans(),
    policy=policies(),
    status=st.sampled_from([0, 401, 403, 429, 503]),
)
def test_shard_lose_any_state_matches_model(
    fields, layers, session, cycles, expired, policy, status
):
    shard, context = prepare(fields, layers, session, cycles=cycles)
    set_policy(LAB, policy, NOW)
    context.websocket.http_status = status
    LAB.g(LEASE).expired = expired
    tsc = Environment(tsc=lambda: NOW)
    LAB.call(shard_lose, tsc, shard=shard)


def test_shard_lose_records_evidence_and_the_next_step():
    shard, context = prepare(
        {
            "state": ShardState.READY,
            "failure": End.TCP_FAILED,
            "last_error": 0x04030001,
            "flags": ShardFlag.SEQ_VALID,
            "sequence": 77,
            "reconnects": 4,
            "attempts": 2,
            "connected_at": NOW - 10 * MS,
        },
        {"tcp": TcpState.FAILED},
        {"valid": 1},
    )
    LAB.g(CONFIG).policy = Policy.FIXED
    LAB.call(shard_lose, Environment(tsc=lambda: NOW), shard=shard)
    assert context.state == ShardState.BACKOFF
    assert context.reconnects == 5
    assert context.reconnect_deadline == NOW + 5000 * MS
    assert context.disconnected_at == NOW
    kept = context.evidence
    assert (kept.error, kept.tcp_state, kept.sequence) == (0x04030001, TcpState.FAILED, 77)
    assert (kept.delay_ms, kept.next_step) == (5000, NextStep.RESUME)
    (line,) = lines()
    assert line == (
        "t=7000000 level=warn shard=0 code=lifecycle.connectionLost attempt=2 delayMs=5000 "
        "next=resume closeCode=0 reason=network classification=network error=0x4030001 tcp=failed "
        'tls=idle stage=none known=77 text="Shard 0 lost its connection. The gateway connection '
        'failed in TCP. It resumes its session in 5000 ms"'
    )


def test_shard_lose_fatal_schedules_nothing():
    shard, context = prepare(
        {
            "state": ShardState.STARTING,
            "failure": End.CLOSED,
            "failure_flags": FailureFlag.FATAL,
            "peer_close": 4004,
            "reconnects": 4,
        }
    )
    LAB.call(shard_lose, Environment(), shard=shard)
    assert (context.state, context.reconnects) == (ShardState.FATAL, 4)
    assert context.evidence.stop == Stop.AUTH
    assert (
        "code=lifecycle.connectionEnded attempt=0 stop=auth reported=AuthenticationError budgetMs=0 "
        "refusal=none closeCode=4004"
    ) in lines()[0]
    assert "classification=AuthenticationError" in lines()[0]
    assert "(Authentication failed: the token is wrong). The node does not retry" in lines()[0]


@pytest.mark.parametrize("on_limit", OnLimit)
def test_shard_lose_a_startup_out_of_attempts_ends_where_the_operator_wants_that(on_limit):
    shard, context = prepare(
        {"state": ShardState.STARTING, "failure": End.NETWORK, "attempts": 3, "reconnects": 4}
    )
    config = LAB.g(CONFIG)
    config.policy, config.startup_attempts, config.on_limit = Policy.FIXED, 3, on_limit
    LAB.call(shard_lose, Environment(tsc=lambda: NOW), shard=shard)
    if on_limit == OnLimit.FATAL:
        assert (context.state, context.reconnects) == (ShardState.FATAL, 4)
        assert (context.flags, context.evidence.stop) == (0, Stop.STARTUP_ATTEMPTS)
    else:
        assert (context.state, context.reconnects) == (ShardState.BACKOFF, 5)
        assert context.flags == ShardFlag.STARTUP_OVER


@pytest.mark.parametrize(
    ("end", "reason", "told"),
    [
        (End.NETWORK, "network", "The gateway connection failed"),
        (End.CHALLENGED, "challenged", "Cloudflare answered with a challenge for browsers"),
    ],
)
def test_shard_lose_tells_a_challenge_from_a_403_of_the_gateway(end, reason, told):
    shard, context = prepare({"state": ShardState.STARTING, "failure": end, "phase": Phase.WS})
    context.websocket.http_status = 403
    LAB.g(CONFIG).policy = Policy.FIXED
    LAB.call(shard_lose, Environment(tsc=lambda: NOW), shard=shard)
    assert (context.evidence.http_status, context.evidence.required_wait_ms) == (403, 60_000)
    (line,) = lines()
    assert f" reason={reason} classification=network " in line
    assert f"{told} (HTTP 403: forbidden) at the WebSocket upgrade. " in line


@pytest.mark.parametrize("recommended", [0, 24])
@pytest.mark.parametrize(("auto", "before", "wanted"), [(0, 0, 17), (1, 17, 17), (1, 2**31, 2**31)])
def test_shard_lose_4011_reports_the_smallest_total_that_can_follow(
    auto, before, wanted, recommended
):
    shard, context = prepare(
        {
            "state": ShardState.READY,
            "failure": End.CLOSED,
            "failure_flags": FailureFlag.RESHARD,
            "peer_close": 4011,
            "shard_total": 16,
        }
    )
    LAB.g(CONFIG).plan_auto, LAB.g(MOVES).wanted = auto, before
    LAB.g(MOVES).recommended = recommended
    LAB.call(shard_lose, Environment(), shard=shard)
    assert (context.state, context.evidence.stop) == (ShardState.FATAL, Stop.RESHARD)
    assert LAB.g(MOVES).wanted == wanted
    told = f"code=lifecycle.reshardWanted total=17 moves_itself={auto} recommended={recommended}"
    assert told in lines()[1]


WHOLE = {"global_total": 16, "local_start": 0, "local_count": 16}


@pytest.mark.parametrize(
    ("auto", "plan", "moves", "refusal", "said"),
    [
        (0, {}, {}, PlanRefusal.NOT_AUTOMATIC, "with more shards; [plan] auto is off"),
        (1, {}, {}, PlanRefusal.NONE, 'with more shards"'),
        (1, {"local_start": 1}, {}, PlanRefusal.NOT_THE_WHOLE_PLAN, "; other nodes hold shards"),
        (1, {"local_count": 15}, {}, PlanRefusal.NOT_THE_WHOLE_PLAN, "; other nodes hold shards"),
        (1, {}, {"leaving": 1}, PlanRefusal.STILL_MOVING, "; the last move still goes on"),
        (
            1,
            {},
            {"times": (NOW - 1).to_bytes(8, "little") * 3},
            PlanRefusal.TOO_MANY_MOVES,
            "; it moved thrice in an hour",
        ),
    ],
)
def test_shard_lose_4011_says_in_its_record_why_the_node_does_not_move(
    auto, plan, moves, refusal, said
):
    shard, context = prepare(
        {
            "state": ShardState.READY,
            "failure": End.CLOSED,
            "failure_flags": FailureFlag.RESHARD,
            "peer_close": 4011,
            "shard_total": 16,
        }
    )
    LAB.g(CONFIG).plan_auto = auto
    for name, value in (WHOLE | plan).items():
        setattr(LAB.g(PLAN), name, value)
    for name, value in moves.items():
        if name == "times":
            LAB.g(MOVES).times[:] = value
        else:
            setattr(LAB.g(MOVES), name, value)
    LAB.call(shard_lose, Environment(), shard=shard)
    assert context.evidence.refusal == refusal
    record = lines()[0]
    assert f" refusal={refusal.name.lower()} " in record
    assert said in record


@pytest.mark.parametrize(
    ("total", "refusal"), [(255, PlanRefusal.NONE), (256, PlanRefusal.OUT_OF_BOUNDS)]
)
def test_shard_lose_4011_of_a_node_that_is_full_is_out_of_bounds(total, refusal):
    fields = {"failure": End.CLOSED, "failure_flags": FailureFlag.RESHARD, "peer_close": 4011}
    shard, context = prepare({"state": ShardState.READY, "shard_total": total} | fields)
    LAB.g(CONFIG).plan_auto = 1
    LAB.g(PLAN).global_total = LAB.g(PLAN).local_count = total
    LAB.call(shard_lose, Environment(), shard=shard)
    assert context.evidence.refusal == refusal


def test_shard_lose_open_websocket_gets_five_seconds_to_close():
    shard, context = prepare(
        {"state": ShardState.READY, "failure": End.HEARTBEAT_TIMEOUT, "failure_close": 4000},
        {"tcp": TcpState.ESTABLISHED, "websocket": WsState.OPEN},
    )
    LAB.call(shard_lose, Environment(tsc=lambda: NOW), shard=shard)
    assert context.close_deadline == NOW + 5000 * MS
    assert context.websocket.state == WsState.CLOSING


def test_shard_lose_open_websocket_without_a_code_to_close_with_is_dropped():
    shard, context = prepare(
        {"state": ShardState.READY, "failure": End.TCP_FAILED, "failure_close": 0},
        {"tcp": TcpState.ESTABLISHED, "websocket": WsState.OPEN},
    )
    LAB.call(shard_lose, Environment(tsc=lambda: NOW), shard=shard)
    assert context.close_deadline == 0
    assert context.tcp.state == TcpState.CLOSED


@pytest.mark.parametrize("state", [TcpState.ESTABLISHED, TcpState.CLOSE_WAIT])
def test_shard_lose_lets_the_answer_to_the_peers_close_leave(state):
    shard, context = prepare(
        {"state": ShardState.READY, "failure": End.CLOSED, "peer_close": 4000},
        {"tcp": state, "websocket": WsState.CLOSED},
    )
    LAB.call(shard_lose, Environment(tsc=lambda: NOW), shard=shard)
    assert context.tcp.state == state
    assert context.close_deadline == NOW + 5000 * MS
