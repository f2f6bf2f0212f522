"""Faults that other shard holders had with heartbeats and time (vectors 34b to 48)."""

from __future__ import annotations

import itertools

import pytest

from emulator.simulation.clock import NS_PER_S
from emulator.simulation.packet import ACK, FIN, RST, SYN
from emulator.simulation.peers.tcp_tricks import clamp_window
from firmware.layouts.gateway import LATENCY_UNKNOWN
from firmware.layouts.node import CLOCK
from firmware.layouts.profile import ProfileId
from firmware.layouts.shard import Phase, ShardState
from pxe.gateway import Step
from toolchain.cli.diagnostics import shard_report

S = ShardState
BEAT_MS = 5_000
STEPS = (0, 1, 31, 32, 63, 64, 65, 254, 255)


def withholding(case, times=1):
    """Let the gateway acknowledge no beat of the target for a while."""
    case.core.add_steps(Step(on="heartbeat", do="nothing", instead=True, shard=0, times=times))


def test_v34b_a_beat_never_says_less_than_the_one_before(case_of, profile):
    case = case_of(profile)
    case.dispatch(150)
    case.script("resume", "nothing")
    case.run(0.1)
    case.act(lambda core: core.abort(0))
    case.until(lambda: case.handshakes == [[2], [6]])
    for sequence in (151, 110):
        case.dispatch(sequence)
        case.say({"op": 1, "d": None})
        case.run(0.1)
    assert [sequence for _at, sequence in case.talk.beats] == [151, 151]


def test_v34b_fluxer_asks_for_a_beat_before_it_gives_up(case_of):
    case = case_of(ProfileId.FLUXER)
    case.run(200)
    beats = [at for at, _ in case.talk.beats]
    assert max(b - a for a, b in itertools.pairwise(beats)) <= 41.3
    assert case.handshakes == [[2]]


def test_v36_an_ack_and_the_end_in_one_segment_after_the_verdict(case_of, profile):
    case = case_of(profile, heartbeat_interval_ms=BEAT_MS, heartbeat_grace_ms=60_000)
    case.rig.gateway.server.policy.answers_close = False
    withholding(case)
    old = case.talk
    case.until_records(1)
    with old.peer.tcp.corked():
        old.peer.raw(b'\x81\x09{"op":11}')
        old.peer.tcp.close()
    case.healed()
    assert len(case.records()) == case.row.hb_misses == 1
    assert case.handshakes == [[2], [6]]


def test_v37_no_ack_at_all(case_of, profile):
    case = case_of(profile, heartbeat_interval_ms=BEAT_MS, heartbeat_grace_ms=60_000)
    withholding(case, times=99)
    opened = case.talk.opened_s
    case.until_records(1)
    case.failed("heartbeatTimeout", then="resume", below_ms=1_000)
    assert case.now - opened <= 2 * BEAT_MS / 1000 + 0.1
    assert case.talk.closed in (4000, None)
    case.run(0.1)
    assert case.talks[0].closed == 4000


def test_v38_a_peer_that_vanished(case_of, profile):
    case = case_of(profile, heartbeat_interval_ms=BEAT_MS, heartbeat_grace_ms=60_000)
    # From now on nothing comes back, not even a reset.
    case.talk.peer.tcp.out_filter = lambda _segment: []
    case.until_records(1)
    verdict = case.now
    record = case.failed("heartbeatTimeout", then="resume", below_ms=1_000)
    # The next connection waits for its delay alone, not for a dead peer's answer.
    case.until(lambda: len(case.talks) == 2, within_s=3)
    assert case.talk.opened_s - verdict == pytest.approx(record.delay_ms / 1000, abs=0.1)
    case.healed()
    assert case.handshakes == [[2], [6]]


def swallow_data(case, *, answer=False):
    """Take nothing more of what the node says."""
    tcp = case.talk.peer.tcp

    def drop(segment):
        mine = segment.src_port == tcp.remote[1] and segment.payload
        if not mine or segment.flags & (SYN | FIN | RST):
            return [segment]
        if answer:
            tcp.inject(ACK, window=0)
        return []

    tcp.stack.in_filter = drop


def close_window(case):
    """Offer no room from now on, take nothing, and answer every probe."""
    case.talk.peer.tcp.out_filter = clamp_window(0)
    swallow_data(case, answer=True)


@pytest.mark.parametrize("block", [swallow_data, close_window])
def test_v38_a_beat_that_finds_no_room_is_waited_for_one_interval(case_of, profile, block):
    case = case_of(profile, heartbeat_interval_ms=BEAT_MS, heartbeat_grace_ms=600_000)
    case.run(0.1)
    block(case)
    for _ in range(600):
        case.say({"op": 1, "d": None})
    due = case.view.gateway.hb_next
    turns = 0

    def count(_attachment):
        nonlocal turns
        turns += 1

    case.rig.after_turn.append(count)
    while not case.records() and turns < 1_000:
        case.say({"op": 11})
        case.run(1)
    late_s = (case.view.evidence.failed_at - due) / case.rig.node.g(CLOCK).tsc_cycles_per_ms / 1000
    case.failed("sendFailed", then="resume", below_ms=1_000)
    assert late_s == pytest.approx(BEAT_MS / 1000, abs=0.05)
    assert case.row.hb_misses == 0
    case.healed()
    assert case.handshakes == [[2], [6]]


