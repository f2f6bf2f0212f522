"""What a scenario of the fault matrix is: a script for one shard, and what has to come of it."""

from __future__ import annotations

import dataclasses
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pxe.gateway.script import Step

HEARTBEAT_MS = 4000
"""The interval that Hello announces: short, and longer than a busy machine holds an ACK back."""
APART_MS = 50
"""Between the beginnings of two faults, so that the serial port takes every line."""


class Ended(NamedTuple):
    """What a record says of an end.

    Attributes:
        reason: `reason=`.
        classification: `classification=`.
        next: `next=`; "" in a record without a next attempt.
        site: Name of the error's site.
    """

    reason: str
    classification: str
    next: str
    site: str


_CLOSES = {
    "reset": "abort", "refused": "", "upgrade_refused": "", "end_of_stream": "hang_up",
    "control_fragmented": "1002", "reserved_bits": "1002",
}  # fmt: skip


def _close_of(ended: Ended) -> str:
    """Return how the gateway counts an end that it did not ask for by a close code; "" when not."""
    if ended.site == "session_invalid" and ended.next == "identify":
        return "1000"
    return _CLOSES.get(ended.site, "4000")


@dataclass(frozen=True)
class Fault:
    """One scenario.

    Attributes:
        name: Its name.
        does: What the node does.
        peers: What four client libraries were seen to do.
        steps: The gateway's script; the shard is filled in.
        ends: The records of the shard in their order.
        identifies: Sessions that the gateway has begun.
        resumes: Resumes that it has accepted.
        state: Of the shard in the end.
        code: Close code that the gateway sends.
        sequence: Of the shard in the end; None when it does not matter.
        repeats: Whether the last end comes again and again.
        url: What READY names instead of the shard's door.
        upgrade: HTTP status that refuses the first upgrade at the door.
    """

    name: str
    does: str
    peers: str
    steps: tuple[Step, ...]
    ends: tuple[Ended, ...] = ()
    identifies: int = 1
    resumes: int = 0
    state: str = "READY"
    code: int = 0
    sequence: int | None = None
    repeats: bool = False
    url: str | None = None
    upgrade: int | None = None

    @property
    def closes(self) -> Counter[str]:
        """Ends of the shard's connections as the gateway counts them."""
        how = (str(self.code) if e.site == "peer_closed" else _close_of(e) for e in self.ends)
        return Counter(filter(None, how))

    def script(self, shard: int) -> tuple[Step, ...]:
        """Return the steps for a shard; those that wait begin one after the other."""
        return tuple(
            dataclasses.replace(
                step,
                shard=shard,
                after_ms=step.after_ms + APART_MS * shard if step.after_ms else 0,
            )
            for step in self.steps
        )
