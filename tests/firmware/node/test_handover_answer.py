"""Answers of the store: every kind of record, every kind of refusal, and whose they are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmware.layouts.bus import BUS_IN
from firmware.layouts.handover import HANDOVER, HandoverRequest, HandoverStep
from firmware.layouts.node import CORE
from firmware.layouts.shard import SessionLoad, ShardFlag, ShardState
from firmware.node.handover_answer import (
    handover_again,
    handover_answer,
    handover_lay_down,
    handover_read,
    handover_settle,
    handover_waits,
    handover_written,
)
from tests.support.bus import BusBench
from tests.support.fleet import lay_down, set_fields
from tests.support.handover import FENCE, HOST, NEVER, SESSION_ID, row_in, shard_in
from tests.support.segments import CYCLES_PER_MS as MS
from tests.support.segments import NOW

BENCH = BusBench(
    handover_again, handover_answer, handover_lay_down, handover_read, handover_settle,
    handover_waits, handover_written,
)  # fmt: skip
LAB = BENCH.lab
R, S = HandoverRequest, HandoverStep
FOUND = (
    b"NATS/1.0\r\nNats-Expected-Last-Subject-Sequence: 9\r\nNats-Stream: KV_shardfw\r\n"
    b"Nats-Subject: $KV.shardfw.b1.sess.7\r\nNats-Sequence: 10\r\nNats-Time-Stamp: x\r\n\r\n"
)
ABSENT = b"NATS/1.0 404 Message Not Found\r\n\r\n"
RECORD = b"1 2 16 77 5f2c8e0a9b ws://gw.test"
GRANT = b'{"stream":"KV_shardfw","seq":11}'
REFUSED = b'{"error":{"code":400,"err_code":10071},"stream":"KV_shardfw","seq":0}'
LATER = b'{"error":{"code":400,"err_code":10164},"stream":"KV_shardfw","seq":0}'


def hear(body, header=b"", status=0, inbox=5):
    lay_down(LAB, header=header, body=body)
    set_fields(LAB.g(BUS_IN), status=status, inbox=inbox)
    LAB.machine.write(LAB.g(BUS_IN).body + len(body), b"\r\n")
    LAB.call(handover_answer)


def asked(request, **fields):
    """A shard that has asked for something."""
    shard = shard_in(BENCH, **fields)
    row = row_in(BENCH, request=request, inbox=5, sent_at=NOW)
    set_fields(LAB.g(HANDOVER), under_way=1, look_at=NOW + 5)
    return shard, row


def settled(shard):
    return shard.load == SessionLoad.SETTLED and LAB.g(CORE).slots[1].deadline == 0


def test_a_session_is_laid_down_until_the_fence_is_granted():
    shard, row = asked(R.READ)
    hear(RECORD, FOUND)
    assert (row.step, row.revision, row.generation, row.sequence) == (S.FENCE, 10, 2, 77)
    assert (row.request, row.live, LAB.g(HANDOVER).under_way, LAB.g(HANDOVER).look_at) == (
        0,
        1,
        0,
        0,
    )
    session = shard.session
    assert (session.valid, shard.load, shard.flags) == (0, SessionLoad.OPEN, 0)
    assert bytes(session.session_id[: session.session_id_len]) == SESSION_ID
    assert bytes(session.resume_host[: session.resume_host_len]) == HOST
    assert session.resume_port == 80
    assert BENCH.lines() == []


@pytest.mark.parametrize("generation", [0, FENCE])
def test_a_session_of_any_generation_up_to_ours_is_taken(generation):
    _, row = asked(R.READ)
    hear(RECORD.replace(b" 2 ", b" %d " % generation, 1), FOUND)
    assert (row.step, row.generation) == (S.FENCE, generation)


def test_no_record_is_nothing_to_identify_by_until_the_store_has_confirmed_it():
    shard, row = asked(R.READ)
    row.revision = 4
    hear(b"", ABSENT, 404)
    assert (row.step, row.revision, row.live) == (S.FENCE, 0, 0)
    assert not settled(shard)
    assert BENCH.lines() == []


@pytest.mark.parametrize("rest", [b"0 - -", b"77 - ws://gw.test"])
def test_a_session_that_ended_has_to_be_confirmed_too(rest):
    shard, row = asked(R.READ)
    hear(b"1 2 16 " + rest, FOUND)
    assert (row.step, row.revision, row.live) == (S.FENCE, 10, 0)
    assert not settled(shard)
    assert BENCH.lines() == []


def test_a_session_of_which_nothing_came_yet_is_one():
    shard, row = asked(R.READ)
    hear(b"1 2 16 0 5f2c8e0a9b -", FOUND)
    assert (row.step, row.sequence, row.live) == (S.FENCE, 0, 1)
    assert (bytes(shard.session.session_id[: len(SESSION_ID)]), row.revision) == (SESSION_ID, 10)


@pytest.mark.parametrize("head", [(FOUND, 0), (ABSENT, 404)])
def test_a_fence_without_a_session_that_is_granted_lets_the_shard_identify(head):
    shard, row = asked(R.READ)
    hear(b"1 2 16 0 - -", *head)
    set_fields(row, request=R.FENCE, inbox=6, tries=3)
    LAB.g(HANDOVER).under_way = 1
    hear(GRANT, inbox=6)
    assert (row.step, row.revision, row.live, row.stale, row.tries) == (S.KEEP, 11, 0, 1, 0)
    assert settled(shard)
    assert (shard.session.valid, shard.flags, LAB.g(HANDOVER).taken) == (0, 0, 0)
    assert BENCH.lines() == []


def test_a_record_that_a_replica_did_not_have_yet_is_read_again():
    shard, row = asked(R.READ)
    hear(b"", ABSENT, 404)
    set_fields(row, request=R.FENCE, inbox=6)
    hear(REFUSED, inbox=6)
    assert (row.step, row.try_at) == (S.READ, NOW + 250 * MS)
    assert not settled(shard)
    set_fields(row, request=R.READ, inbox=7)
    hear(RECORD, FOUND, inbox=7)
    assert (row.step, row.revision, row.live, row.sequence) == (S.FENCE, 10, 1, 77)


@pytest.mark.parametrize(
    ("body", "problem", "generation"),
    [
        (b"", "malformed", 0),
        (b"1 2 16", "malformed", 0),
        (b"1 2 16 77 5f2c8e0a9b wss://gw.test", "malformed", 0),
        (b"1 2 15 77 5f2c8e0a9b ws://gw.test", "another_total", 2),
        (b"1 2 17 0 - -", "another_total", 2),
    ],
)
def test_what_is_of_no_use_is_told_of_and_can_be_replaced(body, problem, generation):
    shard, row = asked(R.READ)
    hear(body, FOUND)
    assert (row.step, row.revision, row.live) == (S.FENCE, 10, 0)
    assert not settled(shard)
    assert shard.session.valid == 0
    assert LAB.g(HANDOVER).ignored == 1
    assert BENCH.lines() == [
        f"fleet.sessionIgnored problem={problem} revision=10 generation={generation}"
    ]


@pytest.mark.parametrize("body", [b"1 4 16 77 5f2c8e0a9b ws://gw.test", b"1 4 15 0 - -"])
def test_a_later_generation_is_the_end_of_our_say(body):
    shard, row = asked(R.READ)
    hear(body, FOUND)
    assert (row.step, row.revision, shard.saved) == (S.OVER, 10, 1)
    assert (shard.load, LAB.g(CORE).slots[1].deadline) == (SessionLoad.OPEN, NEVER)
    assert LAB.g(HANDOVER).lost == 1
    assert BENCH.lines() == ["fleet.sessionLost generation=3 later=4"]


def test_a_later_generation_may_be_a_large_number():
    _, row = asked(R.READ)
    hear(b"1 4294967294 16 77 5f2c8e0a9b ws://gw.test", FOUND)
    assert (row.step, LAB.g(HANDOVER).lost) == (S.OVER, 1)


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (b"NATS/1.0 503\r\n\r\n", 503),
        (b"NATS/1.0 408 Bad Request\r\n\r\n", 408),
        (FOUND.replace(b"Nats-Sequence: 10", b"Nats-Sequence: 0"), 0),
        (FOUND.replace(b"Nats-Sequence: 10", b"Nats-Sequence: x"), 0),
        (FOUND.replace(b"\r\nNats-Sequence", b"\r\nMats-Sequence"), 0),
        (b"", 0),
    ],
)
def test_an_answer_without_a_revision_is_no_answer(header, status):
    shard, row = asked(R.READ)
    row.revision = 4
    hear(RECORD, header, status)
    assert (row.step, row.revision, row.tries, row.try_at) == (S.READ, 4, 1, NOW + 250 * MS)
    assert shard.load == SessionLoad.OPEN


@pytest.mark.parametrize(
    "fields",
    [{"load": SessionLoad.SETTLED}, {"state": ShardState.STARTING}, {"state": ShardState.READY}],
)
def test_a_shard_that_did_not_wait_learns_the_revision_alone(fields):
    shard, row = asked(R.READ, **fields)
    hear(RECORD, FOUND)
    assert (row.step, row.revision, row.live, row.stale) == (S.KEEP, 10, 1, 1)
    assert shard.session.session_id_len == 0
    assert LAB.g(CORE).slots[1].deadline == NEVER


def test_a_fence_that_is_granted_gives_the_shard_its_session():
    shard, row = asked(R.READ)
    hear(RECORD, FOUND)
    set_fields(row, request=R.FENCE, inbox=6, tries=3)
    LAB.g(HANDOVER).under_way = 1
    hear(GRANT, inbox=6)
    assert (row.step, row.revision, row.live, row.stale, row.tries) == (S.KEEP, 11, 1, 0, 0)
    assert row.save_at == NOW + 5_000 * MS
    assert (shard.session.valid, shard.sequence, shard.gap_from) == (1, 77, 77)
    assert shard.flags == ShardFlag.SEQ_VALID | ShardFlag.RESTORED
    assert settled(shard)
    assert LAB.g(HANDOVER).taken == 1
    assert BENCH.lines() == ["fleet.sessionTaken sequence=77 generation=2 revision=11"]


@pytest.mark.parametrize("request_", [R.FENCE, R.SAVE])
@pytest.mark.parametrize(("body", "status"), [(REFUSED, 0), (LATER, 0), (b"", 503), (b"{}", 0)])
def test_a_write_that_is_not_granted_means_to_read_again(request_, body, status):
    shard, row = asked(request_)
    set_fields(row, step=S.KEEP if request_ == R.SAVE else S.FENCE, revision=10, live=1)
    hear(body, status=status)
    assert (row.step, row.revision, row.tries, row.try_at) == (S.READ, 10, 1, NOW + 250 * MS)
    assert (shard.session.valid, shard.load, LAB.g(HANDOVER).refused) == (0, SessionLoad.OPEN, 1)


def test_a_fence_that_is_granted_too_late_leaves_a_record_to_replace():
    shard, row = asked(R.FENCE, load=SessionLoad.SETTLED, state=ShardState.STARTING)
    set_fields(row, step=S.FENCE, revision=10, live=1)
    hear(GRANT)
    assert (row.step, row.revision, row.live, row.stale) == (S.KEEP, 11, 1, 1)
    assert (shard.session.valid, shard.flags) == (0, 0)


@pytest.mark.parametrize(("live", "stale"), [(1, 0), (0, 1)])
def test_a_save_that_is_granted_is_what_the_record_says(live, stale):
    _, row = asked(R.SAVE, state=ShardState.READY)
    set_fields(row, step=S.KEEP, revision=10, live=live, stale=1 - stale, tries=2)
    hear(GRANT)
    assert (row.step, row.revision, row.live, row.stale, row.tries) == (S.KEEP, 11, live, stale, 0)
    assert (row.save_at, LAB.g(HANDOVER).saves) == (NOW + 5_000 * MS, 1)


def test_an_answer_to_nobody_is_dropped():
    _, row = asked(R.READ)
    hear(RECORD, FOUND, inbox=6)
    assert (row.request, row.revision, LAB.g(HANDOVER).under_way) == (R.READ, 0, 1)
    row.request = R.NONE
    hear(RECORD, FOUND)
    assert (row.revision, LAB.g(HANDOVER).under_way) == (0, 1)


@pytest.mark.parametrize("gone", ["stopped", "freed"])
def test_an_answer_for_a_shard_without_a_lease_changes_nothing(gone):
    shard, row = asked(R.READ)
    if gone == "stopped":
        shard.hard_stop = NOW
    else:
        LAB.g(CORE).slots[1].flags = 0
    hear(RECORD, FOUND)
    assert (row.request, row.revision, row.step, LAB.g(HANDOVER).under_way) == (0, 0, S.READ, 0)
    assert (shard.load, shard.session.session_id_len) == (SessionLoad.OPEN, 0)


@given(
    st.sampled_from([R.READ, R.FENCE, R.SAVE]),
    st.sampled_from([b"1", b"2", b"3", b"4", b"x"]),
    st.sampled_from([b"16", b"15"]),
    st.sampled_from([b"77 5f2c8e0a9b ws://gw.test", b"77 a -", b"0 - -", b"77 - ws://gw"]),
    st.sampled_from([(FOUND, 0), (ABSENT, 404), (b"", 0)]),
    st.sampled_from(SessionLoad),
    st.sampled_from([GRANT, REFUSED, None]),
)
def test_any_answer_is_taken_as_the_model_says(
    request, generation, total, rest, head, load, written
):
    asked(request, load=load)
    body = b"1 %b %b %b" % (generation, total, rest)
    hear(body if written is None else written, *head)
