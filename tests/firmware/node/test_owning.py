"""The shards of held slots: made, told of renewals, closed with their sessions, silenced."""

import calendar
import datetime

import pytest

from emulator.environment import Environment
from firmware.layouts.fleet import FLEET, FLEET_VIEW, HELD_MAX, HeldPhase
from firmware.layouts.fleet_config import FLEET_CONFIG, FLEET_MAGIC
from firmware.layouts.fleet_sites import FLEET_NO_ROWS
from firmware.layouts.handover import HANDOVER, HandoverRequest
from firmware.layouts.log import LOG
from firmware.layouts.log_line import Level
from firmware.layouts.node import CLOCK, CORE, LEASE, PLAN, SLOT_ACTIVE
from firmware.layouts.permit import PERMITS, PERMITS_MAX
from firmware.layouts.plan import MOVES, Leaving
from firmware.layouts.shard import Hold, SessionLoad, ShardContext, ShardFlag, ShardState
from firmware.layouts.tcp import TcpState
from firmware.node.owning import owning_guard, owning_look, owning_tick
from tests.support.lab import Lab
from tests.support.pages import ready, tables_region
from tests.support.rtc import Rtc
from tests.support.states import MS

LAB = Lab(owning_guard, owning_look, owning_tick, slots=4, extra=(tables_region(),))
NOW = 10_000 * MS
STOP = NOW + 17_800 * MS
P, S = HeldPhase, ShardState


class Node:
    """A node with memory for as many shards as are asked for."""

    def __init__(self, rows=4):
        LAB.reset()
        ready(LAB, (0x20_0000, 0x20_0000 + rows * 0x1_0000))
        LAB.g(CLOCK).tsc_cycles_per_ms, LAB.g(CORE).now = MS, NOW
        LAB.g(LOG).level = Level.ERROR
        LAB.g(PLAN).generation = LAB.g(PERMITS).max_concurrency = 1

    def held(self, n=0):
        return LAB.g(FLEET).held[n]

    def hold(self, n=0, *, phase=P.RUNNING, start=4, count=2, generation=7, slot=1):
        held = self.held(n)
        held.phase, held.slot, held.generation = phase, slot, generation
        LAB.g(FLEET).holding = 1
        held.start, held.count, held.total = start, count, 16
        held.deadline, held.hard_stop = STOP + 450 * MS, STOP

    def row(self, n):
        return LAB.g(CORE).slots[n]

    def shard(self, n):
        return LAB.view(ShardContext, self.row(n).context)

    def shards(self):
        """Return (shard, mark) of each row in use."""
        used = range(LAB.g(CORE).slots_used)
        return [
            (self.shard(n).shard_id, self.shard(n).held)
            for n in used
            if self.row(n).flags & SLOT_ACTIVE
        ]

    def tick(self):
        LAB.call(owning_tick)

    def guard(self, resets=0):
        LAB.call(owning_guard, Environment(tsc=(NOW,) * resets))


@pytest.fixture
def node():
    return Node()


@pytest.mark.parametrize(("ahead_s", "shards"), [(0, [(4, 1), (5, 1)]), (1, [])])
def test_a_look_silences_what_a_clock_that_stood_still_ended(node, ahead_s, shards):
    node.hold()
    node.tick()
    at, fleet = datetime.datetime(2026, 11, 30, 12), LAB.g(FLEET)
    fleet.rtc_second, fleet.rtc_tsc = calendar.timegm(at.timetuple()), NOW
    fleet.rtc_low = (at.hour << 16) + 1
    LAB.g(FLEET_CONFIG).magic = FLEET_MAGIC
    found = LAB.call(owning_look, Rtc(at + datetime.timedelta(seconds=ahead_s), NOW))
    assert found.outputs["cf"] == 0
    assert node.shards() == shards
    assert node.held().phase == (P.RUNNING if shards else P.NONE)


