"""A node that may identify shard 6 once its ticket is paid for: its records, and answers to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from firmware.fleet.budget import (
    budget_answered,
    budget_pay,
    budget_restate,
    budget_spent,
    budget_tell,
    ticket_of,
)
from firmware.fleet.ticket import (
    ticket_answered,
    ticket_ask,
    ticket_seen,
    ticket_spend,
    ticket_take,
)
from firmware.layouts.fleet import FLEET, FLEET_VIEW, PlanMode, WatchState
from firmware.layouts.fleet_config import FLEET_CONFIG
from firmware.layouts.fleet_tickets import FLEET_TICKETS, Ticket
from firmware.layouts.shard import ShardContext
from tests.support.bus import BusBench
from tests.support.fleet import BOT, set_fields, take_in_hand
from tests.support.segments import CYCLES_PER_MS as MS
from tests.support.segments import NOW

if TYPE_CHECKING:
    from toolchain.asm import Routine

BENCH = BusBench(
    budget_answered, budget_pay, budget_restate, budget_spent, budget_tell, ticket_answered, ticket_ask, ticket_of,
    ticket_seen, ticket_spend, ticket_take,
)  # fmt: skip
LAB = BENCH.lab
KNOWN = 6_160 * MS
"""(5 s + 1 s) 1.01 + 100 ms."""
SIGN = 2**63
"""Times on either side of it are compared as they are: a TSC has no sign."""
GRANT = b'{"stream":"KV_shardfw","seq":9}'
REFUSED = b'{"error":{"code":400,"err_code":10071},"stream":"KV_shardfw","seq":0}'


def prepare() -> None:
    """Let the fleet's records be known, with sessions left and nobody's tickets."""
    BENCH.reset()
    BENCH.up()
    config, view = LAB.g(FLEET_CONFIG), LAB.g(FLEET_VIEW)
    config.bot_len, config.bot[: len(BOT)] = len(BOT), BOT
    LAB.g(FLEET).watch = WatchState.SYNCED
    set_fields(view.plan, mode=PlanMode.ACTIVE, max_concurrency=4)
    set_fields(view.budget, revision=30, remaining=900, total=1000)
    for n in range(4):
        set_fields(view.tickets[n], revision=20 + n, seen_at=NOW - KNOWN)
    shard().shard_id = 6


def shard() -> Any:
    """Return the shard that asks."""
    return LAB.view(ShardContext, BENCH.shards[1])


def ticket(key: int = 2) -> Any:
    """Return the ticket of a key; shard 6 has key 2."""
    at = LAB.image.address(FLEET_TICKETS) + key * Ticket.SIZE
    return LAB.view(Ticket, at)


def answer(routine: Routine, inbox: int, body: bytes, status: int = 0) -> int:
    """Let an answer come, and return CF: it was no answer of ours."""
    take_in_hand(LAB, body, status=status)
    return LAB.call(routine, inbox=inbox).outputs["cf"]


def ready(**fields: int) -> Any:
    """Return the ticket, paid for and decided."""
    given = {"paid": 1, "shard": 6, "ask_at": NOW, "revision": 22}
    set_fields(ticket(), **{**given, **fields})
    return ticket()
