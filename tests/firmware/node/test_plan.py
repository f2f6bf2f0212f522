"""Moves: judged by numbers and state, counted, and which shards come and go."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.memory import Region
from emulator.workspace import workspace_regions
from firmware.layouts.bus import FLEET_SHARDS_MAX
from firmware.layouts.config import CONFIG
from firmware.layouts.control import ControlResult
from firmware.layouts.fleet_config import FLEET_CONFIG, FLEET_MAGIC
from firmware.layouts.log import LOG, LOG_RING
from firmware.layouts.node import CLOCK, CORE, PLAN
from firmware.layouts.plan import MOVES, NO_SHARD, Leaving
from firmware.layouts.profile import ProfileId
from firmware.layouts.refusal import PlanRefusal
from firmware.layouts.shard import (
    Hold,
    SessionLoad,
    ShardContext,
    ShardFlag,
    ShardState,
)
from firmware.layouts.stop import STOP, StopPhase
from firmware.layouts.tcp import TcpState
from firmware.layouts.tls_pool import TLS_POOL
from firmware.limits import KEPT_PAGES, PAGE, RECORD_PAGE, SHARDS_MAX
from firmware.node.moving import control_plan, plan_obey, plan_save, plan_settle, plan_tick
from firmware.node.plan import plan_mark, plan_move, plan_next, plan_row
from firmware.shard.renew import shard_renew
from firmware.shard.reshard import moves_recent, plan_refusal
from tests.support.lab import Lab
from tests.support.pages import ready, tables_region
from tests.support.states import MS

LAB = Lab(
    *(moves_recent, plan_next, plan_row, plan_refusal, plan_mark, plan_move, shard_renew),
    *(plan_save, plan_settle, plan_obey, plan_tick, control_plan),
    slots=4,
    extra=(
        tables_region(),
        Region("record", RECORD_PAGE, KEPT_PAGES * PAGE),
        *workspace_regions(FLEET_SHARDS_MAX - 1),
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
    LAB.g(CORE).slots[1].deadline = 2**64 - 1  # nothing more to wait for
    assert LAB.call(plan_row).outputs["eax"] == shards[1].address_
    assert (LAB.g(CORE).slots_used, LAB.g(CORE).slots[1].deadline) == (3, 0)
    got = LAB.call(plan_row).outputs
    assert (got["cf"], LAB.g(CORE).slots_used) == (0, 4)
    assert (LAB.g(CORE).slots[3].context, LAB.g(CORE).slots[3].flags) == (got["eax"], 1)


@pytest.mark.parametrize(
    ("magic", "rows"),
    [(0, SHARDS_MAX), (FLEET_MAGIC + 1, SHARDS_MAX), (FLEET_MAGIC, FLEET_SHARDS_MAX)],
)
def test_the_last_row_that_there_is_can_be_taken(magic, rows):
    ready_shards(0)
    LAB.g(FLEET_CONFIG).magic = magic
    core = LAB.g(CORE)
    for n in range(rows - 1):
        core.slots[n].flags = 1
    core.slots_used = rows - 1
    assert LAB.call(plan_row).outputs["cf"] == 0
    assert core.slots_used == rows
    assert LAB.call(plan_row).outputs["cf"] == 1


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
    LAB.g(FLEET_CONFIG).magic = FLEET_MAGIC
    assert refusal(4, 0, 5) == P.FLEET


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


def test_a_renewed_workspace_waits_for_no_arena():
    (shard,) = ready_shards(3)
    shard.tcp.state, pool = TcpState.CLOSED, LAB.g(TLS_POOL)
    pool.queue[0].shard, pool.waiting = shard.address_, 1
    LAB.call(shard_renew, shard=shard.address_, number=6)
    assert pool.waiting == 0
