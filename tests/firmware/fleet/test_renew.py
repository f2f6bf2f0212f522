"""Renewals, releases, and what happens when nothing answers."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.environment import Environment
from firmware.fleet.renew import (
    held_release,
    held_renew,
    held_tick,
    held_tick_all,
    server_is_deaf,
)
from firmware.layouts.bus import LinkState
from firmware.layouts.clock import NEVER
from firmware.layouts.fleet import FLEET, HELD_MAX, HeldPhase, HeldSlot
from firmware.layouts.fleet_config import FLEET_CONFIG
from firmware.layouts.fleet_sites import FLEET_UNANSWERED
from firmware.layouts.node import CORE
from tests.support.bus import BusBench
from tests.support.fleet import BOT, set_fields
from tests.support.segments import CYCLES_PER_MS as MS
from tests.support.segments import NOW
from tests.support.states import around

BENCH = BusBench(held_release, held_renew, held_tick, held_tick_all, server_is_deaf)
LAB = BENCH.lab
OWNED = (HeldPhase.HELD, HeldPhase.RUNNING, HeldPhase.STOPPING)


@pytest.fixture(autouse=True)
def node():
    prepare()


def prepare():
    BENCH.reset()
    BENCH.up()
    config = LAB.g(FLEET_CONFIG)
    config.cap, config.bot_len = 1, len(BOT)
    config.bot[: len(BOT)] = BOT
    LAB.g(FLEET).begun_at = NOW


def hold(place=0, **fields):
    held = LAB.g(FLEET).held[place]
    given = {
        "phase": HeldPhase.RUNNING, "slot": 2, "generation": 3, "revision": 77, "last_op": 5,
        "granted_op": 5, "renew_at": NOW + 9, "retry_at": NOW + 9, "hard_stop": NOW + 10_000 * MS,
        "duration_ms": 20_000, "epoch": 3, "start": 8, "count": 4, "total": 16, "shards": 4,
        "sent_at": NOW - 5_000 * MS, "released_at": NOW,
    }  # fmt: skip
    set_fields(held, **{**given, **fields})
    return held


def call(routine, held, tsc=NOW + 7):
    return LAB.call(routine, Environment(tsc=lambda: tsc), held=held.address_).outputs["rax"]


@pytest.mark.parametrize(("renew", "retry"), [(1, 0), (0, 1), (1, -1), (-1, 1)])
def test_held_renew_waits_for_both_times(renew, retry):
    held = hold(renew_at=NOW + renew, retry_at=NOW + retry)
    assert call(held_renew, held) == NOW + 1
    assert BENCH.queued() == b""


def test_held_renew_expects_its_own_last_record():
    LAB.g(FLEET).op = 5
    held = hold(renew_at=NOW, retry_at=NOW - 1)
    due = call(held_renew, held)
    assert BENCH.queued().endswith(
        b"Nats-Expected-Last-Subject-Sequence: 77\r\n\r\n1 held n7 3fa2c1d0 3 6 20000 3 8 4 16\r\n"
    )
    assert due == held.retry_at >= NOW + 600 * MS
    assert (held.last_op, held.granted_op) == (6, 5)


def test_held_renew_without_a_connection_looks_again_soon():
    BENCH.link.state = LinkState.DOWN
    held = hold(renew_at=NOW, retry_at=NOW)
    assert call(held_renew, held) == NOW + 100 * MS


@pytest.mark.parametrize(
    ("renew", "retry", "sent"), [(1, -1, False), (-1, 1, False), (-1, -1, True)]
)
def test_held_renew_compares_times_without_a_sign(renew, retry, sent):
    LAB.g(CORE).now = 2**63
    held = hold(renew_at=2**63 + renew, retry_at=2**63 + retry)
    due = call(held_renew, held, tsc=2**63)
    assert due == (held.retry_at if sent else 2**63 + 1) > 2**63
    assert (b"1 held" in BENCH.queued()) is sent


def test_held_release_gives_the_record_back_with_its_generation():
    LAB.g(FLEET).op = 8
    held = hold(phase=HeldPhase.STOPPING, shards=0)
    assert call(held_release, held) == NOW + 2_000 * MS
    assert BENCH.queued().endswith(
        b"Nats-Expected-Last-Subject-Sequence: 77\r\n\r\n1 free - - 3 9 0 3 8 4 16\r\n"
    )
    assert (held.phase, held.release_inbox, held.released_at) == (HeldPhase.RELEASING, 1, NOW)


@pytest.mark.parametrize(("age_ms", "sent"), [(999, False), (1_000, True)])
def test_held_release_lets_a_renewal_that_is_on_its_way_come_first(age_ms, sent):
    held = hold(phase=HeldPhase.STOPPING, shards=0, last_op=6, sent_at=NOW - age_ms * MS)
    call(held_release, held)
    assert (held.phase == HeldPhase.RELEASING) is sent


@pytest.mark.parametrize(("granted", "sent"), [(0, True), (-1, False)])
@pytest.mark.parametrize("last", [6, 2**31])
def test_held_release_compares_operations_and_times_without_a_sign(last, granted, sent):
    LAB.g(CORE).now = 2**63 - 1
    held = hold(
        phase=HeldPhase.STOPPING, shards=0, last_op=last, granted_op=last + granted,
        sent_at=2**63 - 1_000 * MS,
    )  # fmt: skip
    due = call(held_release, held)
    assert due == (2**63 - 1 + 2_000 * MS if sent else 2**63)
    assert (held.phase == HeldPhase.RELEASING) is sent


def test_held_release_without_a_connection_is_tried_again_while_the_lease_holds():
    BENCH.link.state = LinkState.DOWN
    held = hold(phase=HeldPhase.STOPPING, shards=0, hard_stop=NOW + 50 * MS)
    assert call(held_release, held) == NOW + 100 * MS
    assert held.phase == HeldPhase.STOPPING
    assert call(held_tick, held) == NOW + 50 * MS


@pytest.mark.parametrize(("late", "phase"), [(-1, HeldPhase.CLAIMING), (0, HeldPhase.NONE)])
def test_held_tick_forgets_a_claim_that_nobody_answered(late, phase):
    held = hold(phase=HeldPhase.CLAIMING, sent_at=NOW - 2_000 * MS - late)
    assert call(held_tick, held) == (NOW + 1 if late else NEVER)
    assert held.phase == phase


@pytest.mark.parametrize(("begun_ms", "late", "move"), [(3_000, 1, 1), (3_000, 0, 0), (0, 0, 0)])
def test_held_tick_a_claim_that_nobody_answered_wants_another_server(begun_ms, late, move):
    """But not from a connection that is young: an election must not send a node round."""
    LAB.g(FLEET).begun_at = NOW - begun_ms * MS - late
    call(held_tick, hold(phase=HeldPhase.CLAIMING, sent_at=NOW - 2_000 * MS))
    assert LAB.g(FLEET).move == move


@pytest.mark.parametrize(("begun", "move"), [(-1, 1), (0, 0), (1, 0)])
def test_held_tick_compares_the_age_of_the_connection_without_a_sign(begun, move):
    LAB.g(CORE).now = 2**63
    LAB.g(FLEET).begun_at = 2**63 - 3_000 * MS + begun
    call(held_tick, hold(phase=HeldPhase.CLAIMING, sent_at=2**63 - 2_000 * MS))
    assert LAB.g(FLEET).move == move


def test_held_tick_all_of_a_node_that_holds_nothing_leaves_a_server_that_grants_no_claim():
    LAB.g(FLEET).begun_at = NOW - 3_001 * MS
    hold(phase=HeldPhase.CLAIMING, sent_at=NOW - 2_000 * MS)
    LAB.call(held_tick_all, Environment(tsc=lambda: NOW))
    assert (BENCH.link.state, BENCH.link.error) == (LinkState.DOWN, FLEET_UNANSWERED.code)


def test_held_tick_all_of_a_node_that_holds_nothing_and_has_tried_every_server_stays():
    set_fields(LAB.g(FLEET), move=1, move_at=NOW)
    LAB.call(held_tick_all, Environment(tsc=lambda: NOW))
    assert (BENCH.link.state, LAB.g(FLEET).move) == (LinkState.UP, 0)


@pytest.mark.parametrize(("late", "phase"), [(-1, HeldPhase.RELEASING), (0, HeldPhase.NONE)])
def test_held_tick_does_not_release_twice(late, phase):
    held = hold(phase=HeldPhase.RELEASING, released_at=NOW - 2_000 * MS - late)
    call(held_tick, held)
    assert (held.phase, BENCH.queued()) == (phase, b"")


@pytest.mark.parametrize(("now", "over"), [(2**63 - 1, False), (2**63, True)])
@pytest.mark.parametrize("phase", [HeldPhase.CLAIMING, HeldPhase.RELEASING])
def test_held_tick_compares_the_time_of_an_answer_without_a_sign(phase, now, over):
    LAB.g(CORE).now = now
    at = 2**63 - 2_000 * MS
    held = hold(phase=phase, sent_at=at, released_at=at)
    assert call(held_tick, held) == (NEVER if over else 2**63)
    assert held.phase == (HeldPhase.NONE if over else phase)


@pytest.mark.parametrize(("renew_at", "stop"), [(2**63 + 9, 2**63 - 1), (2**63 - 1, 2**63 + 9)])
def test_held_tick_compares_the_hard_stop_without_a_sign(renew_at, stop):
    held = hold(renew_at=renew_at, retry_at=0, hard_stop=stop)
    assert call(held_tick, held) == 2**63 - 1


@pytest.mark.parametrize(("shards", "phase"), [(1, HeldPhase.GONE), (0, HeldPhase.NONE)])
def test_held_tick_keeps_what_is_gone_until_its_shards_are(shards, phase):
    held = hold(phase=HeldPhase.GONE, shards=shards)
    assert call(held_tick, held) == NEVER
    assert held.phase == phase


@pytest.mark.parametrize("phase", OWNED)
def test_held_tick_renews_while_a_shard_is_left_and_meets_the_hard_stop(phase):
    held = hold(phase=phase, renew_at=NOW, retry_at=NOW, hard_stop=NOW + 10)
    assert call(held_tick, held) == NOW + 10
    assert b"1 held" in BENCH.queued()
    assert held.phase == phase


@settings(max_examples=80, deadline=None)
@given(
    phase=st.sampled_from(HeldPhase),
    times=st.lists(around(NOW, NOW - 2_000 * MS, NOW - 1_000 * MS), min_size=5, max_size=5),
    last=st.integers(4, 6),
    shards=st.integers(0, 1),
    up=st.booleans(),
    begun=around(NOW - 3_000 * MS),
)
def test_held_tick_any_entry_matches_the_model(phase, times, last, shards, up, begun):
    prepare()
    LAB.g(FLEET).begun_at = begun
    if not up:
        BENCH.link.state = LinkState.HELLO
    names = ("renew_at", "retry_at", "hard_stop", "sent_at", "released_at")
    held = hold(phase=phase, last_op=last, shards=shards, **dict(zip(names, times, strict=True)))
    call(held_tick, held)


def deaf():
    return LAB.call(server_is_deaf).outputs["cf"]


@pytest.mark.parametrize("phase", HeldPhase)
@pytest.mark.parametrize(
    ("overdue", "begun", "wanted"), [(3_001, 3_001, 1), (3_000, 3_001, 0), (3_001, 3_000, 0)]
)
def test_server_is_deaf_when_a_renewal_stays_ungranted_on_an_old_connection(
    phase, overdue, begun, wanted
):
    hold(HELD_MAX - 1, phase=phase, renew_at=NOW - overdue * MS)
    LAB.g(FLEET).begun_at = NOW - begun * MS
    assert deaf() == (wanted if phase in OWNED else 0)


def test_server_is_deaf_just_after_the_boot_is_no_question():
    LAB.g(CORE).now = 5
    hold(renew_at=9)
    LAB.g(FLEET).begun_at = 1
    assert deaf() == 0


@pytest.mark.parametrize(
    ("renew", "begun", "wanted"), [(-1, -1, 1), (0, -1, 0), (-1, 0, 0), (1, -1, 0), (-1, 1, 0)]
)
def test_server_is_deaf_compares_times_without_a_sign(renew, begun, wanted):
    LAB.g(CORE).now, first = 2**63, 2**63 - 3_000 * MS
    hold(renew_at=first + renew)
    LAB.g(FLEET).begun_at = first + begun
    assert deaf() == wanted


def test_server_is_deaf_looks_at_no_more_entries_than_there_are():
    """What lies behind the last looks like one that waits."""
    held = hold(HELD_MAX - 1, renew_at=NOW - 4_000 * MS)
    LAB.g(FLEET).begun_at = NOW - 4_000 * MS
    behind = held.address_ + HeldSlot.SIZE
    LAB.machine.write(behind, LAB.machine.read(held.address_, HeldSlot.SIZE))
    held.phase = HeldPhase.NONE
    assert deaf() == 0


def test_server_is_deaf_when_it_makes_no_watch():
    LAB.g(FLEET).move = 1
    assert [deaf(), deaf()] == [1, 0]


def test_held_tick_all_of_a_node_that_holds_nothing_keeps_its_server():
    assert LAB.call(held_tick_all, Environment(tsc=lambda: NOW)).outputs["rax"] == NEVER
    assert (BENCH.link.state, BENCH.link.failures) == (LinkState.UP, 0)


def test_held_tick_all_leaves_a_server_that_is_deaf():
    hold(0, renew_at=NOW + 3, retry_at=NOW)
    hold(HELD_MAX - 1, renew_at=NOW + 2, retry_at=NOW)
    LAB.g(FLEET).move = 1
    found = LAB.call(held_tick_all, Environment(tsc=lambda: NOW)).outputs
    assert found["rax"] == NOW + 2
    assert (BENCH.link.state, BENCH.link.error) == (LinkState.DOWN, FLEET_UNANSWERED.code)
    LAB.g(FLEET).move = 1
    LAB.call(held_tick_all, Environment(tsc=lambda: NOW))
    assert BENCH.link.failures == 1
