"""Identify tickets."""

from emulator.effects import World, model
from emulator.models.fleet.answer import answer_read
from emulator.models.fleet.budget import budget_pay, ticket_at, ticket_of, tickets
from emulator.models.fleet.cas import cas_send
from emulator.models.fleet.operation import jitter
from emulator.models.fleet.texts import Value, set_key
from emulator.models.log import log_write
from firmware.layouts.fleet import FLEET, Holder, TicketView, WatchState
from firmware.layouts.fleet_config import FLEET_CONFIG, FLEET_MAGIC
from firmware.layouts.fleet_tickets import Ticket, TicketPhase
from firmware.layouts.log import FLEET_TICKET, FLEET_TICKET_VOID
from firmware.layouts.node import CLOCK, CORE
from firmware.layouts.shard import ShardContext

W_MS = 1_000


@model
def ticket_ask(w: World, shard: int, ticket: int, key: int) -> int:
    """The time comes before the bytes."""
    mine, fleet = w.view(Ticket, ticket), w.g(FLEET)
    sent = w.rdtsc()
    set_key(w, b"ident.", "ticket", key)
    fleet.op += 1
    op = int(fleet.op)
    value = Value(w)
    value.text(b"1 ")
    value.holder()
    value.numbers(op, w.view(ShardContext, shard).shard_id)
    value.end()
    refused, inbox = cas_send(w, mine.revision)
    if refused:
        return 1
    mine.inbox, mine.op, mine.sent_at = inbox, op, sent
    mine.frozen, mine.ask_at, mine.phase = fleet.frozen, 0, TicketPhase.ASKED
    return 0


@model
def ticket_take(w: World, shard: int, spacing: int) -> int:
    """Granted to this shard, and not void."""
    if w.g(FLEET_CONFIG).magic != FLEET_MAGIC:
        return 0
    unknown, at, view_at, key, place = ticket_of(w, shard)
    if unknown:
        return 1
    fleet, now, cycles = w.g(FLEET), w.g(CORE).now, w.g(CLOCK).tsc_cycles_per_ms
    ticket, view = w.view(Ticket, at), w.view(TicketView, view_at)
    number = w.view(ShardContext, shard).shard_id
    if ticket.phase != TicketPhase.NONE:
        fresh = w.rdtsc() < ticket.sent_at + W_MS * cycles and ticket.frozen == fleet.frozen
        if fresh:
            return int((ticket.phase, ticket.shard) != (TicketPhase.MINE, number))
        void = ticket.phase == TicketPhase.MINE
        ticket.phase = TicketPhase.NONE
        if void:
            log_write(w, 0, FLEET_TICKET_VOID, ticket.shard, key, 0, 0)
            return 1
    if fleet.watch != WatchState.SYNCED or not view.revision:
        return 1
    known_ms = -(-(spacing + W_MS) * 101 // 100) + 100
    if now < view.seen_at + known_ms * cycles or budget_pay(w, shard, at, key):
        return 1
    due = int(ticket.ask_at)
    decided = due and ticket.revision == view.revision
    if decided and ticket.shard != number and now <= due + W_MS * cycles:
        return 1
    if not decided or ticket.shard != number:
        due = jitter(w, 8) + place * 10 * cycles + now
        ticket.ask_at, ticket.shard, ticket.revision = due, number, view.revision
    if now >= due:
        ticket_ask(w, shard, at, key)
    return 1


@model
def ticket_spend(w: World, shard: int) -> None:
    """One Identify for each ticket."""
    if w.g(FLEET_CONFIG).magic != FLEET_MAGIC:
        return
    unknown, at, _, key, _ = ticket_of(w, shard)
    if not unknown:
        ticket = w.view(Ticket, at)
        ticket.phase, ticket.paid = TicketPhase.NONE, 0
        age = (w.g(CORE).now - ticket.sent_at) % 2**64
        log_write(w, 0, FLEET_TICKET, w.view(ShardContext, shard).shard_id, key, age, 0)


@model
def ticket_answered(w: World, inbox: int) -> int:
    """A grant, or no news."""
    for ticket in tickets(w):
        if ticket.phase == TicketPhase.ASKED and ticket.inbox == inbox:
            if not answer_read(w)[0]:
                ticket.phase = TicketPhase.MINE
            return 0
    return 1


@model
def ticket_seen(w: World, key: int, holder: int, op: int) -> None:
    """Ours, or somebody else was faster."""
    ticket = ticket_at(w, key)
    if ticket.phase == TicketPhase.ASKED:
        ours = holder == Holder.MINE and op == ticket.op
        ticket.phase = TicketPhase.MINE if ours else TicketPhase.NONE
