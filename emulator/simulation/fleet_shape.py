"""How large a leased fleet is, how its clocks run, and who may log in to its NATS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from emulator.simulation.fleet_records import PlanRecord, cut
from emulator.simulation.nats.auth import User
from pxe.nats import enrol_permissions, node_permissions

BOT = "b1"
ENROL_LOGIN, NODE_LOGIN = ("enrol", "enrol-pw"), ("node", "node-pw")
OPERATOR_LOGIN = ("operator", "operator-pw")


def _user(login: tuple[str, str], allowed: dict[str, Any]) -> User:
    return User(
        user=login[0], password=login[1], publish=tuple(allowed["publish"]),
        subscribe=tuple(allowed["subscribe"]), responses=bool(allowed.get("allow_responses")),
    )  # fmt: skip


USERS = (
    _user(ENROL_LOGIN, enrol_permissions(BOT)),
    _user(NODE_LOGIN, node_permissions(BOT, "*")),
    User(user=OPERATOR_LOGIN[0], password=OPERATOR_LOGIN[1]),
)
"""What docs/enrol.md and docs/fleet-operator.md say that each of them needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How large a fleet is and how its clocks run.

    Attributes:
        nodes: how many.
        slots: of the plan.
        total: shards of the bot.
        cap: slots that a node holds at once.
        duration_ms: of a grant.
        max_concurrency: Identify keys.
        servers: of NATS.
        named: whether nodes know the servers by name.
        publish: whether dispatches are published.
        enrol: whether nodes have no token in their image.
        login: whether they have no login of a node either, but one that may enrol and nothing else.
        refused: names of nodes that are never given the token.
        clocks_ppm: by node, how much faster than the world's its clock runs.
        clocks_ns: by node, TSC when virtual time is zero.
    """

    nodes: int = 3
    slots: int = 3
    total: int = 6
    cap: int = 2
    duration_ms: int = 20_000
    max_concurrency: int = 1
    servers: int = 3
    named: bool = False
    publish: bool = True
    enrol: bool = False
    login: bool = False
    refused: tuple[str, ...] = ()
    clocks_ppm: tuple[int, ...] = ()
    clocks_ns: tuple[int, ...] = ()

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        """Shards of each slot."""
        return cut(self.total, self.slots)

    @property
    def slots_most(self) -> int:
        """Slots that can be owned although one node is missing."""
        return min(self.total, max(1, self.nodes - 1) * self.cap)

    @property
    def rows(self) -> int:
        """Rows that one node may need: its slots at their largest, whatever the plan becomes."""
        return min(self.total, self.cap * self.total)

    def plan(self) -> PlanRecord:
        """Return the first plan."""
        return PlanRecord(
            total=self.total, max_concurrency=self.max_concurrency,
            duration_ms=self.duration_ms, ranges=self.ranges,
        )  # fmt: skip
