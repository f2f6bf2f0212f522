"""`shardfw run --fleet N --demo-takeover`: a node is killed, and the time until others have its shards."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from firmware.layouts.fleet import AVOID_MS
from toolchain.cli.fleet.records import takeover_s
from toolchain.cli.runner import RunError

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolchain.cli.fleet_runner import FleetRunner

IDENTIFY_S = 6
SLACK_S = 60.0
SAVED_S = 1.0
"""A session is saved just after READY: who is killed before leaves nothing to resume."""


async def takeover(
    runner: FleetRunner, timeout: float, say: Callable[[str], None]
) -> dict[str, Any]:
    """Kill the node that holds slot 0 and wait until its shards are connected again.

    Args:
        runner: A fleet that runs.
        timeout: Seconds until all slots must be held first.
        say: Called with each step, for people.

    Returns:
        What `--json` prints: milliseconds from the kill to the claim of the last slot and to the last
        shard's connection, how many sessions were resumed and how many begun, and how many
        Identifies broke the gate, which must be none.

    Raises:
        RunError: The fleet does not start, or nobody takes over.
    """
    await runner.until_owned(timeout)
    await asyncio.sleep(SAVED_S)
    before = runner.holders()
    victim = next((m for m in runner.machines if m.name == before[0].node), None)
    if victim is None:
        raise RunError(f"slot 0 is held by {before[0].node}, which is no node of this run")
    lost = {slot: lease for slot, lease in before.items() if lease.node == victim.name}
    shards = [n for lease in lost.values() for n in range(lease.slot.start, lease.slot.end)]
    counts = runner.gateway
    old = {n: counts.shards[n].connections for n in shards}
    resumes, identifies = counts.total("resumes"), counts.total("identifies")
    say(f"{victim.label} holds slots {', '.join(map(str, lost))} and is killed")
    killed_at = time.monotonic()
    victim.node.process.kill()

    def taken() -> bool:
        held = runner.holders()
        return all(
            slot in held and held[slot].generation > lease.generation
            for slot, lease in lost.items()
        )

    def back() -> bool:
        now = runner.gateway.shards
        return all(now[n].connected and now[n].connections > old[n] for n in shards)

    wait = takeover_s(runner.options.lease_ms) + AVOID_MS / 1000 + SLACK_S
    await runner.until(taken, wait, lambda: f"nobody took slots {', '.join(map(str, lost))}")
    claimed_ms = round(1000 * (time.monotonic() - killed_at))
    takers = {slot: runner.label_of(runner.holders()[slot].node) for slot in lost}
    say(f"taken after {claimed_ms} ms by {', '.join(sorted(set(takers.values())))}")
    patience = SLACK_S + IDENTIFY_S * len(shards)
    await runner.until(back, patience, lambda: "not all of its shards are connected again")
    back_ms = round(1000 * (time.monotonic() - killed_at))
    counts = runner.gateway
    return {
        "nodes": runner.options.nodes,
        "shards": runner.options.total,
        "slots": runner.options.slots,
        "lease_ms": runner.options.lease_ms,
        "victim": victim.label,
        "takers": {str(slot): label for slot, label in takers.items()},
        "moved_shards": len(shards),
        "kill_to_claim_ms": claimed_ms,
        "kill_to_connected_ms": back_ms,
        "resumed": counts.total("resumes") - resumes,
        "identified": counts.total("identifies") - identifies,
        "identify_gate_refusals": counts.identify_gate_refusals,
    }


def sentence(report: dict[str, Any]) -> str:
    """Return a report as one line for people."""
    return (
        f"{report['victim']} was killed; its {report['moved_shards']} shards were claimed by others "
        f"after {report['kill_to_claim_ms'] / 1000:.1f} s and connected after "
        f"{report['kill_to_connected_ms'] / 1000:.1f} s: {report['resumed']} resumed, "
        f"{report['identified']} identified"
    )
