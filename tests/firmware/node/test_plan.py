"""Moves: judged by numbers and state, counted, and who gives its row to whom."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.machine import Region
from emulator.workspace import workspace_regions
from firmware.layouts.config import CONFIG
from firmware.layouts.control import ControlRequest, ControlResult
from firmware.layouts.log import LOG, LOG_RING
from firmware.layouts.node import CLOCK, CORE, PLAN
from firmware.layouts.plan import LOAD_WAIT_MAX_MS, MOVES, NO_SHARD, Leaving, PlanOrder, PlanReport
from firmware.layouts.policy import SessionProvider
from firmware.layouts.profile import ProfileId
from firmware.layouts.refusal import PlanRefusal
from firmware.layouts.sessions import DIGEST_BYTES
from firmware.layouts.shard import (
    SSES_VALID,
    Hold,
    SessionLoad,
    ShardContext,
    ShardFlag,
    ShardState,
)
from firmware.layouts.stop import STOP, StopPhase
from firmware.layouts.survivor import SURVIVAL, SavedSession
from firmware.layouts.tcp import TcpState
from firmware.limits import KEPT_PAGES, PAGE, RECORD_PAGE, SHARDS_MAX, SURVIVOR_PAGE
from firmware.node.moving import control_plan, plan_obey, plan_save, plan_settle, plan_tick
from firmware.node.plan import plan_mark, plan_move, plan_next, plan_row
from firmware.shard.renew import shard_renew
from firmware.shard.reshard import moves_recent, plan_refusal
from tests.support.lab import Lab
from tests.support.pages import ready, tables_region
from tests.support.states import MS
from toolchain.layout.pack import pack, unpack

LAB = Lab(
    *(moves_recent, plan_next, plan_row, plan_refusal, plan_mark, plan_move, shard_renew),
    *(plan_save, plan_settle, plan_obey, plan_tick, control_plan),
    slots=4,
    extra=(
        tables_region(),
        Region("record", RECORD_PAGE, KEPT_PAGES * PAGE),
        *workspace_regions(SHARDS_MAX - 1),
    ),
)
S, L, R, P = ShardState, Leaving, ControlResult, PlanRefusal
HOUR_MS = 3_600_000
NOW = 10 * HOUR_MS * MS
ROOM, NO_ROOM = (0x20_0000, 0x80_0000), (0x20_0000, 0x20_1000)
NEVER = 2**64 - 1


def prepare(*shards, total=8, start=0, count=None, room=ROOM):
    """Rows with shards, each given as number, state and leaving; a node that has never moved."""
    LAB.reset()
    ready(LAB, room)
    LAB.g(CLOCK).tsc_cycles_per_ms, LAB.g(CORE).now = MS, NOW
    plan, core, made = LAB.g(PLAN), LAB.g(CORE), []
    plan.global_total, plan.local_start, plan.generation = total, start, 1
    plan.local_count = len(shards) if count is None else count
    core.slots_used = len(shards)
    for n, (number, state, leaving) in enumerate(shards):
        context = LAB.view(ShardContext, LAB.shard(n))
        context.shard_id, context.shard_total = number, total
        context.state, context.leaving = state, leaving
        core.slots[n].context, core.slots[n].flags = context.address_, 1
        core.slots[n].deadline = NEVER
        made.append(context)
    LAB.g(MOVES).leaving = sum(bool(leaving) for _, _, leaving in shards)
    return made


def ready_shards(*numbers, **more):
    return prepare(*((number, S.READY, L.NO) for number in numbers), **more)


def moved(*ago_ms):
    """Say when the node has moved, newest first."""
    times = b"".join((NOW - ago * MS).to_bytes(8, "little") for ago in ago_ms)
    LAB.g(MOVES).times[0 : len(times)] = times


def lines():
    raw = LAB.machine.read(LAB.image.address(LOG_RING), LAB.g(LOG).head)
    return [line.split(" code=")[1] for line in raw.decode().splitlines()]


def refusal(total, start, count):
    return LAB.call(plan_refusal, total=total, start=start, count=count).outputs["eax"]


def move(total, start, count, wait=0):
    called = LAB.call(plan_move, total=total, start=start, count=count, wait=wait)
    return called.outputs["eax"]


@pytest.mark.parametrize(
    ("ago_ms", "count"),
    [
        ((), 0),
        ((1,), 1),
        ((1, HOUR_MS - 1), 2),
        ((1, 2, HOUR_MS), 2),
        ((1, HOUR_MS, HOUR_MS + 1), 1),
        ((HOUR_MS, HOUR_MS + 1, HOUR_MS + 2), 0),
        ((0, 1, 2), 3),
    ],
)
def test_moves_of_the_last_hour_are_counted(ago_ms, count):
    prepare()
    moved(*ago_ms)
    assert LAB.call(moves_recent).outputs["eax"] == count


@pytest.mark.parametrize("count", range(4))
@pytest.mark.parametrize("now", [NOW, 5 * MS])
def test_places_without_a_move_do_not_count(now, count):
    """Also on a node that has not run for an hour yet."""
    prepare()
    LAB.g(CORE).now = now
    for n in range(count):
        LAB.g(MOVES).times[8 * n : 8 * n + 8] = (now - n).to_bytes(8, "little")
    assert LAB.call(moves_recent).outputs["eax"] == count


def test_moves_of_long_ago_do_not_count():
    """An age has no sign."""
    prepare()
    LAB.g(CORE).now = 2**63 + 9
    for n in range(3):
        LAB.g(MOVES).times[8 * n : 8 * n + 8] = (n + 1).to_bytes(8, "little")
    assert LAB.call(moves_recent).outputs["eax"] == 0


def test_next_gives_each_shard_that_no_row_keeps_once():
    prepare((0, S.READY, L.NO), (1, S.ASSIGNED, L.KEEPING), (3, S.READY, L.NO), count=5)
    LAB.g(CORE).slots[2].flags = 0
    given_ = [LAB.call(plan_next).outputs["edx"] for _ in range(5)]
    assert given_ == [1, 2, 3, 4, NO_SHARD]


def test_next_compares_numbers_without_a_sign():
    prepare(total=2**32 - 1, start=2**31 - 1, count=2)
    LAB.g(MOVES).next = 2**31 - 1
    given_ = [LAB.call(plan_next).outputs["edx"] for _ in range(3)]
    assert given_ == [2**31 - 1, 2**31, NO_SHARD]


def test_a_row_that_is_free_comes_before_a_new_one():
    shards = ready_shards(0, 1, 2)
    LAB.g(CORE).slots[1].flags = 0
    assert LAB.call(plan_row).outputs["eax"] == shards[1].address_
    assert LAB.g(CORE).slots_used == 3
    got = LAB.call(plan_row).outputs
    assert (got["cf"], LAB.g(CORE).slots_used) == (0, 4)
    assert (LAB.g(CORE).slots[3].context, LAB.g(CORE).slots[3].flags) == (got["eax"], 1)


def test_the_last_row_that_there_is_can_be_taken():
    ready_shards(0)
    core = LAB.g(CORE)
    for n in range(SHARDS_MAX - 1):
        core.slots[n].flags = 1
    core.slots_used = SHARDS_MAX - 1
    assert LAB.call(plan_row).outputs["cf"] == 0
    assert core.slots_used == SHARDS_MAX


def test_without_memory_or_slots_there_is_no_row():
    ready_shards(0, 1, room=NO_ROOM)
    assert LAB.call(plan_row).outputs["cf"] == 1
    assert LAB.g(CORE).slots_used == 2
    ready_shards(0)
    core = LAB.g(CORE)
    for n in range(SHARDS_MAX):
        core.slots[n].flags = 1
    core.slots_used = SHARDS_MAX
    assert LAB.call(plan_row).outputs["cf"] == 1


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        ((4, 0, 4), P.NONE),
        ((16_384, 16_383, 1), P.NONE),
        ((256, 0, 256), P.NONE),
        ((4, 0, 0), P.OUT_OF_BOUNDS),
        ((4, 0, 5), P.OUT_OF_BOUNDS),
        ((4, 4, 1), P.OUT_OF_BOUNDS),
        ((8, 5, 4), P.OUT_OF_BOUNDS),
        ((300, 0, 257), P.OUT_OF_BOUNDS),
        ((16_385, 0, 1), P.OUT_OF_BOUNDS),
        ((2**31, 0, 1), P.OUT_OF_BOUNDS),
        ((0, 0, 1), P.OUT_OF_BOUNDS),
        ((4, 2**32 - 1, 2), P.OUT_OF_BOUNDS),
    ],
)
def test_the_numbers_of_a_plan_are_judged(plan, reason):
    prepare()
    assert refusal(*plan) == reason


def test_the_state_of_the_node_is_judged_then_its_moves():
    prepare()
    moved(0, 1, 2)
    assert refusal(4, 0, 4) == P.TOO_MANY_MOVES
    LAB.g(MOVES).leaving = 1
    assert refusal(4, 0, 4) == P.STILL_MOVING
    LAB.g(CLOCK).tsc_cycles_per_ms = 0
    assert refusal(4, 0, 4) == P.NO_CLOCK
    LAB.g(STOP).phase = StopPhase.DRAINING
    assert refusal(4, 0, 4) == P.STOPPING
    assert refusal(4, 0, 5) == P.OUT_OF_BOUNDS


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_any_plan_is_judged_as_the_model_says(total, start, count):
    prepare()
    refusal(total, start, count)
    refusal(total % 20_000, start % 20_000, count % 300)


def test_who_stays_is_not_marked():
    shards = prepare((1, S.READY, 0), (2, S.FATAL, 0), (5, S.BACKOFF, 0), (3, S.READY, 0))
    LAB.g(PLAN).local_start, LAB.g(PLAN).local_count = 1, 4
    LAB.g(CORE).slots[3].flags = 0
    assert LAB.call(plan_mark, how=L.KEEPING).outputs["eax"] == 1
    assert [shard.leaving for shard in shards] == [L.NO, L.KEEPING, L.KEEPING, L.NO]
    assert LAB.g(MOVES).leaving == 2


def test_with_another_total_none_stays():
    shards = ready_shards(0, 1)
    assert LAB.call(plan_mark, how=L.ENDING).outputs["eax"] == 0
    assert [shard.leaving for shard in shards] == [L.ENDING] * 2


class TestMove:
    def test_shards_come_and_go(self):
        shards = ready_shards(0, 1)
        moved(5, 6)
        assert move(8, 1, 3) == P.NONE
        plan, core = LAB.g(PLAN), LAB.g(CORE)
        assert (plan.global_total, plan.local_start, plan.local_count) == (8, 1, 3)
        assert plan.generation == 2
        assert [shard.leaving for shard in shards] == [L.KEEPING, L.NO]
        # Two are new; one of them waits for the row of shard 0.
        assert core.slots_used == 3
        new = LAB.view(ShardContext, core.slots[2].context)
        assert (new.shard_id, new.shard_total, new.plan_generation) == (2, 8, 2)
        assert (new.hold, new.flags, new.load) == (Hold.NEW, ShardFlag.ESTABLISHED, 1)
        assert [core.slots[n].deadline for n in range(3)] == [0, 0, 0]
        assert LAB.call(moves_recent).outputs["eax"] == 3
        assert lines() == ["lifecycle.resharded total=8 start=1 shards=3 generation=2"]

    def test_each_shard_without_a_row_to_wait_for_gets_one_at_once(self):
        ready_shards(0, 1)
        assert move(8, 0, 4) == P.NONE
        core = LAB.g(CORE)
        new = [LAB.view(ShardContext, core.slots[n].context).shard_id for n in (2, 3)]
        assert (new, core.slots_used) == ([2, 3], 4)

    def test_who_comes_may_wait_for_a_session_of_the_same_total(self):
        ready_shards(0, 1)
        assert move(8, 0, 3, wait=700) == P.NONE
        new = LAB.view(ShardContext, LAB.g(CORE).slots[2].context)
        assert (new.load, new.load_deadline) == (SessionLoad.OPEN, NOW + 700 * MS)
        assert new.flags == ShardFlag.ESTABLISHED

    def test_no_session_is_of_another_total(self):
        ready_shards(0, 1)
        assert move(9, 0, 3, wait=700) == P.NONE
        new = LAB.view(ShardContext, LAB.g(CORE).slots[2].context)
        assert (new.load, new.load_deadline) == (SessionLoad.SETTLED, 0)
        assert LAB.g(MOVES).wait_ms == 0

    def test_fewer_shards_need_no_row(self):
        shards = ready_shards(0, 1, 2)
        assert move(8, 0, 1) == P.NONE
        assert [shard.leaving for shard in shards] == [L.NO, L.KEEPING, L.KEEPING]
        assert LAB.g(CORE).slots_used == 3

    def test_another_total_ends_every_session(self):
        shards = ready_shards(0, 1)
        assert move(3, 0, 3) == P.NONE
        assert [shard.leaving for shard in shards] == [L.ENDING] * 2
        assert LAB.view(ShardContext, LAB.g(CORE).slots[2].context).shard_id == 0

    def test_without_memory_the_first_row_that_is_left_counts(self):
        ready_shards(0, 1, room=NO_ROOM)
        assert move(8, 0, 4) == P.NONE
        assert LAB.g(MOVES).next == 2

    def test_a_refused_one_changes_nothing_and_is_said_aloud(self):
        ready_shards(0, 1)
        assert move(8, 0, 0) == P.OUT_OF_BOUNDS
        assert LAB.g(PLAN).generation == 1
        assert lines() == ["lifecycle.reshardRefused total=8 start=0 shards=0 reason=out_of_bounds"]


@pytest.mark.parametrize("tcp", [TcpState.CLOSED, TcpState.FAILED])
def test_a_renewed_workspace_holds_nothing_of_the_old_shard(tcp):
    (shard,) = ready_shards(3)
    address, size = shard.address_, ShardContext.SIZE
    tx, ring = shard.tx_base, shard.ring_base
    LAB.machine.write(address, b"\xa5" * size)
    shard.tx_base, shard.ring_base, shard.slot, shard.connection = tx, ring, 0, 77
    shard.tcp.state, shard.tls.arena_ptr = tcp, 0
    if tcp == TcpState.FAILED:
        LAB.machine.write(shard.tcp.address_, bytes(0x400))
        shard.tcp.state = tcp
    LAB.g(PLAN).global_total, LAB.g(PLAN).generation = 9, 4
    LAB.g(CONFIG).profile = ProfileId.FLUXER
    LAB.call(shard_renew, shard=address, number=6)
    assert (shard.shard_id, shard.shard_total, shard.plan_generation) == (6, 9, 4)
    assert (shard.state, shard.hold, shard.profile) == (S.ASSIGNED, Hold.NEW, ProfileId.FLUXER)
    assert (shard.flags, shard.load) == (ShardFlag.ESTABLISHED, SessionLoad.SETTLED)
    assert (shard.tx_base, shard.ring_base, shard.connection) == (tx, ring, 77)
    assert (shard.session.valid, shard.attempts, shard.leaving) == (0, 0, L.NO)
    assert shard.session_ptr == shard.session.address_
    assert b"\xa5" not in LAB.machine.read(address, size)


def settle(*shards, count, tcp=TcpState.CLOSED, close=0):
    made = prepare(*shards, count=count)
    for shard in made:
        shard.tcp.state, shard.close_deadline = tcp, close
    LAB.call(plan_settle)
    return made


@pytest.mark.parametrize("state", [S.ASSIGNED, S.FATAL])
@pytest.mark.parametrize("tcp", [TcpState.CLOSED, TcpState.FAILED])
def test_a_released_row_passes_on(state, tcp):
    made = settle((5, state, L.KEEPING), (0, S.READY, L.NO), count=2, tcp=tcp)
    assert [shard.shard_id for shard in made] == [1, 0]
    assert (made[0].leaving, LAB.g(MOVES).leaving) == (L.NO, 0)
    assert [LAB.g(CORE).slots[n].deadline for n in range(2)] == [0, NEVER]


def test_a_row_that_nobody_needs_is_free():
    made = settle((5, S.ASSIGNED, L.KEEPING), (0, S.READY, L.NO), count=1)
    assert [LAB.g(CORE).slots[n].flags for n in range(2)] == [0, 1]
    assert (made[0].shard_id, made[0].leaving, LAB.g(MOVES).leaving) == (5, L.NO, 0)
    LAB.g(MOVES).leaving = 1
    LAB.call(plan_settle)
    assert LAB.g(MOVES).leaving == 1


def test_every_row_is_looked_at():
    """Those that nobody uses are nobody's, whatever their shard was."""
    leaves, unused = (5, S.ASSIGNED, L.KEEPING), (6, S.ASSIGNED, L.KEEPING)
    for free in range(4):
        made = prepare(*(unused if n == free else leaves for n in range(4)), count=2)
        LAB.g(CORE).slots[free].flags = 0
        LAB.g(MOVES).leaving = 3
        LAB.call(plan_settle)
        used = [n for n in range(4) if n != free]
        assert [made[n].shard_id for n in used] == [0, 1, 5]
        assert [LAB.g(CORE).slots[n].flags for n in used] == [1, 1, 0]
        assert (made[free].shard_id, made[free].leaving) == (6, L.KEEPING)
        assert LAB.g(MOVES).leaving == 0


