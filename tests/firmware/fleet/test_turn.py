"""The turn of the fleet: whose a message is, and what time asks for."""

import pytest

from emulator.environment import Environment
from firmware.fleet.turn import (
    fleet_close,
    fleet_left,
    fleet_next,
    fleet_setup,
    fleet_tick,
    watch_open,
)
from firmware.layouts.bus import BUS, LinkState
from firmware.layouts.clock import NEVER
from firmware.layouts.enrol import ENROL, EnrolState
from firmware.layouts.fleet import FLEET, FLEET_VIEW, FleetKind, HeldPhase, PlanMode, WatchState
from firmware.layouts.fleet_config import FLEET_CONFIG
from firmware.layouts.fleet_sites import FLEET_ASKED
from firmware.layouts.fleet_tickets import FLEET_BUDGET, FLEET_TICKETS, Ticket, TicketPhase
from firmware.layouts.node import CORE, LEASE
from firmware.layouts.token import TOKEN
from firmware.layouts.variants import VARIANTS
from tests.support.bus import BusBench
from tests.support.enrol import INFO, PRIVATE, public_of, sealed
from tests.support.enrol import TOKEN as BOT_TOKEN
from tests.support.fleet import BOT, set_fields
from tests.support.segments import CYCLES_PER_MS as MS
from tests.support.segments import NOW
from tests.support.token import set_token

BENCH = BusBench(fleet_left, fleet_close, fleet_next, fleet_setup, fleet_tick, watch_open)
LAB = BENCH.lab
WATCH = b"_W.n7.3fa2c1d0.1"
PLAN = b"1 active 3 16 1 20000 4 0+4 4+4 8+4 12+4"
CREATED = b'{"type":"io.nats.jetstream.api.v1.consumer_create_response","num_pending":5}'


@pytest.fixture(autouse=True)
def node():
    BENCH.reset()
    BENCH.up(ups=1)
    set_token(LAB, b"a.bot.token")
    config, fleet = LAB.g(FLEET_CONFIG), LAB.g(FLEET)
    config.cap, config.bot_len = 1, len(BOT)
    config.bot[: len(BOT)] = BOT
    set_fields(
        fleet, ups=1, watch=WatchState.SYNCING, watch_sid=4097, heard_at=NOW, begun_at=NOW,
        rtc_judges=1,
    )  # fmt: skip


def message(subject, sid, body, reply=b""):
    words = [b"MSG", subject, b"%d" % sid, *([reply] if reply else []), b"%d" % len(body)]
    BENCH.arrive(b" ".join(words) + b"\r\n" + body + b"\r\n")


def delivery(key, body, count, revision, pending=0, sid=4097):
    reply = b"$JS.ACK.KV_shardfw.8YGLel76.1.%d.%d.1795.%d" % (revision, count, pending)
    message(b"$KV.shardfw.b1.ctl." + key, sid, body, reply)


def following(tsc=NOW + 3):
    return LAB.call(fleet_next, Environment(tsc=lambda: tsc)).outputs["eax"]


def tick(now=NOW):
    LAB.g(CORE).now = now
    return LAB.call(fleet_tick, Environment(tsc=lambda: now)).outputs["rax"]


def test_fleet_setup_begins_without_a_lease():
    LAB.call(fleet_setup)
    assert LAB.g(LEASE).expired == 1
    LAB.g(LEASE).expired, LAB.g(FLEET_CONFIG).magic = 0, 0
    LAB.call(fleet_setup)
    assert LAB.g(LEASE).expired == 0


def test_fleet_setup_without_a_token_begins_to_enrol():
    set_token(LAB, b"")
    LAB.g(VARIANTS).usable = 0
    LAB.call(fleet_setup)
    assert (LAB.g(LEASE).expired, LAB.g(ENROL).state) == (1, EnrolState.IMPOSSIBLE)
    assert tick() == NEVER
    assert (BENCH.queued(), LAB.g(FLEET).watch) == (b"", WatchState.SYNCING)


