"""Saved sessions over the control channel: offers, takes, and the stop that waits for them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmware.layouts.config import CONFIG
from firmware.layouts.control import ControlRequest, ControlResult
from firmware.layouts.log import LOG, LOG_RING
from firmware.layouts.node import CLOCK, CORE, LEASE, PLAN
from firmware.layouts.plan import Leaving
from firmware.layouts.policy import SessionProvider
from firmware.layouts.sessions import (
    ANY_SHARD,
    HANDED_OVER,
    SESSIONS,
    SaveState,
    SessionProblem,
    SessionSnapshot,
)
from firmware.layouts.shard import (
    SSES_VALID,
    Hold,
    SessionLoad,
    ShardContext,
    ShardFlag,
    ShardState,
)
from firmware.layouts.tcp import TcpState
from firmware.node.sessions import (
    control_session_offer,
    control_session_take,
    session_due,
    stop_save,
)
from tests.support.lab import Lab
from tests.support.states import MS, NOW
from toolchain.layout.pack import pack, unpack

LAB = Lab(control_session_offer, control_session_take, stop_save, session_due, slots=3)
S, R, D = ShardState, ControlResult, SaveState
NEVER = 2**64 - 1
FIRST, TOTAL = 8, 16


def prepare(provider=SessionProvider.HOST, count=3):
    """Shards 8 to 10, stopped with a session each."""
    LAB.reset()
    LAB.g(CLOCK).tsc_cycles_per_ms, LAB.g(CORE).now = MS, NOW
    LAB.g(CONFIG).session_provider = provider
    core, made = LAB.g(CORE), []
    core.slots_used = count
    for n in range(count):
        shard = LAB.view(ShardContext, LAB.shard(n))
        core.slots[n].context, core.slots[n].flags = shard.address_, 1
        core.slots[n].deadline = NEVER
        shard.shard_id, shard.shard_total = FIRST + n, TOTAL
        shard.state, shard.hold = S.ASSIGNED, Hold.STOPPED
        shard.flags, shard.sequence = ShardFlag.SEQ_VALID, 70 + n
        shard.session_ptr = shard.session.address_
        shard.session.valid, shard.session.session_id_len = SSES_VALID, 4
        shard.session.session_id[0:4] = b"abc%d" % n
        made.append(shard)
    return made


def lines():
    raw = LAB.machine.read(LAB.image.address(LOG_RING), LAB.g(LOG).head)
    return [line.split("level=")[1] for line in raw.decode().splitlines()]


def ask(routine, shard, payload=b"", *, age=0, room=SessionSnapshot.SIZE):
    head = {"slot": shard, "argument": age % 2**64, "length": len(payload)}
    request = LAB.put(pack(ControlRequest, head) + payload)
    answer = LAB.machine.alloc(SessionSnapshot.SIZE)
    got = LAB.call(routine, request=request, length=len(payload), answer=answer, room=room)
    out = got.outputs
    return out["eax"], out["rdx"], LAB.machine.read(answer, out["ecx"])


def offer(shard, payload=b"", age=0):
    return ask(control_session_offer, shard, payload, age=age)[:2]


def take(shard, **more):
    return ask(control_session_take, shard, **more)


def snapshot():
    """A snapshot of shard 9 as a stop hands it over; then the shard is as after a boot."""
    result, _, payload = take(9)
    assert result == R.DONE
    shard = LAB.view(ShardContext, LAB.g(CORE).slots[1].context)
    shard.flags, shard.sequence, shard.hold, shard.saved = 0, 0, Hold.NEW, 0
    shard.session.valid = 0
    return payload


class TestOffer:
    def test_a_shard_that_waits_takes_it_over_and_starts(self):
        _, shard, _ = prepare()
        payload = snapshot()
        assert offer(9, payload, 7_000) == (R.DONE, 0)
        assert (shard.session.valid, shard.sequence, shard.load) == (1, 71, SessionLoad.SETTLED)
        assert [LAB.g(CORE).slots[n].deadline for n in range(3)] == [NEVER, 0, NEVER]
        assert lines()[-1] == "info shard=9 code=lifecycle.sessionRestored ageMs=7000 sequence=71"
        assert offer(9, payload) == (R.SESSION_UNWANTED, 0)

    @pytest.mark.parametrize(
        ("change", "age", "problem", "sequence"),
        [
            (lambda p: p, 60_000, SessionProblem.TOO_OLD, 71),
            (lambda p: p, -5_001, SessionProblem.SAVED_IN_THE_FUTURE, 71),
            (lambda p: p[:-1], 0, SessionProblem.MALFORMED, 0),
            (lambda p: p + b"x", 0, SessionProblem.MALFORMED, 0),
            (lambda p: bytes(4) + p[4:], 0, SessionProblem.MALFORMED, 71),
        ],
    )
    def test_a_bad_one_is_as_good_as_none_and_said_aloud(self, change, age, problem, sequence):
        _, shard, _ = prepare()
        assert offer(9, change(snapshot()), age) == (R.DONE, problem)
        assert (shard.session.valid, shard.flags, shard.load) == (0, 0, SessionLoad.SETTLED)
        name = problem.name.lower()
        assert lines()[-1] == (
            f"warn shard=9 code=lifecycle.sessionSnapshotIgnored problem={name} sequence={sequence}"
        )

    def test_nothing_saved_for_one_shard_lets_it_start(self):
        shards = prepare()
        assert offer(10) == (R.DONE, 0)
        assert [shard.load for shard in shards] == [0, 0, 1]
        assert lines() == []

    def test_nothing_saved_at_all_lets_all_start(self):
        shards = prepare()
        shards[0].state = S.READY
        LAB.g(CORE).slots[2].flags = 0
        assert offer(ANY_SHARD) == (R.DONE, 0)
        assert [shard.load for shard in shards] == [0, 1, 0]
        assert [LAB.g(CORE).slots[n].deadline for n in range(3)] == [0, 0, 0]

    def test_a_snapshot_for_any_shard_is_for_none(self):
        prepare()
        assert offer(ANY_SHARD, snapshot()) == (R.ARGUMENT, 0)

    def test_a_shard_of_another_node_is_refused(self):
        prepare()
        assert offer(11) == (R.ARGUMENT, 0)

    @pytest.mark.parametrize("state", [S.STARTING, S.READY, S.BACKOFF, S.FATAL])
    def test_a_shard_that_started_wants_none(self, state):
        shards = prepare()
        shards[1].state = state
        assert offer(9) == (R.SESSION_UNWANTED, 0)

    @pytest.mark.parametrize("provider", [SessionProvider.NONE, SessionProvider.BUS])
    def test_without_a_host_none_is_wanted(self, provider):
        prepare(provider)
        assert offer(9) == offer(ANY_SHARD) == (R.SESSION_UNWANTED, 0)


class TestTake:
    def test_a_released_session_is_handed_over_with_its_age_as_often_as_asked(self):
        shards = prepare()
        shards[1].disconnected_at = NOW - 2_500 * MS
        result, age, payload = take(9)
        assert (result, age, len(payload)) == (R.DONE, 2_500, SessionSnapshot.SIZE)
        assert b"abc1" in payload
        assert take(9) == (R.DONE, 2_500, payload)
        assert lines() == ["debug shard=9 code=lifecycle.sessionSaved sequence=71"]
        assert [shard.saved for shard in shards] == [0, 1, 0]

    def test_a_connection_that_never_ended_has_no_age(self):
        prepare()
        assert take(8)[:2] == (R.DONE, 0)

    @pytest.mark.parametrize("state", [S.ASSIGNED, S.STARTING, S.READY, S.BACKOFF])
    def test_a_node_that_runs_hands_nothing_over(self, state):
        shards = prepare()
        shards[1].state, shards[1].hold = state, Hold.NEW
        assert take(9) == (R.SESSION_LIVE, 0, b"")

    def test_a_shard_that_leaves_hands_its_session_to_any_plan(self):
        shards = prepare()
        LAB.g(PLAN).generation = 3
        shards[1].hold, shards[1].leaving = Hold.PLAN_CHANGED, Leaving.KEEPING
        shards[1].disconnected_at = NOW - 400 * MS
        result, age, payload = take(9)
        assert (result, age) == (R.DONE, 400)
        assert unpack(SessionSnapshot, payload)["plan_generation"] == HANDED_OVER
        assert take(9) == (R.DONE, 400, payload)
        assert [shard.saved for shard in shards] == [0, 1, 0]
        assert unpack(SessionSnapshot, take(8)[2])["plan_generation"] == 3

    @pytest.mark.parametrize("provider", [SessionProvider.NONE, SessionProvider.BUS])
    def test_without_a_host_nothing_is_handed_over(self, provider):
        prepare(provider)
        assert take(9) == (R.SESSION_LIVE, 0, b"")

    def test_an_unknown_shard_and_too_little_room_are_refused(self):
        prepare()
        assert take(11) == (R.ARGUMENT, 0, b"")
        assert take(9, room=SessionSnapshot.SIZE - 1) == (R.ARGUMENT, 0, b"")


@pytest.mark.parametrize(
    ("change", "due"),
    [
        ({}, D.DUE),
        ({"state": S.FATAL}, D.NOTHING),
        ({"state": S.BACKOFF}, D.LIVE),
        ({"hold": Hold.NEW}, D.LIVE),
        ({"hold": Hold.PLAN_CHANGED, "leaving": Leaving.KEEPING}, D.DUE),
        ({"hold": Hold.PLAN_CHANGED, "leaving": Leaving.ENDING}, D.NOTHING),
        ({"hold": Hold.PLAN_CHANGED}, D.LIVE),
        ({"leaving": Leaving.KEEPING}, D.LIVE),
        ({"close_deadline": 5}, D.LIVE),
        ({"flags": 0}, D.NOTHING),
    ],
)
def test_what_is_due(change, due):
    shards = prepare()
    for name, value in change.items():
        setattr(shards[1], name, value)
    assert LAB.call(session_due, shard=shards[1].address_).outputs["eax"] == due
    expected = {D.DUE: R.DONE, D.NOTHING: R.DONE, D.LIVE: R.SESSION_LIVE}[due]
    result, _, payload = take(9)
    assert (result, bool(payload)) == (expected, due == D.DUE)


def test_a_socket_that_is_not_released_is_live():
    shards = prepare()
    shards[1].tcp.state = TcpState.FIN_WAIT_1
    assert LAB.call(session_due, shard=shards[1].address_).outputs["eax"] == D.LIVE


def test_without_the_lease_nothing_is_saved():
    shards = prepare()
    LAB.g(LEASE).expired = 1
    assert LAB.call(session_due, shard=shards[1].address_).outputs["eax"] == D.NOTHING


def save(at_ms=0):
    LAB.g(CORE).now = NOW + at_ms * MS
    return LAB.call(stop_save).outputs["rax"]


def test_the_stop_waits_until_all_are_taken():
    prepare()
    LAB.g(CORE).slots[0].flags = 0
    assert save() == NOW + 5_000 * MS
    take(9)
    assert save(1) == NOW + 5_000 * MS
    take(10)
    assert save(2) == 0


def test_what_nobody_takes_in_five_seconds_is_given_up_aloud():
    shards = prepare()
    shards[0].state = S.FATAL
    take(9)
    save()
    assert save(4_999) == NOW + 5_000 * MS
    assert save(5_000) == 0
    said = [line for line in lines() if "Failed" in line]
    assert said == [
        "error shard=10 code=lifecycle.sessionSaveFailed origin=application sequence=72"
    ]
    assert save(5_001) == 0
    assert len([line for line in lines() if "Failed" in line]) == 1


def test_without_a_provider_no_stop_waits():
    prepare(SessionProvider.NONE)
    assert save() == 0
    assert LAB.g(SESSIONS).save_deadline == 0


@given(
    states=st.lists(
        st.tuples(st.sampled_from(S), st.integers(0, 1), st.integers(0, 1), st.integers(0, 1)),
        max_size=3,
    ),
    at_ms=st.sampled_from([0, 4_999, 5_000]),
)
def test_any_stop_waits_as_the_model_says(states, at_ms):
    shards = prepare(count=len(states))
    for n, (state, flag, saved, valid) in enumerate(states):
        shards[n].state, shards[n].saved, shards[n].flags = state, saved, valid
        LAB.g(CORE).slots[n].flags = flag
    save()
    save(at_ms)