def test_v39_a_close_that_is_never_answered(case_of, profile):
    case = case_of(profile)
    policy = case.rig.gateway.server.policy
    policy.answers_close = False
    old = case.talk.peer.tcp
    # A shard that gives up has nothing else to do than to wait for the answer.
    case.talk.peer.raw(b"\x82\x00")
    case.until_records(1)
    asked = case.now
    case.until(lambda: case.talk.closed)
    case.until(lambda: old.close_reason)
    assert case.now - asked == pytest.approx(5, abs=0.1)
    case.run(10)
    assert case.row.state == S.FATAL


@pytest.mark.parametrize("step_s", [900, -900])
def test_v40_a_wall_clock_that_is_set(case_of, profile, step_s):
    case = case_of(profile, heartbeat_interval_ms=BEAT_MS)
    case.run(8)
    case.rig.node.g(CLOCK).unix_time += step_s
    case.run(60)
    assert case.row.hb_misses == 0
    assert case.handshakes == [[2]]


def test_v42_an_hour_of_silence_but_for_acks(case_of, profile):
    case = case_of(profile)
    case.run(3_600)
    assert case.row.state == S.READY
    assert len(case.talk.beats) in (87, 88)
    assert case.handshakes == [[2]]


def test_v43_a_dead_connection_shows_how_old_its_signs_of_life_are(case_of, profile):
    case = case_of(profile, heartbeat_interval_ms=40_000, heartbeat_grace_ms=600_000)
    case.until(lambda: case.rig.status(0)["ack_age_ms"] < 1_000, within_s=60)
    assert case.view.gateway.latency_ms < 1_000
    case.act(lambda core: core.stall(0))
    case.run(30)
    status = case.rig.status(0)
    assert status["ack_age_ms"] >= 30_000
    assert status["frame_age_ms"] >= 30_000
    case.until_records(1, within_s=120)
    assert case.view.gateway.latency_ms == 0xFFFF_FFFF


def test_v43_only_an_answered_beat_of_this_connection_has_a_latency(case_of, profile):
    case = case_of(profile, shards=1, ready=False, heartbeat_interval_ms=BEAT_MS)
    seen: dict[tuple[int, int], set[int]] = {}

    def look(_attachment):
        row = case.row
        early = row.phase in (Phase.PERMIT, Phase.RESOLVE, Phase.TCP, Phase.TLS, Phase.WS)
        if row.state in (S.ASSIGNED, S.BACKOFF, S.FATAL) or early:
            seen.setdefault((row.state, row.phase), set()).add(case.view.gateway.latency_ms)

    case.rig.after_turn.append(look)
    case.until_ready()
    case.until(lambda: case.view.gateway.latency_ms != LATENCY_UNKNOWN)
    assert shard_report(case.rig.status(0))["latency_ms"] is not None
    case.act(lambda core: core.abort(0))
    case.healed()
    case.until(lambda: case.view.gateway.latency_ms != LATENCY_UNKNOWN)
    case.act(lambda core: core.kick(0, 4004))
    case.until(lambda: case.row.state == S.FATAL)
    case.run(10)
    assert shard_report(case.rig.status(0))["latency_ms"] is None
    assert {state for state, _phase in seen} == {S.ASSIGNED, S.STARTING, S.BACKOFF, S.FATAL}
    assert set.union(*seen.values()) == {LATENCY_UNKNOWN}


def test_v44_a_clock_that_passes_the_sign(case_of, profile):
    case = case_of(profile, tsc_at_zero=2**63 - 12 * NS_PER_S, heartbeat_interval_ms=BEAT_MS)
    case.run(11 - case.now)
    case.act(lambda core: core.kick(0, 4008))
    case.until_records(1)
    case.failed("closed", close=4008, then="resume", wait_ms=5_000, below_ms=5_001)
    lost = case.now
    case.healed()
    assert case.talk.opened_s - lost == pytest.approx(5, abs=0.2)
    case.run(30)
    assert case.handshakes == [[2], [6]]
    assert case.row.hb_misses == 0


@pytest.mark.parametrize("step", STEPS)
def test_v45_v46_any_number_of_failures(case_of, step):
    case = case_of(heartbeat_interval_ms=600_000)
    case.view.recovery_step = step
    case.act(lambda core: core.abort(0))
    case.until_records(1)
    case.failed("network", then="resume", below_ms=min(30_000, 1_000 << min(step, 5)))
    assert case.view.recovery_step == (step + 1 if step < 31 else step)
    case.healed()


def test_v48_a_node_that_loses_its_link_comes_back_spread_out(case_of, profile):
    case = case_of(profile, shards=16, noticed=True)
    case.act(lambda core: core.restart(keep_sessions=True))
    case.until(lambda: all(case.records(slot) for slot in range(16)))
    delays = sorted(case.records(slot)[0].delay_ms for slot in range(16))
    assert delays[-1] < 1_000
    # Sixteen draws below a second: no part of 400 ms is empty, no two fall together.
    assert len(set(delays)) >= 15
    assert max(b - a for a, b in itertools.pairwise([0, *delays, 1_000])) < 400
    case.until_ready(5)
