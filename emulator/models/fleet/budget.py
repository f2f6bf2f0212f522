"""The bot's session starts of a day."""

from typing import Any

from emulator.effects import World, model
from emulator.models.fleet.answer import answer_read
from emulator.models.fleet.cas import cas_send
from emulator.models.fleet.texts import Value, set_key
from emulator.models.log import log_write
from firmware.layouts.bus import BUS
from firmware.layouts.fleet import FLEET, FLEET_VIEW, PlanMode
from firmware.layouts.fleet_config import FLEET_CONFIG, FLEET_MAGIC
from firmware.layouts.fleet_tickets import BUDGET_RESTATED, FLEET_BUDGET, FLEET_TICKETS, Ticket
from firmware.layouts.log import FLEET_BUDGET_SPENT
from firmware.layouts.node import CLOCK, CORE
from firmware.layouts.permit import PERMITS
from firmware.layouts.shard import ShardContext


def tickets(w: World) -> list[Any]:
    """Return every ticket, by key."""
    first = w.address(FLEET_TICKETS)
    return [w.view(Ticket, first + n * Ticket.SIZE) for n in range(FLEET_TICKETS.count)]


def ticket_at(w: World, key: int) -> Any:  # noqa: ANN401 - a View by field
    """Return the ticket of a key."""
    return w.view(Ticket, w.address(FLEET_TICKETS) + key * Ticket.SIZE)


@model
def ticket_of(w: World, shard: int) -> tuple[int, Any, Any, Any, Any]:
    """The key is what is left of the shard's number."""
    plan, number = w.g(FLEET_VIEW).plan, w.view(ShardContext, shard).shard_id
    if plan.mode == PlanMode.UNKNOWN:
        return 1, None, None, None, None
    place, key = divmod(number, plan.max_concurrency)
    return 0, ticket_at(w, key).address_, w.g(FLEET_VIEW).tickets[key].address_, key, place


@model
def budget_spent(w: World, shard: int) -> int:
    """At most the reserve is left, and nothing is paid for this key."""
    budget, config = w.g(FLEET_VIEW).budget, w.g(FLEET_CONFIG)
    if config.magic != FLEET_MAGIC or not budget.revision:
        return 0
    unknown, ticket, *_ = ticket_of(w, shard)
    if unknown or w.view(Ticket, ticket).paid:
        return 0
    return int(budget.remaining <= config.reserve)


@model
def budget_tell(w: World) -> None:
    """Once for each record."""
    budget, op = w.g(FLEET_VIEW).budget, w.g(FLEET_BUDGET)
    if op.told != budget.revision:
        op.told = budget.revision
        reserve = w.g(FLEET_CONFIG).reserve
        log_write(w, 0, FLEET_BUDGET_SPENT, budget.remaining, reserve, budget.total, 0)


@model
def budget_pay(w: World, shard: int, ticket: int, key: int) -> int:
    """What is left less one."""
    budget = w.g(FLEET_VIEW).budget
    if w.view(Ticket, ticket).paid:
        return 0
    if not budget.revision:
        return 1
    if budget_spent(w, shard):
        budget_tell(w)
        return 1
    budget_write(w, (budget.remaining - 1) % 2**32, budget.total, key)
    return 1


@model
def budget_write(w: World, remaining: int, total: int, purpose: int) -> int:
    """One request at a time, for a second each."""
    op, fleet, bus = w.g(FLEET_BUDGET), w.g(FLEET), w.g(BUS)
    now = w.rdtsc()
    if op.sent_at and now < op.sent_at + 1_000 * w.g(CLOCK).tsc_cycles_per_ms:
        return 1
    set_key(w, b"budget", "budget")
    value = Value(w)
    value.text(b"1 ")
    value.numbers(remaining, total)
    value.text(b" " + bytes(bus.node[: bus.node_len]) + b" ")
    fleet.op += 1
    value.number(fleet.op)
    value.end()
    refused, inbox = cas_send(w, w.g(FLEET_VIEW).budget.revision)
    if not refused:
        op.inbox, op.sent_at, op.key = inbox, now, purpose
    return int(refused)


@model
def budget_restate(w: World) -> None:
    """As long as the record has not had what was said last, which was half a minute ago at most."""
    permits, op = w.g(PERMITS), w.g(FLEET_BUDGET)
    if permits.said == op.restated or not w.g(FLEET_VIEW).budget.revision:
        return
    cycles = w.g(CLOCK).tsc_cycles_per_ms
    said_at = permits.reset_at - permits.reset_after_ms * cycles
    if (w.g(CORE).now - said_at) % 2**64 > 30_000 * cycles:
        op.restated = permits.said
        return
    if not budget_write(w, permits.remaining, permits.total, BUDGET_RESTATED):
        op.restating = permits.said


@model
def budget_answered(w: World, inbox: int) -> int:
    """Paid or said, or on its way no more."""
    op = w.g(FLEET_BUDGET)
    if not op.sent_at or op.inbox != inbox:
        return 1
    op.sent_at = 0
    if not answer_read(w)[0]:
        if op.key == BUDGET_RESTATED:
            op.restated = op.restating
        else:
            ticket_at(w, op.key).paid = 1
    return 0