def test_a_row_that_becomes_free_keeps_what_its_shard_knew_but_the_session():
    (shard,) = prepare((5, S.ASSIGNED, L.KEEPING), count=0)
    shard.flags = ShardFlag.SEQ_VALID | ShardFlag.ESTABLISHED | ShardFlag.LAST_CLOSE_KNOWN
    LAB.call(plan_settle)
    assert shard.flags == ShardFlag.ESTABLISHED | ShardFlag.LAST_CLOSE_KNOWN


def left(provider=SessionProvider.HOST, **changes):
    """A shard that has left and is released, with a session, and one that stays; none is new."""
    made = prepare((5, S.ASSIGNED, L.KEEPING), (0, S.READY, L.NO), count=1)
    LAB.g(CONFIG).session_provider = provider
    LAB.g(CORE).slots_due = NEVER
    for shard in made:
        shard.hold, shard.flags, shard.sequence = Hold.PLAN_CHANGED, ShardFlag.SEQ_VALID, 9
        shard.session_ptr, shard.session.valid = shard.session.address_, SSES_VALID
        shard.session.session_id_len = 4
        shard.session.session_id[0:4] = b"abcd"
    for name, value in changes.items():
        setattr(made[0], name, value)
    return made[0]


def settled(at_ms=0):
    """Let the move go on; return whether the row is still there."""
    LAB.g(CORE).now = NOW + at_ms * MS
    LAB.call(plan_settle)
    return LAB.g(CORE).slots[0].flags == 1