def waiting():
    """Let the node wait for its token; nothing else of the fleet is to be heard."""
    set_token(LAB, b"")
    state = LAB.g(ENROL)
    state.state, state.inbox = EnrolState.WAITING, 6
    state.keys.private[:], state.keys.public[:] = PRIVATE, public_of().public_bytes_raw()
    state.info[: len(INFO)], state.info_len = INFO, len(INFO)
    LAB.g(BUS).enrolling, LAB.g(FLEET).watch = 1, WatchState.OFF
    return state


def test_fleet_tick_without_a_token_announces_and_does_nothing_else():
    state = waiting()
    due = tick()
    assert NOW + 4500 * MS <= due <= NOW + 5500 * MS
    assert due == LAB.g(FLEET).next_deadline
    assert BENCH.queued().startswith(b"PUB shardfw.b1.enrol.n7 _E.n7.3fa2c1d0.c.6 ")
    assert BENCH.queued().count(b"\r\n") == 2
    assert (state.announced, LAB.g(FLEET).watch, LAB.g(FLEET).claims) == (1, WatchState.OFF, 0)


def test_fleet_next_hands_what_is_released_to_the_enrolment_and_the_claims_begin():
    state = waiting()
    message(b"_E.n7.3fa2c1d0.c.6", 1, b"no seal")
    message(b"_E.n7.3fa2c1d0.c.7", 1, b"not asked for")
    message(b"_E.n7.3fa2c1d0.c.6", 1, sealed())
    assert following() == FleetKind.REPLY
    assert (state.refused, state.state) == (1, EnrolState.WAITING)
    assert following() == FleetKind.NONE
    assert (state.state, LAB.g(TOKEN).length) == (EnrolState.ENROLLED, len(BOT_TOKEN))
    # The links come back with another login; then there is a watch again.
    assert tick() == NOW + 100 * MS
    assert BENCH.link.state == LinkState.DOWN
    BENCH.up(ups=2)
    assert tick() == NOW + 100 * MS
    said = BENCH.queued()
    assert said.startswith(b"PUB shardfw.b1.enrol.n7 ")
    assert b"\r\n1 enrolled 1 " in said
    assert b"\r\nSUB _W.n7.3fa2c1d0.1 " in said
    assert LAB.g(FLEET).watch == WatchState.CREATING


def test_fleet_next_deals_with_its_own_and_hands_on_the_rest():
    fleet = LAB.g(FLEET)
    fleet.watch_inbox = 5
    message(b"_I.n7.3fa2c1d0.c.5", 1, CREATED)
    delivery(b"plan", PLAN, 1, 9, 1)
    message(b"b", 10, b"{}", b"_INBOX.a")
    message(b"_I.n7.3fa2c1d0.c.6", 1, b"{}")
    delivery(b"lease.0", b"1 free - - 0 0 0 3 0 4 16", 2, 10)
    assert following() == FleetKind.REPLY
    assert (LAB.g(FLEET_VIEW).plan.revision, fleet.watch) == (9, WatchState.SYNCING)
    assert following() == FleetKind.NONE
    assert (LAB.g(FLEET_VIEW).slots[0].revision, fleet.watch) == (10, WatchState.SYNCED)


def test_fleet_next_takes_nothing_of_an_earlier_watch_or_of_one_that_ended():
    fleet = LAB.g(FLEET)
    delivery(b"plan", PLAN, 1, 9, sid=4098)
    delivery(b"plan", PLAN, 3, 9)
    delivery(b"plan", PLAN, 1, 9)
    assert following() == FleetKind.NONE
    assert (fleet.watch, LAB.g(FLEET_VIEW).plan.revision) == (WatchState.OFF, 0)


def test_fleet_next_takes_an_answer_to_an_operation():
    held = LAB.g(FLEET).held[0]
    set_fields(held, phase=HeldPhase.CLAIMING, duration_ms=20_000)
    set_fields(held.ops[0], op=1, inbox=7, sent_at=NOW)
    message(b"_I.n7.3fa2c1d0.c.7", 1, b'{"stream":"KV_shardfw","seq":11}')
    message(b"_I.n7.3fa2c1d0.c.x", 1, b'{"stream":"KV_shardfw","seq":11}')
    assert following() == FleetKind.NONE
    assert (held.phase, held.revision) == (HeldPhase.HELD, 11)


