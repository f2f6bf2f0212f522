"""What the node calls."""

from emulator.effects import World, model
from emulator.models.bus.send import bus_close, bus_open, bus_request_id
from emulator.models.bus.turn import bus_next
from emulator.models.fleet.answer import lease_answered
from emulator.models.fleet.budget import budget_answered, budget_restate
from emulator.models.fleet.cas import control
from emulator.models.fleet.claim import claims_tick
from emulator.models.fleet.delivery import watch_heard
from emulator.models.fleet.enrol import enrol_begin, enrol_tick
from emulator.models.fleet.enrol_grant import enrol_input
from emulator.models.fleet.held import lease_mirror
from emulator.models.fleet.idle import watch_idle
from emulator.models.fleet.orders import orders_obey
from emulator.models.fleet.renew import held_tick_all
from emulator.models.fleet.texts import watch_text
from emulator.models.fleet.ticket import ticket_answered
from emulator.models.fleet.watch import watch_answered, watch_begin, watch_check
from firmware.layouts.bus import BUS_IN, INBOX_SID
from firmware.layouts.clock import NEVER
from firmware.layouts.enrol import ENROL, EnrolState
from firmware.layouts.fleet import (
    FLEET,
    WATCH_TEXT_MAX,
    FleetKind,
    HeldPhase,
    WatchState,
)
from firmware.layouts.fleet_config import FLEET_CONFIG, FLEET_MAGIC
from firmware.layouts.node import CLOCK, CORE, LEASE
from firmware.layouts.token import TOKEN

ANSWERS = (lease_answered, ticket_answered, budget_answered)
GRANTED = (HeldPhase.HELD, HeldPhase.RUNNING)


@model
def fleet_setup(w: World) -> None:
    """No lease, and perhaps no token."""
    if w.g(FLEET_CONFIG).magic == FLEET_MAGIC:
        w.g(LEASE).expired = 1
        enrol_begin(w)


@model
def watch_open(w: World) -> None:
    """All of it or nothing."""
    link, shard = control(w)
    place, refused = bus_open(w, link, shard, WATCH_TEXT_MAX)
    if not refused:
        request = bus_request_id(w, link)
        last = watch_begin(w, request)
        bus_close(w, link, shard, watch_text(w, link, place, request, last))


@model
def fleet_next(w: World) -> int:
    """Until there is none, or one for the node."""
    fleet, message = w.g(FLEET), w.g(BUS_IN)
    while bus_next(w, *control(w)):
        if message.sid == INBOX_SID:
            if not message.inbox:
                continue
            if message.inbox == fleet.watch_inbox:
                watch_answered(w)
            elif all(answered(w, message.inbox) for answered in ANSWERS) and enrol_input(w):
                return FleetKind.REPLY
        elif message.sid == fleet.watch_sid and fleet.watch != WatchState.OFF:
            watch_heard(w)
    return FleetKind.NONE


@model
def fleet_tick(w: World) -> int:
    """At least ten times a second; without a token only the wait for it."""
    fleet = w.g(FLEET)
    if w.g(FLEET_CONFIG).magic != FLEET_MAGIC:
        return NEVER
    if w.g(ENROL).state != EnrolState.OFF:
        due = enrol_tick(w, *control(w))
        if not w.g(TOKEN).length:
            fleet.next_deadline = due
            return due
    if watch_check(w):
        watch_open(w)
    orders_obey(w)
    budget_restate(w)
    soonest = held_tick_all(w)
    lease_mirror(w)
    claims = claims_tick(w)
    watch_idle(w, claims)
    soonest = min(soonest, claims)
    look = (w.g(CORE).now + 100 * w.g(CLOCK).tsc_cycles_per_ms) % 2**64
    fleet.next_deadline = min(soonest, look)
    return int(fleet.next_deadline)


@model
def fleet_close(w: World) -> None:
    """Every one."""
    w.g(FLEET).closing = 1
    orders_obey(w)


@model
def fleet_left(w: World) -> int:
    """As the last turn counted them."""
    return int(w.g(FLEET).holding)