def test_a_session_that_nobody_took_keeps_its_row_for_five_seconds():
    shard = left()
    assert settled()
    core = LAB.g(CORE)
    assert core.slots[0].deadline == core.slots_due == shard.save_deadline == NOW + 5_000 * MS
    assert settled(4_998)
    core.slots_due = NOW + 1
    assert settled(4_999)
    assert (core.slots_due, LAB.g(MOVES).leaving, lines()) == (NOW + 1, 1, [])
    assert not settled(5_000)
    assert lines() == ["lifecycle.sessionSaveFailed origin=application sequence=9"]
    assert (shard.session.valid, shard.flags, LAB.g(MOVES).leaving) == (0, 0, 0)


@pytest.mark.parametrize("late", [-1, 0, 1])
def test_when_a_session_is_given_up_is_compared_without_a_sign(late):
    shard = left(save_deadline=2**63)
    LAB.g(CORE).now = 2**63 + late
    assert LAB.call(plan_save, shard=shard.address_).outputs["cf"] == (late < 0)


def test_a_session_that_was_taken_gives_its_row_up():
    left(saved=1)
    assert not settled()
    assert lines() == []


@pytest.mark.parametrize(
    "more",
    [
        {"provider": SessionProvider.NONE},
        {"leaving": L.ENDING},
        {"state": S.FATAL},
        {"flags": 0},
    ],
)
def test_without_a_session_to_save_no_row_waits(more):
    left(**more)
    assert not settled()
    assert lines() == []