def test_fleet_next_takes_answers_of_tickets_and_of_the_budget():
    ticket = LAB.view(Ticket, LAB.image.address(FLEET_TICKETS))
    set_fields(ticket, phase=TicketPhase.ASKED, inbox=7)
    set_fields(LAB.g(FLEET_BUDGET), sent_at=NOW, inbox=8, key=0)
    message(b"_I.n7.3fa2c1d0.c.7", 1, b'{"stream":"KV_shardfw","seq":11}')
    message(b"_I.n7.3fa2c1d0.c.8", 1, b'{"stream":"KV_shardfw","seq":12}')
    assert following() == FleetKind.NONE
    assert (ticket.phase, ticket.paid) == (TicketPhase.MINE, 1)


def test_watch_open_sends_the_subscription_and_the_request():
    fleet = LAB.g(FLEET)
    fleet.watch_sid = 0
    LAB.call(watch_open)
    assert BENCH.queued().startswith(b"SUB " + WATCH + b" 4097\r\nPUB $JS.API.CONSUMER.CREATE.")
    assert b" _I.n7.3fa2c1d0.c.1 308\r\n" in BENCH.queued()
    assert (fleet.watch, fleet.watch_inbox) == (WatchState.CREATING, 1)
    BENCH.link.state = LinkState.DOWN
    LAB.call(watch_open)
    assert fleet.resyncs == 1


def test_fleet_tick_without_a_fleet_is_nothing():
    LAB.g(FLEET_CONFIG).magic = 0
    assert tick() == NEVER


def test_fleet_tick_makes_a_watch_and_looks_again():
    LAB.g(FLEET).watch = WatchState.OFF
    assert tick() == NOW + 100 * MS
    assert LAB.g(FLEET).watch == WatchState.CREATING
    assert LAB.g(LEASE).expired == 1


def test_fleet_a_whole_claim_from_the_first_delivery_to_the_release():
    """Plan and free slot, claim, echo, start, release."""
    fleet, lease = LAB.g(FLEET), LAB.g(LEASE)
    held = fleet.held[0]
    delivery(b"plan", PLAN, 1, 9, 1)
    delivery(b"lease.0", b"1 free - - 6 0 0 3 0 4 16", 2, 10)
    following(NOW)
    due = tick()
    assert NOW <= due <= NOW + 100 * MS
    now = LAB.g(FLEET_VIEW).slots[0].claim_at
    tick(now)
    assert BENCH.queued().endswith(b"1 held n7 3fa2c1d0 7 1 20000 3 0 4 16\r\n")
    assert (held.phase, lease.expired) == (HeldPhase.CLAIMING, 1)
    message(b"_I.n7.3fa2c1d0.c.1", 1, b'{"stream":"KV_shardfw","seq":11}')
    following()
    assert held.phase == HeldPhase.HELD
    delivery(b"lease.0", b"1 held n7 3fa2c1d0 7 1 20000 3 0 4 16", 3, 11)
    following()
    assert held.phase == HeldPhase.RUNNING
    tick(now)
    assert (lease.expired, lease.deadline) == (0, now + 17_800 * MS)
    held.shards = 4

    LAB.call(fleet_close)
    assert (held.phase, held.reason) == (HeldPhase.STOPPING, FLEET_ASKED.code)
    tick(now + 1)
    assert held.phase == HeldPhase.STOPPING
    held.shards = 0
    tick(now + 2)
    assert held.phase == HeldPhase.RELEASING
    assert BENCH.queued().endswith(b"1 free - - 7 2 0 3 0 4 16\r\n")
    delivery(b"lease.0", b"1 free - - 7 2 0 3 0 4 16", 4, 12)
    following(now + 2)
    assert (held.phase, fleet.lost) == (HeldPhase.NONE, 0)
    tick(now + 3)
    assert (lease.expired, LAB.g(FLEET_VIEW).slots[0].claim_at) == (1, 0)


