"""Cases E31 to E40: first causes, refused upgrades, hosts, flaps, health, leases, clocks, limits."""

from __future__ import annotations

import itertools

import pytest

from firmware.layouts.control import ControlResult, ControlVerb
from firmware.layouts.node import CLOCK
from firmware.layouts.policy import OnLimit, SessionProvider
from firmware.layouts.profile import ProfileId
from firmware.layouts.sessions import ANY_SHARD
from firmware.layouts.shard import Hold, Phase, ShardState, Stop
from firmware.layouts.websocket import UPGRADE_CHALLENGED
from pxe.gateway.protocol import PROFILES as SERVICES
from tests.emulator.simulation.test_node_sessions import Host
from tests.support.cases import RESUME_ADDRESS, RESUME_HOST
from toolchain.cli.diagnostics import shard_report

S = ShardState
JITTER_MS = 1_000


def test_e31_a_close_code_followed_by_a_reset(case_of, profile):
    case = case_of(profile)
    peer = case.talk.peer
    peer.raw(b"\x88\x02" + (4008).to_bytes(2, "big"))
    peer.abort()
    case.until_records(1)
    case.failed("closed", close=4008, then="resume", wait_ms=5_000, below_ms=5_001)
    case.healed()
    assert len(case.records()) == 1
    assert case.handshakes == [[2], [6]]


def test_e31_op_7_followed_by_a_close(case_of, profile):
    case = case_of(profile)
    case.say({"op": 7})
    case.talk.peer.close(4009)
    case.until_records(1)
    case.failed("reconnectRequested", close=4009, then="resume", below_ms=JITTER_MS)
    case.healed()
    assert len(case.records()) == 1
    assert case.handshakes == [[2], [6]]


@pytest.mark.parametrize(
    ("status", "wait_ms", "below_ms"),
    [
        (500, 0, 2_000),
        (503, 0, 2_000),
        (400, 5_000, 5_001),
        (404, 5_000, 5_001),
        (429, 5_000, 5_001),
        (401, 60_000, 60_001),
        (403, 60_000, 60_001),
    ],
)
def test_e32_a_refused_upgrade(case_of, profile, status, wait_ms, below_ms):
    case = case_of(profile, session_ttl_ms=120_000)
    case.rig.gateway.server.policy.status = status
    case.act(lambda core: core.abort(0))
    case.until_records(2)
    case.rig.gateway.server.policy.status = 0
    case.failed("network", then="resume", wait_ms=wait_ms, below_ms=below_ms)
    assert case.view.evidence.http_status == status
    case.healed(70)
    assert case.handshakes == [[2], [6]]


def test_e32_a_challenge_in_the_gateway_s_place(case_of, profile):
    """A 403 that says cf-mitigated: the gateway has not seen the request."""
    case = case_of(profile, session_ttl_ms=120_000)
    policy = case.rig.gateway.server.policy
    policy.status, policy.headers = 403, (("cf-mitigated", "challenge"),)
    case.act(lambda core: core.abort(0))
    case.until_records(2)
    policy.status, policy.headers = 0, ()
    record = case.failed("challenged", then="resume", wait_ms=60_000, below_ms=60_001)
    assert record.classification == "network"
    assert case.view.evidence.error == UPGRADE_CHALLENGED.code | 403
    case.healed(70)
    assert case.handshakes == [[2], [6]]


def test_e32_a_refused_upgrade_that_names_a_wait(case_of, profile):
    case = case_of(profile)
    policy = case.rig.gateway.server.policy
    policy.status, policy.headers = 429, (("Retry-After", "17"),)
    case.act(lambda core: core.abort(0))
    case.until_records(2)
    policy.status, policy.headers = 0, ()
    record = case.failed("network", then="resume", wait_ms=17_000, below_ms=17_001)
    assert record.classification == "RateLimitError"
    case.healed()
    assert case.handshakes == [[2], [6]]


@pytest.mark.parametrize("trouble", ["dns", "refused", "dark"])
def test_e33_a_resume_host_that_cannot_be_reached(case_of, trouble):
    case = case_of(resume_host=True)
    internet = case.rig.internet
    if trouble == "dns":
        del internet.dns.zone[RESUME_HOST]
    elif trouble == "refused":
        server = internet.gateways[RESUME_HOST].server
        server.stack.listeners[server.address, server.port].refusing = True
    else:
        internet.cut(RESUME_ADDRESS)
    case.act(lambda core: core.abort(0))
    case.until_records(2)
    case.failed("timeout" if trouble == "dark" else "network", then="resume", below_ms=2_000)
    case.healed()
    first, again = case.talks
    assert again.host == first.host
    assert case.handshakes == [[2], [6]]