@pytest.mark.parametrize("count", [1, 2])
def test_a_reset_does_not_bring_the_session_of_a_row_back_that_was_left(count):
    """Whether the row is free now or another shard's."""
    left(saved=1)
    LAB.g(PLAN).local_count = count
    LAB.machine.write(RECORD_PAGE, bytes(KEPT_PAGES * PAGE))
    LAB.g(SURVIVAL).page = SURVIVOR_PAGE
    kept = LAB.view(SavedSession, SURVIVOR_PAGE + PAGE)
    kept.valid = 1
    settled()
    assert kept.valid == 0


@given(
    st.sampled_from(SessionProvider),
    st.sampled_from(L),
    st.sampled_from(S),
    st.integers(0, 1),
    st.integers(0, 1),
    st.sampled_from([0, NOW, NOW + 1]),
)
def test_any_row_waits_as_the_model_says(provider, leaving, state, saved, flags, deadline):
    shard = left(
        provider, leaving=leaving, state=state, saved=saved, flags=flags, save_deadline=deadline
    )
    LAB.call(plan_save, shard=shard.address_)


@pytest.mark.parametrize(
    "more", [{"close": 7}, {"tcp": TcpState.FIN_WAIT_1}, {"state": S.BACKOFF}, {"state": S.READY}]
)
def test_a_row_that_is_not_released_stays(more):
    state = more.pop("state", S.ASSIGNED)
    (shard,) = settle((5, state, L.ENDING), count=1, **more)
    assert (shard.shard_id, shard.leaving, LAB.g(MOVES).leaving) == (5, L.ENDING, 1)