def test_a_look_that_cannot_tell_lets_no_shard_speak(node):
    node.hold()
    node.tick()
    at, fleet = datetime.datetime(2026, 11, 30, 12), LAB.g(FLEET)
    fleet.rtc_second, fleet.rtc_tsc = calendar.timegm(at.timetuple()), NOW
    fleet.rtc_low = (at.hour << 16) + 1
    LAB.g(FLEET_CONFIG).magic = FLEET_MAGIC
    busy = Rtc(at + datetime.timedelta(seconds=60), NOW, updating=True)
    assert LAB.call(owning_look, busy).outputs["cf"] == 1
    assert node.held().phase == P.RUNNING
    assert LAB.call(owning_look, Rtc(busy.when, NOW)).outputs["cf"] == 0
    assert node.shards() == []


def test_a_turn_that_has_looked_silences_nothing_more(node):
    node.hold()
    node.tick()
    LAB.g(FLEET_CONFIG).magic, LAB.g(FLEET).rtc_seen = FLEET_MAGIC, 1
    node.held().phase = P.GONE
    assert LAB.call(owning_look).outputs["cf"] == 0
    assert (node.shards(), node.held().phase) == ([(4, 1), (5, 1)], P.GONE)


def test_every_slot_that_is_gone_is_silenced_in_one_turn(node):
    for n, start, slot in ((0, 4, 1), (1, 9, 3), (HELD_MAX - 1, 12, 5)):
        node.hold(n, start=start, count=1, slot=slot)
    node.tick()
    node.held(1).phase = node.held(HELD_MAX - 1).phase = P.GONE
    node.guard()
    assert node.shards() == [(4, 1)]
    assert [node.held(n).phase for n in (0, 1, HELD_MAX - 1)] == [P.RUNNING, P.NONE, P.NONE]


def test_a_node_without_slots_looks_at_none(node):
    node.hold(phase=P.GONE)
    LAB.g(FLEET).holding = 0
    node.guard()
    assert node.held().phase == P.GONE


def test_a_new_shard_has_nothing_of_the_record_of_another(node):
    state = LAB.g(HANDOVER)
    row = state.rows[0]
    row.revision, row.request, state.under_way = 9, HandoverRequest.SAVE, 4
    node.hold()
    node.tick()
    assert (row.revision, row.request, state.under_way) == (0, HandoverRequest.NONE, 3)


def test_slot_that_runs_gets_its_shards(node):
    node.hold()
    node.tick()
    assert node.shards() == [(4, 1), (5, 1)]
    shard = node.shard(1)
    assert (shard.shard_total, shard.hard_stop, shard.events.fence) == (16, STOP, 7)
    assert (shard.state, shard.hold) == (S.ASSIGNED, Hold.NEW)
    assert (shard.load, shard.load_deadline) == (SessionLoad.OPEN, NOW + 20_000 * MS)
    assert (node.held().shards, node.held().applied, LAB.g(CORE).slots_due) == (2, STOP, 0)
    assert LAB.g(PLAN).global_total == 16
    node.tick()
    assert node.shards() == [(4, 1), (5, 1)]


@pytest.mark.parametrize(
    ("own", "plan", "keys", "owner", "owned"),
    [(1, 16, 16, 0, 0), (16, 1, 1, 0, 0), (4, 4, 4, 2, 1), (4, 0, 4, 2, 1), (1, 256, 256, 0, 0)],
)
def test_shards_identify_by_the_keys_of_the_plan(node, own, plan, keys, owner, owned):
    permits = LAB.g(PERMITS)
    permits.max_concurrency, permits.owned = own, 1
    permits.keys[0].owner = permits.keys[PERMITS_MAX - 1].owner = 2
    LAB.g(FLEET_VIEW).plan.max_concurrency = plan
    node.hold()
    node.tick()
    assert (permits.max_concurrency, permits.owned) == (keys, owned)
    assert permits.keys[0].owner == permits.keys[PERMITS_MAX - 1].owner == owner
    assert node.shards() == [(4, 1), (5, 1)]


@pytest.mark.parametrize("phase", [P.NONE, P.CLAIMING, P.HELD, P.RELEASING])
def test_nothing_begins_before_the_claim_is_seen_and_nothing_after(node, phase):
    node.hold(phase=phase)
    node.tick()
    node.guard()
    assert (node.shards(), node.held().phase) == ([], phase)


def test_slots_have_marks_of_their_own(node):
    node.hold(0, start=4, count=1)
    node.hold(HELD_MAX - 1, start=9, count=2, slot=3)
    node.tick()
    assert node.shards() == [(4, 1), (9, HELD_MAX), (10, HELD_MAX)]