def test_e34_a_link_flap(case_of, profile):
    case = case_of(profile, shards=8, noticed=True, config={"max_concurrency": 1}, ready=False)
    case.until_ready(60)
    case.act(lambda core: core.restart(keep_sessions=True))
    case.until(lambda: all(case.records(slot) for slot in range(8)))
    lost = case.now
    delays = [case.records(slot)[0].delay_ms for slot in range(8)]
    assert len(set(delays)) >= 7
    assert max(delays) < JITTER_MS
    case.until_ready(5)
    # Resumes wait for nothing but their jitter.
    resumed = [talk for talk in case.opened if talk.handshakes == [6]]
    assert len(resumed) == 8
    assert max(talk.at(6) for talk in resumed) - lost < 1.5
    # Identifies keep the gate.
    case.act(lambda core: core.restart(keep_sessions=False))
    case.until(lambda: sum(t.handshakes == [2] for t in case.opened) == 16, within_s=120)
    times = sorted(talk.at(2) for talk in case.opened if talk.handshakes == [2])[8:]
    assert min(b - a for a, b in itertools.pairwise(times)) >= (5 if case.discord else 0.99)
    assert case.rig.stats.identify_gate_refusals == 0


@pytest.mark.parametrize(("healthy_s", "starts_again"), [(59, False), (60.5, True)])
def test_e35_health_starts_step_and_count_again(case_of, profile, healthy_s, starts_again):
    case = case_of(profile, seed=2, heartbeat_interval_ms=600_000)
    for count in (1, 2):
        case.say("no JSON")
        case.until_records(count)
        case.healed()
    assert (case.view.recovery_step, case.view.protocol_failures) == (2, 2)
    case.run(healthy_s)
    case.act(lambda core: core.abort(0))
    case.until_records(3)
    # The delay that was just drawn belongs to the step before.
    assert case.view.recovery_step == (1 if starts_again else 3)
    assert case.view.protocol_failures == (0 if starts_again else 2)
    case.healed()


PHASES = {
    Phase.PERMIT: lambda case: case.act(lambda core: core.invalidate(0, resumable=False)),
    Phase.IDENT: lambda case: case.act(lambda core: core.invalidate(0, resumable=False)),
    Phase.REPLAY: lambda case: case.act(lambda core: core.abort(0)),
    Phase.NONE: lambda case: case.act(lambda core: core.kick(0, 4008)),
}


@pytest.mark.parametrize("phase", PHASES, ids=lambda p: "backoff" if not p else p.name.lower())
def test_e36_a_lease_that_expires_on_the_way_back(case_of, profile, phase):
    keys = 1 if phase == Phase.PERMIT else 16
    case = case_of(profile, noticed=True, config={"max_concurrency": keys})
    if phase in (Phase.IDENT, Phase.REPLAY):
        case.script("identify" if phase == Phase.IDENT else "resume", "nothing", shard=0)
    if phase == Phase.PERMIT:
        # The other shard holds the only key.
        case.script("identify", "nothing", shard=1)
        case.act(lambda core: core.invalidate(1, resumable=False))
        case.until(lambda: [t.handshakes for t in case.opened if t.slot == 1] == [[2], [2]])
    PHASES[phase](case)
    state = S.STARTING if phase else S.BACKOFF
    case.until(lambda: (case.row.state, case.row.phase) == (state, phase))
    case.run(0.5)
    assert (case.row.state, case.row.phase) == (state, phase)
    case.rig.node.console("lease expire")
    expired_ns = case.rig.world.now_ns
    case.run(120)
    assert case.rig.monitor.sent_since(expired_ns) == []
    assert (case.row.state, case.row.hold) == (S.ASSIGNED, Hold.LEASE_EXPIRED)
    assert case.row.reconnect_deadline == case.row.attempt_deadline == 0
    identifies = case.row.identifies
    case.rig.node.console("lease arm 600000")
    case.until_ready()
    assert case.row.identifies <= identifies + 1
    # A permit that was used stays used.
    assert case.rig.stats.identify_gate_refusals == 0


def test_e37_a_backoff_without_a_clock(case_of, profile):
    case = case_of(profile, heartbeat_interval_ms=600_000)
    case.act(lambda core: core.abort(0))
    clock = case.rig.node.g(CLOCK)
    cycles, clock.tsc_cycles_per_ms = clock.tsc_cycles_per_ms, 0
    case.until(lambda: case.row.state == S.ASSIGNED, within_s=1)
    assert case.row.hold == Hold.NO_CLOCK
    counted = case.row.reconnects
    lines = len(case.rig.node.log)
    case.run(5)
    assert (case.row.state, case.row.reconnects, case.row.reconnect_deadline) == (
        S.ASSIGNED,
        counted,
        0,
    )
    assert len(case.rig.node.log) == lines
    assert (case.record.reason, case.record.delay_ms, case.record.at_ms) == ("network", 0, 0)
    assert len(case.records()) == 1
    # Lines of a node without a clock have no time.
    serial = case.rig.node.serial
    serial.lines[:] = [line for line in serial.lines if not line.startswith("t=0 ")]
    clock.tsc_cycles_per_ms = cycles
    # A grant looks at every shard again.
    case.rig.node.console("lease arm 600000")
    case.until_ready(20)
    assert case.handshakes == [[2], [6]]


