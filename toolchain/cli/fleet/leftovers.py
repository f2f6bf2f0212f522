"""Records of sessions that are there before a fleet begins, or goes on under another plan.

Nobody deletes them, because the stream forbids it. One of another total is no obstacle: a node tells of it
and writes the shard's next session over it. One of a later generation than its slot's lease is: the holder
takes it for the record of whoever has the slot by now, and keeps no session any more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolchain.cli.fleet.connect import FleetError
from toolchain.cli.fleet.records import RecordError, Session
from toolchain.cli.fleet.streams import NOTE, OK, Finding
from toolchain.cli.fleet.watch import SESSIONS, View

if TYPE_CHECKING:
    from toolchain.cli.fleet.connect import Fleet
    from toolchain.cli.fleet.records import Lease, Plan

WHAT = "sessions"
SESSION_KEY = "sess."


def sessions(view: View) -> dict[int, Session]:
    """Return how far each shard that ever had a session has come.

    Args:
        view: Of SESSIONS.
    """
    found = {}
    for key, seen in view.records.items():
        number = key.removeprefix(SESSION_KEY)
        try:
            if number.isdecimal():
                found[int(number)] = Session.parse(seen.value)
        except RecordError:
            continue
    return dict(sorted(found.items()))


@dataclass(frozen=True)
class Kept:
    """The sessions that are kept.

    Attributes:
        sessions: By shard.
    """

    sessions: dict[int, Session]

    @property
    def generation(self) -> int:
        """Return the highest generation: a lease that begins anew must not begin below it."""
        return max((each.generation for each in self.sessions.values()), default=0)

    def refuse_as_new(self) -> None:
        """Let nobody say that no node ever ran.

        Raises:
            FleetError: One did.
        """
        if self.sessions:
            raise FleetError(
                f"--new says that no node of this bot ever ran, but sessions of {len(self.sessions)} "
                "shards are kept. Leave it out: then the command waits until nobody can hold a lease"
            )


async def kept(fleet: Fleet) -> Kept:
    """Return the sessions that the store has now.

    Raises:
        FleetError: There is no fleet, or the records did not come.
    """
    view = View(fleet, SESSIONS)
    await view.sync()
    try:
        return Kept(sessions(view))
    finally:
        await view.stop()


def judge(left: Kept, plan: Plan | None, leases: dict[int, Lease]) -> Finding:
    """Return what the sessions mean for the plan.

    Args:
        left: Read before the leases, so that none is newer than its lease.
        plan: The plan, None when there is none.
        leases: By slot.
    """
    found = left.sessions
    if not found:
        return Finding(OK, WHAT, "none is kept")
    if plan is None:
        text = f"{len(found)} kept; leases begin above their generation {left.generation}"
        return Finding(NOTE, WHAT, text)
    ahead = [
        shard
        for lease in leases.values()
        for shard in range(lease.slot.start, lease.slot.start + lease.slot.count)
        if shard in found and found[shard].generation > lease.generation
    ]
    if ahead:
        text = (
            f"{len(ahead)} of {len(found)} are of a later generation than the slot's lease, so that no node "
            "saves a session of those shards. Let leases begin above with: shardfw fleet plan --same"
        )
        return Finding(NOTE, WHAT, text)
    strange = [shard for shard, each in found.items() if each.total != plan.total]
    if strange:
        text = (
            f"{len(strange)} of {len(found)} are of another total. They are harmless: no node resumes "
            "one, and the next session of its shard is written over it"
        )
        return Finding(NOTE, WHAT, text)
    return Finding(OK, WHAT, f"{len(found)} kept, all of this total")
