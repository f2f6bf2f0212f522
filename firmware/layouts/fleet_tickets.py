"""What a fleet node does about Identify tickets and about the session starts that are left.

The records of both, as the watch shows them, are parts of `fleet.FleetView`.
"""

from __future__ import annotations

import enum

from firmware.layouts.permit import PERMITS_MAX
from toolchain.layout import Global, Struct, enum8, u8, u32, u64

TICKET_MS = 1_000
"""An Identify leaves within this of its ticket's sending time, or the ticket is void: W."""
TICKET_GUARD_MS = 100
TICKET_ORDER_MS = 10
"""Shards ask in order: later by this for each group of `max_concurrency`."""
TICKET_JITTER_MS = 8
TICKET_LOOK_MS = 20
"""How soon a shard that waits for a ticket looks again."""
BUDGET_ANSWER_MS = 1_000
BUDGET_RESTATED = 0xFFFF_FFFF
"""In the place of a key."""
BUDGET_FRESH_MS = 30_000
"""What the service said longer ago is not written down: others have identified since."""
BUDGET_ASK_MS = 60_000
"""Between two questions of a node whose budget is spent; it asks when all starts are back."""


class TicketPhase(enum.IntEnum):
    """How far this node is with an Identify ticket."""

    NONE = 0
    ASKED = 1
    """Its compare-and-swap is sent."""
    MINE = 2
    """It is granted: one Identify may leave until it is void."""


class Ticket(Struct):
    """What this node does about the ticket of one key."""

    SIZE = 0x40
    phase = enum8(0x00, TicketPhase, "how far it is")
    paid = u8(0x01, "1 = the budget has paid for an Identify of this key that was not sent")
    shard = u32(0x04, "who asks")
    op = u32(0x08, "number of the operation")
    inbox = u32(0x0C, "number of the request")
    sent_at = u64(0x10, "TSC before it was sent: it is void TICKET_MS later")
    ask_at = u64(0x18, "TSC when it is asked for, the order of shards included; 0 = not decided")
    revision = u64(0x20, "of the record that `ask_at` was decided for, and that is replaced")
    frozen = u32(0x28, "Fleet.frozen when it was sent")


class BudgetOp(Struct):
    """The Identify that is being paid for, or the service's word that is being written."""

    SIZE = 0x28
    sent_at = u64(0x00, "TSC when it was sent; 0 = nothing is on its way")
    inbox = u32(0x08, "number of the request")
    key = u32(0x0C, "which key it is for; BUDGET_RESTATED = it says what the service says")
    told = u64(0x10, "revision of the budget whose end was told of")
    restated = u32(0x18, "Permits.said that the record has had")
    restating = u32(0x1C, "with BUDGET_RESTATED: Permits.said that is on its way")
    ask_at = u64(0x20, "TSC before which a spent budget lets nobody ask the service again")


FLEET_TICKETS = Global("fleet_tickets", Ticket, "Identify tickets, by key", count=PERMITS_MAX)
FLEET_BUDGET = Global("fleet_budget", BudgetOp, "session starts that are paid for")
