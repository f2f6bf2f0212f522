"""Which layers are judged by mutation, and the tests that record their calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from toolchain.asm.routine import Routine

FLEET = (
    *("budget", "claim", "delivery", "guard", "held"),
    *("judge", "orders", "renew", "ticket", "watch"),
)
"""Modules of the fleet that decide which slots a node may run, and for how long."""
SHARDS = ("owning", "handover", "handover_answer")
"""Modules of the node that let shards of a slot begin, end, and take their sessions along."""
EVENTS = ("acks", "outbox", "publish")
"""Modules of the events that decide what counts, and what is published once."""
SCORE_PERCENT = 95
"""What each layer must reach."""
# Layer -> modules (with a dot at the end) or routines, by their full names.
LAYERS: dict[str, tuple[str, ...]] = {
    "lifecycle": ("firmware.shard.", "firmware.node.stop.", "firmware.node.survive."),
    "gateway": ("firmware.gateway.",),
    "lease": ("firmware.node.lease.", "firmware.node.lease_orders."),
    "plan": (
        "firmware.node.plan.",
        "firmware.node.moving.",
        "firmware.node.slots.",
        "firmware.node.main.node_init",
        "firmware.node.main.slot_add",
    ),
    "fleet": tuple(f"firmware.fleet.{name}." for name in FLEET),
    "shards": tuple(f"firmware.node.{name}." for name in SHARDS),
    "events": tuple(f"firmware.events.{name}." for name in EVENTS),
}
RECORDED = (
    *("console", "lease", "lease_orders", "main", "moving", "plan"),
    *("slots", "step", "stop", "survive"),
)
"""The node's test files whose calls reach a judged layer."""
TESTS = (
    "tests/firmware/shard",
    "tests/firmware/gateway",
    *(f"tests/firmware/node/test_{name}.py" for name in RECORDED),
    *(f"tests/firmware/fleet/test_{name}.py" for name in FLEET),
    *(f"tests/firmware/node/test_{name}.py" for name in SHARDS),
    *(f"tests/firmware/events/test_{name}.py" for name in EVENTS),
)
"""All calls count for all layers, so that the verdict on a routine never depends on the choice."""


def layer_of(routine: Routine) -> str:
    """Return the judged layer of a routine, or an empty string."""
    full = f"{routine.module}.{routine.name}"
    for layer, places in LAYERS.items():
        if any(full == p or (p.endswith(".") and full.startswith(p)) for p in places):
            return layer
    return ""


def judged(routines: Iterable[Routine]) -> list[Routine]:
    """Return those that belong to a judged layer."""
    return [r for r in routines if r.bits == 64 and layer_of(r)]