def test_while_nobody_leaves_no_row_is_looked_at():
    (shard,) = prepare((5, S.ASSIGNED, L.KEEPING), count=1)
    LAB.g(MOVES).leaving = 0
    LAB.call(plan_settle)
    assert shard.shard_id == 5


class TestObey:
    def wanted(self, total, *, auto=1, **plan):
        ready_shards(0, 1, total=2, **plan)
        LAB.g(CONFIG).plan_auto = auto
        LAB.g(MOVES).wanted = total
        LAB.call(plan_tick)
        assert LAB.g(MOVES).wanted == 0
        return LAB.g(PLAN).global_total

    def test_a_node_that_holds_every_shard_moves(self):
        assert self.wanted(3) == 3
        assert lines() == ["lifecycle.resharded total=3 start=0 shards=3 generation=2"]

    @pytest.mark.parametrize("total", [0, 2])
    @pytest.mark.parametrize("plan", [{}, {"count": 1}, {"start": 1, "count": 1}])
    def test_a_total_that_it_has_is_none(self, total, plan):
        assert self.wanted(total, **plan) == 2
        assert lines() == []

    def test_by_configuration_alone(self):
        assert self.wanted(3, auto=0) == 2
        assert lines() == []

    @pytest.mark.parametrize("plan", [{"start": 1}, {"count": 1}])
    def test_a_node_among_others_refuses(self, plan):
        assert self.wanted(3, **plan) == 2
        assert "reason=not_the_whole_plan" in lines()[0]

    @pytest.mark.parametrize("total", [300, 2**31])
    def test_a_refusal_of_the_move_is_said_aloud(self, total):
        assert self.wanted(total) == 2
        assert "reason=out_of_bounds" in lines()[0]


