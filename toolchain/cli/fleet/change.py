"""Writing a plan without overlap: drain, wait, new records, active (`firmware/docs/fleet-operator.md`).

The order of the stream arbitrates. The drain is this operator's own record; whoever writes the plan after
it makes the last step fail, and every record of the other change lies behind it, so that it is seen first.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from toolchain.cli.fleet.connect import ANSWER_S, ConflictError, FleetError, UnansweredError
from toolchain.cli.fleet.records import (
    ACTIVE,
    DRAIN,
    NOBODY,
    Budget,
    Lease,
    Plan,
    RecordError,
    Ticket,
    takeover_s,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from toolchain.cli.fleet.records import Range
    from toolchain.cli.fleet.watch import View

PLAN, LEASE, IDENT, BUDGET = "ctl.plan", "ctl.lease.", "ctl.ident.", "ctl.budget"
DRAIN_S = 3600.0
TRIES = 8
R = TypeVar("R", Plan, Lease, Ticket, Budget)


@dataclass(frozen=True)
class Change:
    """What a plan shall become.

    Attributes:
        total: Shards of the whole bot.
        slots: The shards of each slot.
        max_concurrency: Identify tickets.
        duration_ms: How long a lease lasts.
    """

    total: int
    slots: tuple[Range, ...]
    max_concurrency: int
    duration_ms: int

    def plan(self, mode: str, epoch: int) -> Plan:
        """Return it as a record."""
        return Plan(mode, epoch, self.total, self.max_concurrency, self.duration_ms, self.slots)


def read(view: View, key: str, kind: type[R]) -> R | None:
    """Return a record of the view; None when there is none, or no node could read it."""
    seen = view.records.get(key)
    if seen is None:
        return None
    try:
        return kind.parse(seen.value)
    except RecordError:
        return None


def leases(view: View) -> dict[int, Lease]:
    """Return the leases that can be read, by slot."""
    numbers = sorted(
        int(tail)
        for key in view.records
        if key.startswith(LEASE) and (tail := key.removeprefix(LEASE)).isdecimal()
    )
    found = ((number, read(view, f"{LEASE}{number}", Lease)) for number in numbers)
    return {number: lease for number, lease in found if lease is not None}


def revision(view: View, key: str) -> int:
    """Return the revision that a compare-and-swap of a key expects."""
    seen = view.records.get(key)
    return 0 if seen is None else seen.revision


def busy(view: View, expected: int, duration_ms: int) -> list[str]:
    """Return why each slot that may still have a holder is not ready yet, for people.

    Args:
        view: The records.
        expected: Slots that must have a record; one that vanished may still be held.
        duration_ms: How long a lease that is not there may have lasted.
    """
    now, found = time.monotonic(), []
    known = leases(view)
    for number in sorted({*range(expected), *known}):
        lease, seen = known.get(number), view.records.get(f"{LEASE}{number}")
        if lease is None:
            # Absent or unreadable: its holder, if it has one, stops before this has passed.
            left = view.since + takeover_s(duration_ms) - now
            if left > 0:
                found.append(f"slot {number} has no record: {left:.0f} s more")
        elif lease.held and seen is not None:
            left = seen.at + takeover_s(lease.duration_ms) - now
            if left > 0:
                found.append(f"slot {number} is held by {lease.node}")
    return found


class Changer:
    """One change of the plan, step by step.

    Args:
        view: The records; synced.
        say: Called with each step, for people.
    """

    def __init__(self, view: View, say: Callable[[str], None]) -> None:
        self.view = view
        self.say = say
        self.fleet = view.fleet
        self._mine = 0

    async def change(self, change: Change, *, wait_ms: int, generation: int = 0) -> Plan:
        """Make the plan what it shall be; return it.

        Args:
            change: What it shall be.
            wait_ms: How long a lease that is not there may have lasted; 0 = no node ever ran.
            generation: The least generation of the new records.

        Raises:
            FleetError: Somebody else changes the plan, or a slot never became free.
        """
        old = read(self.view, PLAN, Plan)
        # A plan that cannot be read any more left its epoch in the leases.
        known = [
            0 if old is None else old.epoch,
            *(each.epoch for each in leases(self.view).values()),
        ]
        epoch = max(known) + 1
        draining = change.plan(DRAIN, epoch - 1) if old is None else replace(old, mode=DRAIN)
        active = change.plan(ACTIVE, epoch)
        await self._claim_plan(draining)
        if old is not None:
            self.say("the plan asks all nodes to give their slots back")
        slots = 0 if wait_ms == 0 else len(change.slots if old is None else old.slots)
        longest_ms = max(wait_ms, 0 if old is None else old.duration_ms)

        async def all_free() -> None:
            await self._wait(slots, longest_ms)

        await all_free()
        await self._write_leases(change, epoch, generation, all_free)
        same = old is not None and old.max_concurrency == change.max_concurrency
        await self._write_tickets(change.max_concurrency, anew=not same)
        self._check_mine()
        await self._activate(active)
        self.say(f"plan {epoch} is active: {len(change.slots)} slots, {change.total} shards")
        return active

    async def _claim_plan(self, draining: Plan) -> None:
        """Write the drain, always anew: from its revision on this change is ours."""
        self._mine = await self._swap(PLAN, draining, revision(self.view, PLAN))
        if await self.view.until(self._arrived, DRAIN_S) is None:
            raise FleetError("the plan that was written did not come back. Try again")
        self._check_mine()

    async def _activate(self, active: Plan) -> None:
        try:
            await self._swap(PLAN, active, self._mine)
        except UnansweredError as error:
            failure: FleetError = error
        else:
            failure = FleetError("the plan that was written did not come back. Look at it again")
        # Written or not, the watch tells.
        if await self.view.until(lambda: self._became(active), ANSWER_S) is None:
            raise failure

    def _became(self, active: Plan) -> bool | None:
        return True if read(self.view, PLAN, Plan) == active else None

    def _arrived(self) -> bool | None:
        return True if revision(self.view, PLAN) >= self._mine else None

    def _check_mine(self) -> None:
        """Go on only while nobody wrote the plan after us.

        Raises:
            ConflictError: Somebody did.
        """
        if revision(self.view, PLAN) > self._mine:
            raise ConflictError(
                "another operator changes the plan: theirs goes on, this one wrote nothing more. "
                "Look with: shardfw fleet status"
            )

    async def _wait(self, slots: int, duration_ms: int) -> None:
        told: list[str] = []

        def ready() -> bool | None:
            self._check_mine()
            reasons = busy(self.view, slots, duration_ms)
            whom = [reason.partition(":")[0] for reason in reasons]
            if reasons and whom != told:
                told[:] = whom
                self.say("waiting: " + ", ".join(reasons))
            return None if reasons else True

        if await self.view.until(ready, DRAIN_S) is None:
            raise FleetError(
                f"after {DRAIN_S:.0f} s {', '.join(told)}: that node renews and does not give back, "
                "so it does not see the plan. Stop it, then: shardfw fleet plan --same"
            )

    async def _write_leases(
        self, change: Change, epoch: int, generation: int, all_free: Callable[[], Awaitable[None]]
    ) -> None:
        """Write free records, each on the very record that was waited for."""
        for number in sorted({*range(len(change.slots)), *leases(self.view)}):

            def free(number: int = number) -> Lease | None:
                return self._freed(number, change, epoch, generation)

            await self._write(f"{LEASE}{number}", free, all_free)

    def _freed(self, number: int, change: Change, epoch: int, generation: int) -> Lease | None:
        """Return the new record of a slot; None when the one that it has may stay."""
        known = leases(self.view)
        if number >= len(change.slots):
            return known[number].freed() if number in known and known[number].held else None
        # Generations go on from the highest, because shards change slots.
        highest = max([generation, *(lease.generation for lease in known.values())])
        return Lease(NOBODY, NOBODY, highest, 0, 0, epoch, change.slots[number], change.total)

    async def _write_tickets(self, count: int, *, anew: bool) -> None:
        """Write tickets; anew when other shards share them, so that each is waited for once more."""
        for number in range(count):
            if anew or read(self.view, f"{IDENT}{number}", Ticket) is None:
                await self._write(f"{IDENT}{number}", Ticket)

    async def _write(
        self,
        key: str,
        make: Callable[[], object],
        ready: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Write a record over whatever it is now, as long as the change is ours.

        Args:
            key: Its key.
            make: Returns the record as it should be now; None = what is there may stay.
            ready: Waits until what is there may be written over.
        """
        last: FleetError | None = None
        for _ in range(TRIES):
            await self.view.sync()
            self._check_mine()
            if ready is not None:
                await ready()
            value = make()
            if value is None:
                return
            try:
                await self._swap(key, value, revision(self.view, key))
            except (ConflictError, UnansweredError) as error:
                # The watch tells what it is now; a second of records decides.
                last = error
                await self.view.until(lambda: None, 1.0)
                seen = self.view.records.get(key)
                if seen is not None and seen.value == str(value):
                    return
            else:
                return
        raise _given_up(key, last)

    async def _swap(self, key: str, value: object, expected: int) -> int:
        return await self.fleet.swap(key, value, expected)