def test_e38_a_sequence_older_than_what_was_acknowledged(case_of, profile):
    case = case_of(profile, noticed=True)
    case.run(2)
    for _ in range(5):
        case.act(lambda core: core.dispatch(0, "X", {}))
    # The service forgets more than a beat has told it; what is kept over the reset is older.
    (session,) = case.core.roster.of_shard(0)
    if not case.discord:
        session.acknowledge(session.sequence)
    case.rig.warm_reset(after_s=4)
    case.until_ready()
    if case.discord:
        assert case.handshakes == [[2], [6]]
    else:
        # 4007 while resuming: the session is gone, and one Identify follows.
        record = case.failed("closed", close=4007, then="identify")
        assert record.stage == "replay"
        assert case.handshakes == [[2], [6], [2]]


def test_e38_what_a_beat_has_named_is_kept(case_of, profile):
    case = case_of(profile, noticed=True)
    case.run(2)
    # The sequence of the first is kept, and no other for a second, but for the beat.
    for _ in range(2):
        case.act(lambda core: core.dispatch(0, "X", {}))
        case.run(0.1)
    case.say({"op": 1, "d": None})
    case.run(0.1)
    (session,) = case.core.roster.of_shard(0)
    assert case.discord or session.acknowledged == session.sequence
    case.rig.warm_reset(after_s=4)
    case.until_ready()
    assert case.handshakes == [[2], [6]]


def test_e38_a_saved_session_older_than_what_was_acknowledged(case_of, profile):
    case = case_of(
        profile, noticed=True, ready=False, config={"session_provider": SessionProvider.HOST}
    )
    rig, host = case.rig, Host(case.rig)
    host.greet()
    assert host._say(ControlVerb.SESSION_OFFER, slot=ANY_SHARD)["result"] == ControlResult.DONE
    case.until_ready()
    for _ in range(5):
        case.act(lambda core: core.dispatch(0, "X", {}))
    case.run(5)
    (session,) = case.core.roster.of_shard(0)
    host.stop()
    if not case.discord:
        session.acknowledge(session.sequence)
    rig.power_off()
    rig.power_on()
    host.greet()
    # What is offered is older than the last beat that the service acknowledged.
    host.offer(0, sequence=session.sequence - 2)
    host.offer(1)
    case.until_ready()
    assert case.handshakes == ([[2], [6]] if case.discord else [[2], [6], [2]])
    if not case.discord:
        case.failed("closed", close=4007, then="identify")
    assert case.row.sequence == rig.stats.shards[0].sequence


def startup(on_limit):
    return {"on_limit": on_limit, "startup_attempts": 3}


def test_e39_startup_attempts_are_used_up(case_of, profile):
    case = case_of(profile, shards=1, ready=False, config=startup(OnLimit.RETRY))
    case.script("connect", "kick", times=5)
    case.until_records(5)
    (limit,) = case.lines("lifecycle.startupLimit")
    assert (limit["stop"], limit["attempt"]) == ("startup_attempts", "3")
    # From the third failure on the recovery policy gives the delays, from its first step.
    assert [record.delay_ms < 1_000 for record in case.records()][2] is True
    case.healed()
    assert case.handshakes[-1] == [2]


def test_e39_startup_attempts_as_seed_b_has_them(case_of, profile):
    case = case_of(profile, ready=False, noticed=True, config=startup(OnLimit.FATAL))
    # Both shards connect before either identifies, so the steps act at Identify.
    case.script("identify", "kick", shard=0, times=5)
    case.until_records(3)
    case.ended("closed", Stop.STARTUP_ATTEMPTS.name.lower(), close=4000)
    case.unnoticed()


def test_e39_a_healthy_startup_of_one_key_has_its_time(case_of, profile):
    config = startup(OnLimit.FATAL) | {"max_concurrency": 1}
    case = case_of(profile, shards=16, ready=False, noticed=True, config=config)
    spacing_s, budget_s = (5, 30 + 15 * 5) if case.discord else (1, 30 + 15)
    case.until_ready(budget_s)
    (begun,) = (x for x in case.rig.node.log if x["code"] == "lifecycle.startupDeadline")
    assert begun["budgetMs"] == str(budget_s * 1_000)
    identified = sorted(talk.at(2) for talk in case.opened)
    assert len(identified) == 16
    gaps = [b - a for a, b in itertools.pairwise(identified)]
    # The key is free again after its spacing; who waits for it looks every 100 ms, then dials.
    assert min(gaps) >= spacing_s - 0.01
    assert max(gaps) < spacing_s + 0.4
    case.unnoticed()