def test_fleet_tick_of_a_node_that_may_claim_nothing_doubts_its_watch_in_time():
    fleet = LAB.g(FLEET)
    delivery(b"node.n7", b"1 drain", 1, 9, 1)
    delivery(b"plan", PLAN, 2, 10)
    following(NOW)
    tick()
    assert NOW + 30_000 * MS <= fleet.idle_at < NOW + 60_000 * MS
    # A heartbeat came meanwhile.
    fleet.heard_at = at = int(fleet.idle_at)
    assert tick(at) == at + 100 * MS
    assert (fleet.watch, BENCH.queued()) == (WatchState.OFF, b"")
    tick(at + 1)
    assert fleet.watch == WatchState.CREATING
    assert BENCH.queued().startswith(b"UNSUB 4097\r\nSUB ")


def test_fleet_tick_of_a_node_that_waits_for_a_slot_keeps_its_watch():
    fleet = LAB.g(FLEET)
    delivery(b"plan", PLAN, 1, 9, 1)
    delivery(b"lease.0", b"1 held n8 3fa2c1d1 6 1 600000 3 0 4 16", 2, 10)
    following(NOW)
    tick()
    assert (fleet.watch, fleet.idle_at) == (WatchState.SYNCED, 0)


def test_fleet_a_drain_before_the_echo_starts_nothing():
    fleet = LAB.g(FLEET)
    held = fleet.held[0]
    set_fields(LAB.g(FLEET_VIEW).plan, revision=9, mode=PlanMode.ACTIVE, epoch=3, total=16, slots=4)
    set_fields(
        held, phase=HeldPhase.CLAIMING, generation=7, duration_ms=20_000, expected=10, epoch=3,
        total=16, count=4, plan_revision=9,
    )  # fmt: skip
    set_fields(held.ops[0], op=1, inbox=7, sent_at=NOW)
    delivery(b"plan", PLAN.replace(b"active", b"drain"), 1, 11)
    delivery(b"lease.0", b"1 held n7 3fa2c1d0 7 1 20000 3 0 4 16", 2, 12)
    following()
    assert held.phase == HeldPhase.STOPPING


def test_fleet_left_counts_what_is_not_given_back():
    LAB.g(FLEET).holding = 2
    assert LAB.call(fleet_left).outputs["eax"] == 2


@pytest.mark.parametrize(
    ("key", "value"), [(b"node.n7", b"1 drain"), (b"move.0", b"1 7 n8"), (b"move.0", b"1 7 n9")]
)
def test_fleet_an_order_gives_back_what_runs_and_nothing_is_claimed_again(key, value):
    fleet = LAB.g(FLEET)
    held = fleet.held[0]
    delivery(b"plan", PLAN, 1, 9, 1)
    delivery(b"lease.0", b"1 held n7 3fa2c1d0 7 1 20000 3 0 4 16", 2, 10)
    following(NOW)
    set_fields(
        held, phase=HeldPhase.RUNNING, generation=7, duration_ms=20_000, revision=10, epoch=3,
        total=16, count=4, plan_revision=9, seen=1, deadline=NOW + 20_000 * MS,
        hard_stop=NOW + 17_800 * MS, renew_at=NOW + 5_000 * MS,
    )  # fmt: skip
    tick()
    assert held.phase == HeldPhase.RUNNING
    delivery(key, value, 3, 11)
    following(NOW)
    tick()
    assert (held.phase, held.reason) == (HeldPhase.RELEASING, FLEET_ASKED.code)
    assert BENCH.queued().endswith(b"1 free - - 7 1 0 3 0 4 16\r\n")
    delivery(b"lease.0", b"1 free - - 7 1 0 3 0 4 16", 4, 12)
    following(NOW + 2)
    tick(NOW + 4_999 * MS)
    assert held.phase == HeldPhase.NONE


@pytest.mark.parametrize("phase", HeldPhase)
def test_fleet_close_of_every_phase(phase):
    fleet = LAB.g(FLEET)
    held = fleet.held[5]
    set_fields(held, phase=phase, slot=3)
    granted = phase in (HeldPhase.HELD, HeldPhase.RUNNING)
    LAB.call(fleet_close)
    assert held.phase == (HeldPhase.STOPPING if granted else phase)
    until = int.from_bytes(fleet.avoid_until[24:32], "little")
    assert until == (NOW + 5_000 * MS if granted else 0)
    assert fleet.closing == 1