async def complete(
    view: View, say: Callable[[str], None], allowance: int, generation: int = 0
) -> list[str]:
    """Write the records that an active plan lacks; return their keys.

    A slot whose record vanished may still be held, so it is waited for.

    Args:
        view: The records; synced.
        say: Called with each step, for people.
        allowance: Session starts of a budget that is missing.
        generation: The least generation of the new records.

    Raises:
        FleetError: There is no active plan, or somebody else writes.
    """
    plan = read(view, PLAN, Plan)
    if plan is None or plan.mode != ACTIVE:
        raise FleetError("there is no active plan. Make one with: shardfw fleet plan")
    made: dict[str, object] = {}
    known = leases(view)
    highest = max([generation, *(lease.generation for lease in known.values())])
    for number, slot in enumerate(plan.slots):
        if number not in known:
            made[f"{LEASE}{number}"] = Lease(
                NOBODY, NOBODY, highest, 0, 0, plan.epoch, slot, plan.total
            )
    if made:
        wait = takeover_s(plan.duration_ms)
        say(f"{len(made)} leases have no record: waiting {wait:.0f} s for holders to be gone")
        until = time.monotonic() + wait
        if await view.until(lambda: True if time.monotonic() > until else None, wait * 2) is None:
            raise FleetError("the records did not stay in sight for so long. Try again")
    for number in range(plan.max_concurrency):
        if read(view, f"{IDENT}{number}", Ticket) is None:
            made[f"{IDENT}{number}"] = Ticket()
    if read(view, BUDGET, Budget) is None:
        made[BUDGET] = Budget(allowance, allowance)
    for key, value in made.items():
        await view.fleet.swap(key, value, revision(view, key))
    return list(made)


async def set_budget(view: View, remaining: int) -> None:
    """Write how many session starts are left, over whatever the record says now.

    Raises:
        FleetError: Others write it again and again.
    """
    last: FleetError | None = None
    for _ in range(TRIES):
        await view.sync()
        known = read(view, BUDGET, Budget)
        total = max(remaining, 0 if known is None else known.total)
        try:
            await view.fleet.swap(BUDGET, Budget(remaining, total), revision(view, BUDGET))
        except (ConflictError, UnansweredError) as error:
            last = error
            await view.until(lambda: None, 1.0)
        else:
            return
    raise _given_up(BUDGET, last)


def _given_up(key: str, last: FleetError | None) -> FleetError:
    """Return what is said when a record could not be written in all tries."""
    if isinstance(last, UnansweredError):
        return last
    return FleetError(f"{key} is written by somebody else again and again. Try again")
