"""A node of a fleet whose leases are laid down, with a plan that has them."""

from typing import Any

from firmware.fleet.held import held_find, held_grant, held_stop, lease_mirror, op_find
from firmware.fleet.judge import held_judge, held_judge_all, held_seen, plan_differs
from firmware.layouts.fleet import FLEET, FLEET_VIEW, HeldPhase, PlanMode, WatchState
from firmware.layouts.node import CLOCK, CORE
from tests.support.fleet import name_node, set_fields
from tests.support.lab import Lab
from tests.support.states import MS, NOW

LAB = Lab(
    held_find, held_grant, held_judge, held_judge_all, held_seen, held_stop, lease_mirror, op_find,
    plan_differs, slots=0,
)  # fmt: skip
D_MS = 20_000
SLOT, PLACE = 5, 3


def prepare() -> None:
    """Let a plan of eight slots be known."""
    LAB.reset()
    name_node(LAB)
    LAB.g(CLOCK).tsc_cycles_per_ms, LAB.g(CORE).now = MS, NOW
    LAB.g(FLEET).watch = WatchState.SYNCED
    plan = LAB.g(FLEET_VIEW).plan
    set_fields(
        plan, revision=40, mode=PlanMode.ACTIVE, epoch=3, total=64, max_concurrency=1,
        duration_ms=D_MS, slots=8,
    )  # fmt: skip
    for n in range(8):
        set_fields(plan.ranges[n], start=8 * n, count=8)


def hold(place: int = PLACE, **fields: int) -> Any:
    """Return an entry that holds SLOT as the plan has it."""
    held = LAB.g(FLEET).held[place]
    given = {
        "phase": HeldPhase.RUNNING, "slot": SLOT, "seen": 1, "generation": 7, "revision": 100,
        "start": 40, "count": 8, "total": 64, "epoch": 3, "duration_ms": D_MS, "expected": 90,
        "plan_revision": 40, "hard_stop": NOW + 10_000 * MS, "deadline": NOW + 10_500 * MS,
    }  # fmt: skip
    set_fields(held, **{**given, **fields})
    return held


def sent(held: Any, place: int, op: int, at: int, inbox: int = 9) -> Any:
    """Return the operation that then was sent at that time."""
    set_fields(held.ops[place], op=op, sent_at=at, inbox=inbox)
    return held.ops[place]
