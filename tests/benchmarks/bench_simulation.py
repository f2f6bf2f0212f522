"""Figures of the whole image in the simulator; `make bench` prints them.

Instructions are exact and the same on every machine; the speed of the simulator is not.
"""

from __future__ import annotations

import time

import click

from emulator.simulation.rig import Rig
from pxe.gateway import LoadOptions

IDLE_S = 60
LOAD_S = 2
RATE = 2000


def test_instructions_of_idle_turns_and_of_dispatches():
    rig = Rig(1, trace=True)
    trace = rig.node.trace
    assert trace is not None
    rig.until_ready()
    ready_ms = rig.now_s() * 1000
    click.echo(
        f"\npower-on to 16 READY: {ready_ms:.1f} virtual ms, {trace.instructions} instructions"
    )
    rig.run(5)
    turns: list[int] = []
    rig.attachment.after_turn.append(lambda _attachment: turns.append(rig.node.turn_instructions))
    rig.run(IDLE_S)
    median = sorted(turns)[len(turns) // 2]
    click.echo(
        f"instructions per idle tick, 16 READY shards: {median} (median), {max(turns)} (most)"
    )
    click.echo(
        f"instructions per idle second: {sum(turns) / IDLE_S:.0f} in {len(turns) / IDLE_S:.1f} turns"
    )
    before = [row.dispatches for row in rig.invariants.rows]
    octets = [rig.node.shard(n).bytes_received for n in range(16)]
    turns.clear()
    rig.load(LoadOptions(rate=RATE))
    rig.run(LOAD_S)
    count = sum(row.dispatches for row in rig.invariants.rows) - sum(before)
    size = sum(rig.node.shard(n).bytes_received for n in range(16)) - sum(octets)
    click.echo(
        f"instructions per dispatch of {size / count:.0f} bytes: {sum(turns) / count:.0f} "
        f"({sum(turns) / size:.1f} a byte)"
    )
    rig.load(None)
    rig.run(1)
    click.echo(f"stack used: {rig.node.stack_used()} bytes")


def test_speed_of_the_simulator():
    rig = Rig(1, faults="drop p=0.01")
    rig.until_ready()
    started = time.perf_counter()
    rig.run(300)
    click.echo(f"\nidle: {300 / (time.perf_counter() - started):.0f} virtual seconds a second")
    generator = rig.load(LoadOptions(rate=RATE))
    assert generator is not None
    started = time.perf_counter()
    rig.run(5)
    sent = sum(generator.counter(n) for n in range(16))
    click.echo(
        f"load with 1 % loss: {sent / (time.perf_counter() - started):.0f} dispatches a second"
    )