def test_renewal_is_told_to_the_shards_of_the_slot_alone(node):
    node.hold(0, start=4, count=1)
    node.hold(1, start=9, count=1, slot=3)
    node.tick()
    node.held(1).hard_stop = STOP + 5_000 * MS
    node.tick()
    assert [node.shard(n).hard_stop for n in range(2)] == [STOP, STOP + 5_000 * MS]
    assert node.held(1).applied == STOP + 5_000 * MS


def test_slot_that_does_not_fit_is_given_back():
    node = Node(rows=1)
    node.hold(count=3)
    node.tick()
    held = node.held()
    assert (held.phase, held.reason) == (P.STOPPING, FLEET_NO_ROWS.code)
    place = 8 * held.slot
    avoided = LAB.g(FLEET).avoid_until[place : place + 8]
    assert int.from_bytes(avoided, "little") == LAB.g(CORE).now + 60_000 * MS
    assert (len(node.shards()), held.shards) == (1, 1)
    node.tick()
    assert (node.shard(0).leaving, LAB.g(MOVES).leaving) == (Leaving.KEEPING, 1)


def test_slot_that_stops_closes_its_shards_and_counts_them(node):
    node.hold(0, start=4, count=2)
    node.hold(1, start=9, count=1, slot=3)
    node.tick()
    LAB.g(CORE).slots_due = node.row(0).deadline = node.row(2).deadline = 2**63
    node.held().phase = P.STOPPING
    node.held().hard_stop = STOP + 1
    node.tick()
    leaving = [node.shard(n).leaving for n in range(3)]
    assert (leaving, LAB.g(MOVES).leaving) == ([Leaving.KEEPING, Leaving.KEEPING, Leaving.NO], 2)
    assert (node.row(0).deadline, node.row(2).deadline, LAB.g(CORE).slots_due) == (0, 2**63, 0)
    assert (node.held().shards, node.shard(0).hard_stop) == (2, STOP + 1)
    node.row(0).flags = 0
    node.tick()
    assert (node.held().shards, LAB.g(MOVES).leaving) == (1, 2)
    node.row(1).flags = 0
    node.tick()
    assert node.held().shards == 0


def test_slot_that_is_gone_falls_silent_at_once(node):
    node.hold(0, start=4, count=2)
    node.hold(1, start=9, count=1, slot=3)
    node.tick()
    for n in range(3):
        shard = node.shard(n)
        shard.state, shard.tcp.state = S.READY, TcpState.ESTABLISHED
        shard.session.valid, shard.flags = 1, shard.flags | ShardFlag.SEQ_VALID
    node.shard(1).leaving, LAB.g(MOVES).leaving = Leaving.KEEPING, 1
    node.held().phase = P.GONE
    node.guard(resets=2)
    assert node.shards() == [(9, 2)]
    for n in range(2):
        shard = node.shard(n)
        assert (shard.state, shard.hold) == (S.ASSIGNED, Hold.LEASE_EXPIRED)
        assert (shard.tcp.state, shard.session.valid) == (TcpState.CLOSED, 0)
        assert not shard.flags & ShardFlag.SEQ_VALID
    assert LAB.g(MOVES).leaving == 0
    held = node.held()
    assert (held.phase, held.shards, node.held(1).phase) == (P.NONE, 0, P.RUNNING)
    assert (LAB.g(LEASE).deadline, LAB.g(LEASE).expired) == (STOP, 0)
    assert node.shard(2).state == S.READY


def test_without_a_slot_the_lease_is_over(node):
    node.hold(count=1)
    node.tick()
    node.held().phase = P.GONE
    node.guard()
    assert (node.shards(), LAB.g(LEASE).expired) == ([], 1)


def test_rows_are_used_again(node):
    node.hold(count=2)
    node.tick()
    node.held().phase = P.GONE
    node.guard()
    node.hold(start=12, count=2, generation=9)
    node.tick()
    assert node.shards() == [(12, 1), (13, 1)]
    assert (LAB.g(CORE).slots_used, node.shard(0).events.fence) == (2, 9)
    assert node.shard(0).load == SessionLoad.OPEN
