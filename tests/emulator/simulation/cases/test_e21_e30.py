"""Cases E21 to E30: binary frames, the close codes of both services, ends without a close frame."""

from __future__ import annotations

import pytest

from emulator.simulation.peers.websocket import BINARY, CLOSE, frame
from firmware.layouts.profile import ProfileId
from firmware.layouts.shard import ShardState, Stop
from tests.support.cases import path_of

S = ShardState
WAIT_MS, WAIT_AGAIN_MS, JITTER_MS = 5_000, 30_000, 1_000


def stop(reason):
    """Return how a record spells a reason to stop."""
    return reason.name.lower()


def test_e21_a_binary_frame_that_nobody_asked_for(case_of, profile):
    case = case_of(profile)
    case.talk.peer.frame(BINARY, b'{"op":11}')
    case.until_records(1)
    record = case.ended("protocol", stop(Stop.CONFIG))
    assert record.classification == "protocol"
    assert case.row.state == S.FATAL


def test_e22_close_4004_while_replaying(case_of, profile):
    case = case_of(profile)
    case.script("resume", "kick", code=4004)
    case.act(lambda core: core.abort(0))
    case.until_records(2)
    record = case.ended("closed", stop(Stop.AUTH), close=4004)
    assert (record.classification, record.stage) == ("AuthenticationError", "replay")
    assert case.row.evidence_close_code == 4004
    assert case.handshakes == [[2], [6]]


def test_e23_close_4007_while_replaying(case_of, profile):
    case = case_of(profile)
    case.script("resume", "kick", code=4007)
    case.act(lambda core: core.abort(0))
    case.until_records(2)
    case.failed("closed", close=4007, then="identify", below_ms=2 * JITTER_MS)
    case.healed()
    assert case.handshakes == [[2], [6], [2]]


def test_e23_close_4007_when_ready(case_of, profile):
    case = case_of(profile)
    case.act(lambda core: core.kick(0, 4007))
    case.until_records(1)
    then = "identify" if case.discord else "resume"
    case.failed("closed", close=4007, then=then, below_ms=JITTER_MS)
    case.healed()
    assert case.handshakes == [[2], [2 if case.discord else 6]]


def test_e24_close_4008_when_ready(case_of, profile):
    case = case_of(profile)
    for count, wait in ((1, WAIT_MS), (2, WAIT_AGAIN_MS)):
        case.act(lambda core: core.kick(0, 4008))
        case.until_records(count)
        record = case.failed("closed", close=4008, then="resume", wait_ms=wait, below_ms=wait + 1)
        assert record.classification == "RateLimitError"
        closed = case.now
        case.healed()
        assert case.talk.opened_s - closed >= wait / 1000
    assert case.handshakes == [[2], [6], [6]]


def test_e24_a_minute_after_a_4008_the_next_is_a_first_again(case_of):
    case = case_of()
    for count in (1, 2):
        case.act(lambda core: core.kick(0, 4008))
        case.until_records(count)
        case.failed("closed", close=4008, then="resume", wait_ms=WAIT_MS, below_ms=WAIT_MS + 1)
        case.healed()
        case.run(61)


def test_e24_close_4008_before_hello(case_of, profile):
    case = case_of(profile, ready=False, shards=1)
    case.script("connect", "kick", code=4008)
    case.until_records(1)
    case.failed("closed", close=4008, then="identify", wait_ms=WAIT_MS, below_ms=WAIT_MS + 1)
    case.healed()
    assert case.handshakes == [[], [2]]


def test_e25_close_4009(case_of, profile):
    case = case_of(profile)
    case.act(lambda core: core.kick(0, 4009))
    case.until_records(1)
    then = "identify" if case.discord else "resume"
    case.failed("closed", close=4009, then=then, below_ms=JITTER_MS)
    case.healed()
    assert case.handshakes == [[2], [2 if case.discord else 6]]


def test_e26_close_4011_asks_for_another_plan(case_of, profile):
    case = case_of(profile, shards=3)
    case.act(lambda core: core.kick(0, 4011))
    case.until_records(1)
    record = case.ended("closed", stop(Stop.RESHARD), close=4011)
    assert record.stage == "none"


def test_e27_close_4012_before_hello(case_of, profile):
    other = next(each for each in ProfileId if each != profile)
    case = case_of(profile, shards=1, ready=False, config={"path": path_of(other)})
    case.until_records(1)
    record = case.ended("closed", stop(Stop.CONFIG), close=4012)
    # The close may come in the segment that answers the upgrade.
    assert record.stage in ("ws", "hello")
    assert case.handshakes == [[]]


@pytest.mark.parametrize("code", [4013, 4014])
def test_e28_close_4013_and_4014(case_of, profile, code):
    case = case_of(profile, ready=False, noticed=True)
    case.script("identify", "kick", code=code, shard=0)
    case.until_records(1)
    record = case.ended("closed", stop(Stop.CONFIG), close=code)
    assert record.stage == "ident"
    assert case.handshakes == [[2]]
    case.unnoticed()


def reset(case):
    case.act(lambda core: core.abort(0))


def finish(case):
    case.talk.peer.tcp.close()


@pytest.mark.parametrize("end", [reset, finish], ids=lambda end: end.__name__)
def test_e29_an_end_without_a_close_frame(case_of, profile, end):
    case = case_of(profile)
    end(case)
    case.until_records(1)
    record = case.failed("network", then="resume", below_ms=JITTER_MS)
    assert record.classification == "network"
    case.healed()
    assert case.talks[0].closed is None
    assert case.handshakes == [[2], [6]]


def test_e30_a_close_frame_without_a_code(case_of, profile):
    case = case_of(profile)
    case.act(lambda core: core.kick(0, 1005))
    case.until_records(1)
    case.failed("closed", close=0, then="resume", below_ms=JITTER_MS)
    case.healed()
    # The echo says as little.
    assert (case.talks[0].closed, case.talks[0].peer.violation) == (1005, "")
    assert case.handshakes == [[2], [6]]


def test_e30_a_close_frame_of_one_byte_is_a_framing_error(case_of, profile):
    case = case_of(profile)
    case.talk.peer.raw(frame(CLOSE, b"\x03"))
    case.until_records(1)
    case.failed("protocol", then="resume", below_ms=JITTER_MS)
    case.healed()
    assert case.talks[0].closed == 1002
    assert case.handshakes == [[2], [6]]