def ask(payload=b"", *, room=PlanReport.SIZE):
    request = LAB.put(pack(ControlRequest, {"length": len(payload)}) + payload)
    answer = LAB.machine.alloc(PlanReport.SIZE)
    got = LAB.call(
        control_plan, request=request, length=len(payload), answer=answer, room=room
    ).outputs
    told = LAB.machine.read(answer, got["ecx"])
    return got["eax"], got["rdx"], unpack(PlanReport, told) if told else None


class TestVerb:
    def test_without_payload_it_tells(self):
        ready_shards(1, 2, start=1)
        moved(3)
        result, value, report = ask()
        assert (result, value) == (R.DONE, 0)
        assert (report["total"], report["start"], report["count"]) == (8, 1, 2)
        assert (report["generation"], report["moves"], report["leaving"]) == (1, 1, 0)

    def test_any_larger_room_will_do(self):
        ready_shards(1)
        assert ask(room=2**31)[0] == R.DONE

    def test_it_tells_whose_sessions_who_keeps(self):
        ready_shards(0)
        config = LAB.g(CONFIG)
        config.session_provider, config.token_len = SessionProvider.HOST, 5
        config.token[0:5] = b"abcde"
        report = ask()[2]
        assert report["provider"] == SessionProvider.HOST
        assert report["bot"] == hashlib.sha256(b"abcde").digest()[:DIGEST_BYTES]

    @pytest.mark.parametrize("wait_ms", [0, 700, LOAD_WAIT_MAX_MS, LOAD_WAIT_MAX_MS + 1, 2**32 - 1])
    def test_an_order_says_how_long_who_comes_waits(self, wait_ms):
        ready_shards(0, 1)
        order = {"total": 8, "start": 0, "count": 3, "wait_ms": wait_ms}
        assert ask(pack(PlanOrder, order))[0] == R.DONE
        assert LAB.g(MOVES).wait_ms == min(wait_ms, LOAD_WAIT_MAX_MS)

    def test_an_order_moves(self):
        ready_shards(0, 1)
        result, value, report = ask(pack(PlanOrder, {"total": 8, "start": 1, "count": 1}))
        assert (result, value, report["generation"], report["leaving"]) == (R.DONE, 0, 2, 1)

    def test_a_refusal_has_its_reason(self):
        ready_shards(0, 1)
        result, value, report = ask(pack(PlanOrder, {"total": 8, "start": 8, "count": 1}))
        assert (result, value) == (R.PLAN_REFUSED, P.OUT_OF_BOUNDS)
        assert (report["refusal"], report["generation"]) == (P.OUT_OF_BOUNDS, 1)

    @pytest.mark.parametrize(
        ("payload", "room"),
        [
            (bytes(15), PlanReport.SIZE),
            (bytes(17), PlanReport.SIZE),
            (b"", PlanReport.SIZE - 1),
        ],
    )
    def test_another_size_is_refused(self, payload, room):
        ready_shards(0, 1)
        assert ask(payload, room=room) == (R.ARGUMENT, 0, None)
