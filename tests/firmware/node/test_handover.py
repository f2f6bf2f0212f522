"""When a session is asked for, fenced and saved, byte for byte on the control link."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmware.layouts.bus import LinkState
from firmware.layouts.clock import NEVER
from firmware.layouts.config import CONFIG
from firmware.layouts.fleet_config import FLEET_CONFIG
from firmware.layouts.gateway import GatewayState
from firmware.layouts.handover import HANDOVER, HandoverRequest, HandoverRow, HandoverStep
from firmware.layouts.node import CORE, LEASE
from firmware.layouts.plan import Leaving
from firmware.layouts.policy import SessionProvider
from firmware.layouts.shard import Hold, SessionLoad, ShardFlag, ShardState
from firmware.layouts.tcp import TcpState
from firmware.node.handover import handover_begin, handover_shard, handover_tick, handover_want
from tests.support.bus import BusBench
from tests.support.fleet import set_fields
from tests.support.handover import KEY, give_session, row_in, shard_in
from tests.support.segments import CYCLES_PER_MS as MS
from tests.support.segments import NOW

BENCH = BusBench(handover_begin, handover_shard, handover_tick, handover_want)
LAB = BENCH.lab
R, S, G = HandoverRequest, HandoverStep, GatewayState
ASK = b"PUB $JS.API.DIRECT.GET.KV_shardfw." + KEY + b" _I.n7.3fa2c1d0.c.1 0\r\n\r\n"


def written(revision, value, number=1):
    header = b"NATS/1.0\r\nNats-Expected-Last-Subject-Sequence: %d\r\n\r\n" % revision
    sizes = (KEY, number, len(header), len(header) + len(value))
    line = b"HPUB %b _I.n7.3fa2c1d0.c.%d %d %d\r\n" % sizes
    return line + header + value + b"\r\n"


SESSION = b"1 3 16 %d 5f2c8e0a9b ws://gw.test"
ENDED = b"1 3 16 0 - -"


def tick(now=NOW):
    LAB.g(CORE).now = now
    return LAB.call(handover_tick).outputs["rax"]


def keeping(sequence=77, **row):
    """A shard with a session of which the record knows, connected, at that sequence."""
    shard = shard_in(BENCH, load=SessionLoad.SETTLED, state=ShardState.READY, connected_at=NOW - 9)
    give_session(shard, sequence)
    set_fields(shard.gateway, state=G.READY, seq_acked=sequence)
    known = {"step": S.KEEP, "revision": 10, "live": 1, "sequence": 77, "connected": NOW - 9}
    return shard, row_in(BENCH, **(known | {"save_at": NOW + 5_000 * MS} | row))


def test_a_shard_that_begins_asks_for_its_record():
    shard_in(BENCH)
    row = row_in(BENCH)
    assert tick() == NOW + 50 * MS
    assert BENCH.queued() == ASK
    assert (row.request, row.inbox, row.sent_at, LAB.g(HANDOVER).under_way) == (R.READ, 1, NOW, 1)
    tick(NOW + 50 * MS)
    assert BENCH.queued() == ASK


def test_a_session_that_was_read_is_fenced_with_our_generation():
    shard = shard_in(BENCH)
    give_session(shard, 0)
    shard.session.valid = shard.flags = 0
    row = row_in(BENCH, step=S.FENCE, revision=10, sequence=77, live=1)
    tick()
    assert BENCH.queued() == written(10, SESSION % 77)
    assert (row.request, row.inbox) == (R.FENCE, 1)


@pytest.mark.parametrize("revision", [0, 10])
def test_that_there_is_no_session_is_fenced_too(revision):
    shard_in(BENCH)
    row = row_in(BENCH, step=S.FENCE, revision=revision, live=0)
    tick()
    assert BENCH.queued() == written(revision, ENDED)
    assert (row.request, row.inbox, row.step) == (R.FENCE, 1, S.FENCE)


def test_a_shard_that_started_without_its_session_says_that_it_ended():
    shard_in(BENCH, load=SessionLoad.SETTLED, state=ShardState.STARTING)
    row = row_in(BENCH, step=S.FENCE, revision=10, sequence=77, live=1)
    tick()
    assert BENCH.queued() == written(10, ENDED)
    assert (row.step, row.request, row.live) == (S.KEEP, R.SAVE, 0)


def test_a_session_that_has_not_moved_is_not_written():
    shard, row = keeping()
    assert tick(NOW + 10_000 * MS) == NOW + 10_050 * MS
    assert (BENCH.queued(), row.request, shard.saved) == (b"", R.NONE, 0)


@pytest.mark.parametrize(("at_ms", "saves"), [(4_999, False), (5_000, True)])
def test_a_sequence_that_moved_is_written_every_five_seconds(at_ms, saves):
    shard, row = keeping()
    shard.gateway.seq_acked = 78
    tick(NOW + at_ms * MS)
    assert BENCH.queued() == (written(10, SESSION % 78) if saves else b"")
    assert (row.request, row.sequence) == ((R.SAVE, 78) if saves else (R.NONE, 77))


def test_what_the_stream_has_not_acknowledged_is_not_saved():
    shard, _ = keeping()
    shard.sequence = 99
    tick(NOW + 5_000 * MS)
    assert BENCH.queued() == b""


@pytest.mark.parametrize(
    ("state", "sequence"),
    [
        (G.IDLE, 99),
        (G.WAIT_HELLO, 99),
        (G.WAIT_READY, 99),
        (G.WAIT_RESUMED, 78),
        (G.READY, 78),
        (G.ANSWER, 99),
    ],
)
def test_which_sequence_counts_depends_on_the_connection(state, sequence):
    shard, _ = keeping()
    shard.sequence, shard.gateway.seq_acked, shard.gateway.state = 99, 78, state
    tick(NOW + 5_000 * MS)
    assert BENCH.queued() == written(10, SESSION % sequence)


@pytest.mark.parametrize("step", [{"connected": NOW - 10}, {"connected": 0}, {"stale": 1}])
def test_a_new_connection_and_an_uncertain_record_are_written_at_once(step):
    _, row = keeping(**step)
    tick()
    assert BENCH.queued() == written(10, SESSION % 77)
    assert (row.connected, row.live) == (NOW - 9, 1)


@pytest.mark.parametrize("gone", ["valid", "sequence"])
def test_a_session_that_ended_is_taken_back_once(gone):
    shard, row = keeping()
    if gone == "valid":
        shard.session.valid = 0
    else:
        shard.flags = 0
    tick()
    assert BENCH.queued() == written(10, ENDED)
    assert (row.live, row.sequence) == (0, 0)
    set_fields(row, request=R.NONE, stale=1)
    tick(NOW + 60_000 * MS)
    assert BENCH.queued() == written(10, ENDED)


def left(**fields):
    """A shard that left: released, its session still its own."""
    shard, row = keeping()
    released = {"state": ShardState.ASSIGNED, "hold": Hold.PLAN_CHANGED, "connected_at": 0}
    set_fields(shard, **(released | {"leaving": Leaving.KEEPING} | fields))
    shard.gateway.state = G.IDLE
    return shard, row


def test_a_shard_that_left_unchanged_is_saved():
    shard, row = left()
    tick()
    assert (BENCH.queued(), shard.saved, row.request) == (b"", 1, R.NONE)
    tick(NOW + 1000 * MS)
    assert BENCH.lines() == ["lifecycle.sessionSaved sequence=77"]


def test_a_shard_that_left_writes_its_last_sequence_and_waits_for_the_answer():
    shard, row = left(sequence=80)
    tick()
    assert (BENCH.queued(), shard.saved) == (written(10, SESSION % 80), 0)
    set_fields(row, request=R.NONE, revision=11)
    tick(NOW + 50 * MS)
    assert (BENCH.queued(), shard.saved) == (written(10, SESSION % 80), 1)


@pytest.mark.parametrize(
    "fields", [{"close_deadline": 1}, {"state": ShardState.BACKOFF}, {"leaving": Leaving.ENDING}]
)
def test_a_shard_that_is_not_released_is_not_saved_for_good(fields):
    shard, _ = left(**fields)
    tick()
    assert (BENCH.queued(), shard.saved) == (b"", 0)


def test_the_last_word_needs_a_lease():
    shard, _ = left(sequence=80)
    shard.hard_stop = NOW
    tick()
    assert (BENCH.queued(), shard.saved) == (b"", 0)
    shard.hard_stop, LAB.g(LEASE).expired, shard.tcp.state = NOW + 1, 1, TcpState.CLOSED
    tick(NOW)
    assert shard.saved == 0


@pytest.mark.parametrize("step", [S.READ, S.FENCE, S.KEEP])
@pytest.mark.parametrize("request_", [R.READ, R.FENCE, R.SAVE])
def test_a_request_that_nobody_answers_is_given_up_after_two_seconds(step, request_):
    shard_in(BENCH)
    row = row_in(BENCH, step=step, request=request_, inbox=5, sent_at=NOW, revision=10)
    LAB.g(HANDOVER).under_way = 1
    tick(NOW + 2_000 * MS - 1)
    assert (row.request, row.step, BENCH.queued()) == (request_, step, b"")
    LAB.g(HANDOVER).look_at = 0
    tick(NOW + 2_000 * MS)
    assert (row.request, row.step, row.tries, BENCH.queued()) == (R.READ, S.READ, 1, ASK)
    assert (LAB.g(HANDOVER).under_way, LAB.g(HANDOVER).late) == (1, 1)


@pytest.mark.parametrize(
    ("fields", "under_way", "asks"),
    [
        ({}, 15, True),
        ({}, 16, False),
        ({"try_at": NOW}, 0, True),
        ({"try_at": NOW + 1}, 0, False),
        ({"step": S.OVER}, 0, False),
    ],
)
def test_requests_are_paced_and_end(fields, under_way, asks):
    shard_in(BENCH)
    row_in(BENCH, **fields)
    LAB.g(HANDOVER).under_way = under_way
    tick()
    assert BENCH.queued() == (ASK if asks else b"")
    assert LAB.g(HANDOVER).under_way == under_way + asks


@pytest.mark.parametrize("step", [S.READ, S.FENCE, S.KEEP])
def test_without_a_link_nothing_changes(step):
    _, row = keeping(stale=1)
    row.step = step
    BENCH.link.state = LinkState.DOWN
    tick()
    assert (BENCH.queued(), row.request, LAB.g(HANDOVER).under_way) == (b"", R.NONE, 0)
    assert (row.live, row.stale) == (1, 1)


def test_without_a_link_no_fence_is_asked_for():
    shard = shard_in(BENCH)
    give_session(shard, 0)
    shard.session.valid = shard.flags = 0
    row = row_in(BENCH, step=S.FENCE, revision=10, sequence=77, live=1)
    BENCH.link.state = LinkState.DOWN
    tick()
    assert (row.request, row.step, LAB.g(HANDOVER).under_way) == (R.NONE, S.FENCE, 0)


@pytest.mark.parametrize("gone", ["stopped", "freed", "unleased"])
def test_a_shard_without_a_lease_asks_for_nothing_and_waits_for_nothing(gone):
    shard = shard_in(BENCH)
    row = row_in(BENCH, request=R.SAVE, sent_at=NOW)
    LAB.g(HANDOVER).under_way = 1
    if gone == "freed":
        LAB.g(CORE).slots[1].flags = 0
    else:
        shard.hard_stop = NOW if gone == "stopped" else 0
    tick()
    assert (BENCH.queued(), row.request, LAB.g(HANDOVER).under_way) == (b"", R.NONE, 0)


def test_rows_are_looked_at_twenty_times_a_second():
    shard_in(BENCH)
    LAB.g(HANDOVER).look_at = NOW + 1
    assert tick() == NOW + 1
    assert BENCH.queued() == b""
    assert tick(NOW + 1) == NOW + 1 + 50 * MS
    assert BENCH.queued() == ASK


@pytest.mark.parametrize("provider", [SessionProvider.NONE, SessionProvider.HOST])
def test_another_provider_is_another_matter(provider):
    shard_in(BENCH)
    LAB.g(CONFIG).session_provider = provider
    assert tick() == NEVER
    LAB.g(CONFIG).session_provider, LAB.g(FLEET_CONFIG).magic = SessionProvider.BUS, 0
    assert tick() == NEVER
    assert BENCH.queued() == b""


@pytest.mark.parametrize("request_", R)
def test_a_new_shard_knows_nothing(request_):
    shard = shard_in(BENCH)
    row = row_in(BENCH, revision=9, request=request_, step=S.OVER, live=1, stale=1, inbox=5)
    set_fields(LAB.g(HANDOVER), under_way=3, look_at=NOW + 9)
    LAB.call(handover_begin, shard=shard.address_)
    assert LAB.machine.read(row.address_, HandoverRow.SIZE) == bytes(HandoverRow.SIZE)
    state = LAB.g(HANDOVER)
    assert (state.under_way, state.look_at) == (3 - (request_ != R.NONE), 0)


@given(
    st.booleans(), st.booleans(), st.booleans(), st.integers(76, 78), st.booleans(),
    st.sampled_from([0, NOW - 9, NOW - 8]), st.booleans(), st.sampled_from([0, 1]),
)  # fmt: skip
def test_any_wish_is_as_the_model_says(live, stale, valid, sequence, due, connected, left_, saved):
    shard, row = left() if left_ else keeping()
    set_fields(row, live=live, stale=stale, save_at=NOW if due else NOW + 1)
    set_fields(shard, connected_at=connected, sequence=sequence, saved=saved)
    shard.flags = ShardFlag.SEQ_VALID if valid else 0
    LAB.call(handover_want, shard=shard.address_, row=row.address_)
