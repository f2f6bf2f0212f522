"""Claims and renewals: what is sent, when it may be, and what is remembered of it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.environment import Environment
from firmware.fleet.cas import cas_send
from firmware.fleet.claim import claim_slot, claim_time, claims_tick
from firmware.layouts.bus import LinkState
from firmware.layouts.clock import NEVER
from firmware.layouts.fleet import (
    FLEET,
    FLEET_OUT,
    FLEET_VIEW,
    HELD_MAX,
    HeldPhase,
    Holder,
    PlanMode,
    SlotState,
    WatchState,
)
from firmware.layouts.fleet_config import FLEET_CONFIG
from firmware.layouts.node import CLOCK, CORE
from tests.support.bus import BusBench
from tests.support.fleet import BOT, set_fields
from tests.support.segments import CYCLES_PER_MS as MS
from tests.support.segments import NOW

BENCH = BusBench(cas_send, claim_slot, claim_time, claims_tick)
LAB = BENCH.lab
D_MS = 20_000
WAIT = (D_MS * 101 // 100 + 500) * MS


@pytest.fixture(autouse=True)
def node():
    prepare()


def prepare():
    BENCH.reset()
    BENCH.up()
    config, fleet, view = LAB.g(FLEET_CONFIG), LAB.g(FLEET), LAB.g(FLEET_VIEW)
    config.cap, config.bot_len = 1, len(BOT)
    config.bot[: len(BOT)] = BOT
    fleet.watch, fleet.rtc_judges = WatchState.SYNCED, 1
    set_fields(
        view.plan, revision=40, mode=PlanMode.ACTIVE, epoch=3, total=16, max_concurrency=1,
        duration_ms=D_MS, slots=4,
    )  # fmt: skip
    for n in range(4):
        set_fields(view.plan.ranges[n], start=4 * n, count=4)
        show(n, state=SlotState.ABSENT)


def show(n, **fields):
    view = LAB.g(FLEET_VIEW).slots[n]
    given = {
        "state": SlotState.FREE, "revision": 50 + n, "seen_at": NOW, "claim_at": 0, "generation": 6,
        "epoch": 3, "start": 4 * n, "count": 4, "total": 16,
    }  # fmt: skip
    set_fields(view, **{**given, **fields})
    return view


def call(routine, tsc=NOW + 7, **inputs):
    return LAB.call(routine, Environment(tsc=lambda: tsc), **inputs).outputs


def held(place=0):
    return LAB.g(FLEET).held[place]


def test_cas_send_writes_what_a_real_server_took():
    out = LAB.g(FLEET_OUT)
    key, value = b"$KV.shardfw.b1.ctl.lease.0", b"1 held n7 3fa2c1d0 1 1 20000 3 0 4 16"
    out.key[: len(key)], out.key_len = key, len(key)
    out.value[: len(value)], out.value_len = value, len(value)
    BENCH.link.inbox_next = 1
    assert call(cas_send, expected=2) == {"cf": 0, "eax": 2}
    assert BENCH.queued() == (
        b"HPUB $KV.shardfw.b1.ctl.lease.0 _I.n7.3fa2c1d0.c.2 52 89\r\n"
        b"NATS/1.0\r\nNats-Expected-Last-Subject-Sequence: 2\r\n\r\n"
        b"1 held n7 3fa2c1d0 1 1 20000 3 0 4 16\r\n"
    )


@pytest.mark.parametrize("expected", [0, 9, 10, 2**64 - 1])
def test_cas_send_any_revision(expected):
    out = LAB.g(FLEET_OUT)
    out.key_len, out.value_len = 96, 0x220
    call(cas_send, expected=expected)
    size = 51 + len(str(expected))
    assert b" %d %d\r\n" % (size, size + 0x220) in BENCH.queued()


def test_cas_send_on_a_link_that_is_not_up_sends_nothing():
    BENCH.link.state = LinkState.HELLO
    assert call(cas_send, expected=2)["cf"] == 1
    assert BENCH.queued() == b""


def test_claim_slot_is_the_next_generation_on_the_record_that_was_seen():
    show(2, revision=77, state=SlotState.FREE)
    LAB.g(FLEET).op = 4
    call(claim_slot, slot=2)
    assert BENCH.queued().endswith(
        b" _I.n7.3fa2c1d0.c.1 53 90\r\nNATS/1.0\r\nNats-Expected-Last-Subject-Sequence: 77\r\n\r\n"
        b"1 held n7 3fa2c1d0 7 5 20000 3 8 4 16\r\n"
    )
    slot = held()
    assert (slot.phase, slot.slot, slot.generation) == (HeldPhase.CLAIMING, 2, 7)
    assert (slot.expected, slot.plan_revision, slot.revision) == (77, 40, 0)
    assert (slot.deadline, slot.hard_stop, slot.seen) == (0, 0, 0)
    assert (slot.ops[0].op, slot.ops[0].sent_at, slot.ops[0].inbox) == (5, NOW + 7, 1)
    fleet = LAB.g(FLEET)
    assert (fleet.claims, fleet.takeovers, fleet.holding) == (1, 0, 1)


def test_claim_slot_of_somebody_else_is_a_takeover():
    show(0, state=SlotState.HELD)
    call(claim_slot, slot=0)
    assert LAB.g(FLEET).takeovers == 1


def test_claim_slot_that_cannot_be_sent_leaves_nothing_behind():
    BENCH.link.state = LinkState.DOWN
    show(0)
    call(claim_slot, slot=0)
    fleet = LAB.g(FLEET)
    assert (held().phase, fleet.claims, fleet.holding) == (HeldPhase.NONE, 0, 0)


@pytest.mark.parametrize("free", [0, 3, HELD_MAX - 1])
def test_claim_slot_takes_the_first_free_entry_or_none(free):
    show(0)
    for n in range(HELD_MAX):
        held(n).phase = HeldPhase.GONE
    call(claim_slot, slot=0)
    assert BENCH.queued() == b""
    held(free).phase = HeldPhase.NONE
    call(claim_slot, slot=0)
    assert held(free).phase == HeldPhase.CLAIMING


@pytest.mark.parametrize(
    ("fields", "due"),
    [
        ({}, NOW),
        ({"state": SlotState.HELD, "duration_ms": D_MS}, NOW + WAIT),
        ({"state": SlotState.HELD, "duration_ms": 4_001}, NOW + (4_042 + 500) * MS),
        ({"state": SlotState.HELD, "duration_ms": D_MS, "mine": 1}, NOW + WAIT),
        ({"state": SlotState.ABSENT}, None),
        ({"epoch": 2}, None),
        ({"epoch": 4}, None),
        ({"total": 15}, None),
        ({"start": 0}, None),
        ({"count": 3}, None),
    ],
)
def test_claim_time(fields, due):
    view = show(1, **fields)
    found = call(claim_time, view=view.address_, number=1)
    assert found["cf"] == (due is None)
    if due is not None:
        assert found["rax"] == due


@pytest.mark.parametrize(("avoid", "due"), [(NOW - 1, NOW), (NOW + 1, NOW + 1)])
def test_claim_time_leaves_a_slot_that_was_released_to_others_first(avoid, due):
    view = show(1)
    LAB.g(FLEET).avoid_until[8:16] = avoid.to_bytes(8, "little")
    assert call(claim_time, view=view.address_, number=1)["rax"] == due


@pytest.mark.parametrize(
    ("wish", "generation", "due"),
    [
        (Holder.MINE, 6, NOW + WAIT),
        (Holder.OTHER, 6, NOW + WAIT + 7 * MS + 5_000 * MS),
        (Holder.NOBODY, 6, NOW + WAIT + 7 * MS),
        (Holder.MINE, 5, NOW + WAIT + 7 * MS),
        (Holder.OTHER, 7, NOW + WAIT + 7 * MS),
    ],
)
def test_claim_time_lets_the_node_go_first_that_a_slot_shall_go_to(wish, generation, due):
    view = show(1, state=SlotState.HELD, duration_ms=D_MS, wish=wish, wish_generation=generation)
    LAB.g(FLEET).avoid_until[8:16] = (NOW + WAIT + 7 * MS).to_bytes(8, "little")
    assert call(claim_time, view=view.address_, number=1) == {"cf": 0, "rax": due}


def tick(now=NOW):
    LAB.g(CORE).now = now
    return call(claims_tick, tsc=now)["rax"]


def test_claims_tick_of_a_free_slot_waits_for_its_jitter_alone():
    view = show(1)
    due = tick()
    assert NOW <= due < NOW + 300 * MS
    assert view.claim_at == due
    if due > NOW:
        assert tick(due - 1) == due
        assert held().phase == HeldPhase.NONE
    assert tick(due) == due + 100 * MS
    assert (held().phase, held().slot) == (HeldPhase.CLAIMING, 1)


def test_claims_tick_takes_a_slot_that_shall_come_here_without_jitter():
    show(1, wish=Holder.MINE, wish_generation=6)
    LAB.g(FLEET).avoid_until[8:16] = (NOW + 9).to_bytes(8, "little")
    assert tick() == NOW + 100 * MS
    assert (held().phase, held().slot) == (HeldPhase.CLAIMING, 1)


def test_claims_tick_leaves_a_slot_that_shall_go_elsewhere_for_five_seconds():
    show(1, wish=Holder.OTHER, wish_generation=6)
    assert tick() == NOW + 5_000 * MS
    assert held().phase == HeldPhase.NONE


def test_claims_tick_of_a_held_slot_waits_for_its_time_and_then_for_its_jitter():
    view = show(1, state=SlotState.HELD, duration_ms=D_MS, claim_at=5)
    assert tick(NOW + WAIT - 1) == NOW + WAIT
    assert view.claim_at == 0
    due = tick(NOW + WAIT)
    assert NOW + WAIT <= due < NOW + WAIT + 300 * MS
    tick(due)
    assert (held().phase, LAB.g(FLEET).takeovers) == (HeldPhase.CLAIMING, 1)


def test_claims_tick_takes_the_soonest_of_several():
    show(0, claim_at=NOW + 5)
    show(1, state=SlotState.HELD, duration_ms=D_MS)
    show(3, claim_at=NOW + 3)
    assert tick() == NOW + 3
    assert tick(NOW + 3) == NOW + 3 + 100 * MS
    assert held().slot == 3


@pytest.mark.parametrize("cap", [1, 2, HELD_MAX, 255])
def test_claims_tick_keeps_to_the_cap(cap):
    LAB.g(FLEET_CONFIG).cap = cap
    show(0, claim_at=1)
    LAB.g(FLEET).holding = min(cap, HELD_MAX)
    assert tick() == NEVER
    LAB.g(FLEET).holding -= 1
    assert tick() == NOW + 100 * MS
    assert held().phase == HeldPhase.CLAIMING


@pytest.mark.parametrize(
    "state",
    [
        {"watch": WatchState.SYNCING}, {"watch": WatchState.OFF}, {"closing": 1},
        {"mode": PlanMode.DRAIN}, {"mode": PlanMode.UNKNOWN}, {"cycles": 0}, {"drained": 1},
        {"rtc_judges": 0},
    ],
)  # fmt: skip
def test_claims_tick_claims_nothing(state):
    show(0, claim_at=1)
    state = dict(state)
    LAB.g(FLEET_VIEW).plan.mode = state.pop("mode", PlanMode.ACTIVE)
    LAB.g(FLEET_VIEW).drained = state.pop("drained", 0)
    LAB.g(CLOCK).tsc_cycles_per_ms = state.pop("cycles", MS)
    set_fields(LAB.g(FLEET), **state)
    assert tick() == NEVER
    assert held().phase == HeldPhase.NONE


def test_claims_tick_never_claims_what_it_has_in_any_phase():
    LAB.g(FLEET_CONFIG).cap = 2
    show(0, claim_at=1)
    for phase in set(HeldPhase) - {HeldPhase.NONE}:
        set_fields(held(4), phase=phase, slot=0)
        assert tick() == NEVER


@settings(max_examples=60, deadline=None)
@given(
    states=st.lists(st.sampled_from(SlotState), min_size=4, max_size=4),
    seen=st.lists(st.integers(-1, 1), min_size=4, max_size=4),
    claims=st.lists(st.sampled_from([0, NOW - 1, NOW, NOW + 1]), min_size=4, max_size=4),
    wishes=st.lists(st.sampled_from(Holder), min_size=4, max_size=4),
    up=st.booleans(),
)
def test_claims_tick_any_views_match_the_model(states, seen, claims, wishes, up):
    prepare()
    if not up:
        BENCH.link.state = LinkState.DOWN
    for n in range(4):
        at = NOW + seen[n] - (WAIT if states[n] == SlotState.HELD else 0)
        show(
            n, state=states[n], seen_at=at, claim_at=claims[n], duration_ms=D_MS, wish=wishes[n],
            wish_generation=6,
        )  # fmt: skip
    tick()
