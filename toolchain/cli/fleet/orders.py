"""What an operator asks of nodes: to give all slots back, or one slot to a certain node (ADR 0020)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from firmware.layouts.fleet import AVOID_MS
from toolchain.cli.fleet.change import LEASE, PLAN, leases, read, revision
from toolchain.cli.fleet.connect import FleetError
from toolchain.cli.fleet.records import ACTIVE, DRAIN, OPEN, Move, NodeOrder, Plan, takeover_s

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolchain.cli.fleet.records import Lease
    from toolchain.cli.fleet.watch import View

NODE, MOVE = "ctl.node.", "ctl.move."
SLACK_S = 5.0


def held_by(view: View, node: str) -> list[int]:
    """Return the slots that a node holds; all of them when there is no plan that can be read.

    Who lags may still claim a slot of an earlier plan, which nobody runs and nobody gives back.
    """
    plan, held = read(view, PLAN, Plan), leases(view)
    known = held if plan is None else range(len(plan.slots))
    return [number for number, lease in held.items() if number in known and lease.node == node]


async def order(view: View, node: str, mode: str) -> bool:
    """Write what a node shall do; return whether that is new.

    Raises:
        FleetError: Another operator writes at the same time.
    """
    key, wish = f"{NODE}{node}", NodeOrder(mode)
    if key not in view.records and mode == OPEN:
        return False
    seen = view.records.get(key)
    if seen is not None and seen.value == str(wish):
        return False
    await view.fleet.swap(key, wish, revision(view, key))
    return True


async def drain(view: View, node: str, timeout: float, say: Callable[[str], None]) -> list[int]:
    """Ask a node to give everything back, and wait for it; return the slots that it held.

    Raises:
        FleetError: It still holds one when the time is over.
    """
    before = held_by(view, node)
    await order(view, node, DRAIN)
    say(f"{node} holds {_slots(before)} and is asked to give all back")
    if await view.until(lambda: None if held_by(view, node) else True, timeout) is None:
        left = held_by(view, node)
        raise FleetError(
            f"{node} still holds {_slots(left)} after {timeout:.0f} s. When it does not run any more, "
            "another node takes them over by itself"
        )
    return before


def _slots(numbers: list[int]) -> str:
    if not numbers:
        return "no slot"
    return f"slot{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"


@dataclass(frozen=True)
class Moved:
    """What came of a move.

    Attributes:
        slot: Its number.
        before: Who held it; None = nobody.
        after: Who holds it now.
        generation: Of the new lease.
    """

    slot: int
    before: str | None
    after: str
    generation: int


async def move(view: View, slot: int, node: str, say: Callable[[str], None]) -> Moved:
    """Ask for a slot to go to a node, and wait until somebody holds it.

    Raises:
        FleetError: No such slot, the node is drained, or nobody took it in time.
    """
    plan, lease = read(view, PLAN, Plan), leases(view).get(slot)
    if plan is None or lease is None or slot >= len(plan.slots):
        known = "no plan" if plan is None else f"slots 0 to {len(plan.slots) - 1}"
        raise FleetError(f"there is no slot {slot}; the fleet has {known}")
    if plan.mode != ACTIVE:
        raise FleetError("the plan is changing: no slot is taken. Wait for: shardfw fleet plan")
    wish = read_order(view, node)
    if wish == DRAIN:
        raise FleetError(
            f"{node} is drained and takes nothing. First: shardfw fleet drain {node} --undo"
        )
    if lease.node == node:
        return Moved(slot, node, node, lease.generation)
    await ask_move(view, slot, lease, node)
    before = lease.node if lease.held else None
    say(f"slot {slot} is asked to go from {before or 'nobody'} to {node}")
    # A holder that is gone is waited out first, then everybody but the named node waits longer.
    patience = takeover_s(plan.duration_ms) + AVOID_MS / 1000 + SLACK_S
    after = await view.until(lambda: _next_holder(view, slot, lease), patience)
    if after is None:
        raise FleetError(
            f"nobody took slot {slot} within {patience:.0f} s. Look with: shardfw fleet status"
        )
    return Moved(slot, before, after.node, after.generation)


async def ask_move(view: View, slot: int, lease: Lease, node: str) -> None:
    """Write who shall have a slot after the lease that it has now.

    Raises:
        FleetError: Another operator writes at the same time, or nothing answers.
    """
    key = f"{MOVE}{slot}"
    await view.fleet.swap(key, Move(lease.generation, node), revision(view, key))


def _next_holder(view: View, slot: int, before: Lease) -> Lease | None:
    lease = leases(view).get(slot)
    if lease is None or not lease.held or lease.generation == before.generation:
        return None
    return lease


def read_order(view: View, node: str) -> str:
    """Return what a node shall do."""
    seen = view.records.get(f"{NODE}{node}")
    try:
        return OPEN if seen is None else NodeOrder.parse(seen.value).mode
    except ValueError:
        return OPEN


def orders(view: View) -> dict[str, str]:
    """Return what was asked of nodes, by name."""
    names = (key.removeprefix(NODE) for key in view.records if key.startswith(NODE))
    return {name: read_order(view, name) for name in sorted(names)}


def moves(view: View) -> dict[int, str]:
    """Return the nodes that slots are asked to go to, while that counts."""
    found = {}
    for number, lease in leases(view).items():
        seen = view.records.get(f"{MOVE}{number}")
        if seen is None or f"{LEASE}{number}" not in view.records:
            continue
        try:
            wish = Move.parse(seen.value)
        except ValueError:
            continue
        if wish.generation == lease.generation and wish.node != lease.node:
            found[number] = wish.node
    return found