@pytest.mark.parametrize("on_limit", OnLimit)
def test_e39_the_startup_deadline_passes(case_of, profile, on_limit):
    config = startup(on_limit) | {"startup_timeout_ms": 12_000}
    case = case_of(profile, shards=1, ready=False, config=config)
    case.script("connect", "kick", code=4008, times=2)
    case.until_records(1)
    case.failed("closed", close=4008, then="identify", wait_ms=5_000)
    case.until_records(2)
    if on_limit == OnLimit.FATAL:
        # The wait that the gateway asks for does not fit into what is left.
        record = case.ended("closed", Stop.STARTUP_DEADLINE.name.lower(), close=4008)
        assert record.classification == "RateLimitError"
        (limit,) = case.lines("lifecycle.connectionEnded")
    else:
        (limit,) = case.lines("lifecycle.startupLimit")
        assert limit["classification"] == "RateLimitError"
    assert (limit["reported"], limit["budgetMs"]) == ("RateLimitError", "12000")
    if on_limit == OnLimit.RETRY:
        case.failed("closed", close=4008, then="identify", wait_ms=30_000, below_ms=30_001)
        case.healed()


def test_e39_the_startup_ends_in_silence(case_of, profile):
    config = startup(OnLimit.FATAL) | {"startup_timeout_ms": 12_000}
    case = case_of(profile, shards=1, ready=False, config=config)
    case.script("identify", "nothing")
    case.until_records(1)
    assert case.now == pytest.approx(12, abs=0.2)
    record = case.ended("timeout", Stop.STARTUP_DEADLINE.name.lower())
    assert record.classification == "ConnectionTimeoutError"
    (line,) = case.lines("lifecycle.connectionEnded")
    assert (line["reported"], line["budgetMs"]) == ("ConnectionTimeoutError", "12000")
    assert case.handshakes == [[2]]


def test_e39_a_close_that_leaves_no_time_stays_a_close(case_of, profile):
    """Whether the delay or the wait for a permit meets the deadline, a draw decides."""
    config = startup(OnLimit.FATAL) | {"startup_timeout_ms": 12_000, "startup_attempts": 99}
    for seed in range(1, 30):
        case = case_of(profile, shards=1, seed=seed, ready=False, config=config)
        case.script("connect", "kick", code=4000, times=99)
        case.until(lambda case=case: case.row.state == S.FATAL)
        if case.record.reason == "closed":
            break
        assert case.record.stage == "permit"
    else:
        pytest.fail("no seed ends with a close")
    # What failed is told as it was; the startup's end is reported as the timeout that it is.
    record = case.ended("closed", Stop.STARTUP_DEADLINE.name.lower(), close=4000)
    assert record.classification == "closed"
    (line,) = case.lines("lifecycle.connectionEnded")
    assert (line["reported"], line["budgetMs"]) == ("ConnectionTimeoutError", "12000")
    assert "The startup deadline of 12000 ms leaves no time for another attempt" in line["text"]


def test_e40_the_last_sequence_of_32_bits(case_of, profile):
    case = case_of(profile)
    (session,) = case.core.roster.of_shard(0)
    session.sequence = 2**32 - 2
    case.act(lambda core: core.dispatch(0, "X", {}))
    case.run(0.1)
    assert (case.row.state, case.row.sequence) == (S.READY, 2**32 - 1)
    # SEQ_VALID alone says whether it counts.
    assert shard_report(case.rig.status(0))["sequence"] == 2**32 - 1
    case.act(lambda core: core.abort(0))
    case.until(lambda: case.handshakes == [[2], [6]])
    assert case.talk.body["seq"] == 2**32 - 1
    assert case.lines("lifecycle.connectionLost")[0]["known"] == str(2**32 - 1)
    assert shard_report(case.rig.status(0))["last_failure"]["sequence"] == 2**32 - 1
    case.healed()
    # One more does not fit (decision 12).
    case.dispatch(2**32)
    case.until_records(2)
    case.failed("protocol", then="identify")


def test_e40_without_a_sequence_there_is_none(case_of, profile):
    case = case_of(profile, shards=1, ready=False)
    case.script("connect", "nothing")
    case.until_records(1)
    assert case.lines("lifecycle.retry")[0]["known"] == "none"
    report = shard_report(case.rig.status(0))
    assert (report["sequence"], report["last_failure"]["sequence"]) == (None, None)
    case.healed()
    assert case.lines("lifecycle.ready")[0]["known"] == "none"


def test_the_services_of_both_sides_have_the_same_names():
    assert {each.name.lower() for each in ProfileId} == set(SERVICES)
