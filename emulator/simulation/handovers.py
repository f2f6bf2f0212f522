"""Planned hand-overs in calm times: what an operator asks for then has to go without a scratch.

A slot goes straight to whom it was asked to go, its sessions are resumed, no Identify is needed, and what
was published meanwhile stands in the stream once and in order. In bad weather only `orders.py` judges.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from emulator.simulation.clock import NS_PER_S
from emulator.simulation.invariants import InvariantError
from pxe.gateway import LoadOptions

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

    from emulator.simulation.leased import LeasedFleet, Member

ORDERS_MOST = 3
BEFORE_S, BETWEEN_S = 15, 6
"""Until former owners have published what waited in them for NATS; longest time before an order."""
WITHIN_S = 15
"""From an order to the next owner: a shard's session is stored within five seconds."""
REST_S = 60
RATE = 8
"""Dispatches a second over all shards."""


@dataclass(frozen=True, slots=True)
class Order:
    """One that can be carried out.

    Attributes:
        slots: that change their node by it.
        node: that gives them back in a drain, or gets the one in a move.
        drain: which of both it is.
    """

    slots: tuple[int, ...]
    node: str
    drain: bool

    def __str__(self) -> str:
        return f"drain {self.node}" if self.drain else f"move {self.slots[0]} {self.node}"


def possible(fleet: LeasedFleet) -> list[Order]:
    """Return the orders that the fleet has room for as it stands."""
    held = {member.name: fleet.orders.held_by(member.name) for member in _able(fleet)}
    room = {name: fleet.shape.cap - len(slots) for name, slots in held.items()}
    found = [
        Order((slot,), name, drain=False)
        for name, free in room.items()
        if free > 0
        for slot in sorted(fleet.orders.leases)
        if slot not in held[name] and fleet.orders.leases[slot].holder is not None
    ]
    for name, slots in held.items():
        if sum(room.values()) - room[name] >= len(slots):
            found.append(Order(tuple(slots), name, drain=True))
    return found


def _able(fleet: LeasedFleet) -> Iterator[Member]:
    """Give the nodes that may take slots."""
    for member in fleet.stations:
        refused = member.name in fleet.shape.refused
        if member.attachment.powered and not refused and member.name not in fleet.orders.drained:
            yield member


def planned(fleet: LeasedFleet, rng: random.Random) -> list[Order]:
    """Ask for some hand-overs of a fleet at rest, under load, and judge them; return the orders.

    Args:
        fleet: owned, published, without faults.
        rng: chooses them.

    Raises:
        InvariantError: one was not carried out as it should be.
    """
    fleet.run(BEFORE_S)
    if not fleet.owned():
        # The last lease of the bad weather ran out in the calm: its next owner has to come to rest, too.
        fleet.until_owned(REST_S)
        fleet.run(BEFORE_S)
    fleet.until_published(REST_S)
    events, lost = len(fleet.gateway.events), _blemishes(fleet)
    fleet.gateway.core.set_load(LoadOptions(rate=RATE))
    fleet.gateway.flush()
    given: list[Order] = []
    moved: set[int] = set()
    for _ in range(rng.randint(1, ORDERS_MOST)):
        fleet.run(rng.uniform(0.1, BETWEEN_S))
        if not (orders := possible(fleet)):
            break
        order = rng.choice(orders)
        given.append(order)
        moved |= _carry_out(fleet, order)
        if order.drain and rng.random() < 0.5:
            fleet.orders.undrain(order.node)
    fleet.run(BETWEEN_S)
    fleet.gateway.core.set_load(None)
    fleet.gateway.flush()
    fleet.until_owned(REST_S)
    fleet.until_published(REST_S)
    if (now := _blemishes(fleet)) != lost:
        raise InvariantError(
            f"rule 'planned hand-over': events repeated, late and out of order were {lost} before "
            f"{', '.join(map(str, given))}, and are {now}"
        )
    _judge_sessions(fleet, events, moved)
    return given


def _blemishes(fleet: LeasedFleet) -> tuple[int, int, int]:
    """Return how many events a reader had to drop, and how many sessions came out of order."""
    return fleet.events.repeated, fleet.events.late, fleet.events.disordered


def _carry_out(fleet: LeasedFleet, order: Order) -> set[int]:
    """Give an order, wait until its slots are held again, and return the shards that moved.

    Raises:
        InvariantError: a slot went another way.
    """
    orders = fleet.orders
    claims, before = len(orders.claims), {slot: orders.leases[slot] for slot in order.slots}
    if order.drain:
        orders.drain(order.node)
    else:
        orders.move(order.slots[0], order.node)

    def carried_out() -> bool:
        found = (orders.leases[slot] for slot in order.slots)
        return orders.obeyed() and all(lease.holder is not None for lease in found)

    fleet.world.run_until(carried_out, within_ns=WITHIN_S * NS_PER_S)
    for slot, lease in before.items():
        ways = [record for where, _, record in orders.claims[claims:] if where == slot]
        good = len(ways) == 1 and (ways[0].node == order.node) != order.drain
        if not good or ways[0].generation != lease.generation + 1:
            raise InvariantError(
                f"rule 'planned hand-over': {order}: slot {slot} was {lease}, then "
                f"{', then '.join(map(str, ways)) or 'nobody claimed it'}"
            )
    others = {where for where, _, _ in orders.claims[claims:]} - before.keys()
    if others:
        raise InvariantError(f"rule 'planned hand-over': {order}: slots {sorted(others)} moved too")
    return {n for lease in before.values() for n in range(lease.start, lease.start + lease.count)}


def _judge_sessions(fleet: LeasedFleet, since: int, moved: set[int]) -> None:
    """Judge how the gateway saw the shards that moved.

    Raises:
        InvariantError: a shard had to identify, or never resumed.
    """
    events = fleet.gateway.events[since:]
    identified = [event.line() for event in events if event.name == "identify"]
    if identified:
        raise InvariantError(f"rule 'planned hand-over': a shard identifies: {identified[0]}")
    resumed = {event.shard or 0 for event in events if event.name == "resumed"}
    if resumed != moved:
        raise InvariantError(
            f"rule 'planned hand-over': shards {sorted(moved)} moved, and {sorted(resumed)} resumed"
        )
