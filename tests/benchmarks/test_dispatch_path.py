"""Events per second of processor time on the dispatch path, beside libraries of other people.

The same stream for all: MESSAGE_CREATE of exactly 1,000 bytes, to 16 shards. Of this node it is the
release image's own bytes, run by the processor from the frame in the ring to the datagram in the card's
queue; the copy into the ring is included, the rest of TCP and the Ethernet card are not. The libraries
take the stream from a socket and count the events of their own interface; the kernel's work for their
process is included.
"""

import asyncio
import statistics

import pytest

from emulator.simulation.node_facts import NodeFacts
from emulator.simulation.rig import Rig
from firmware.layouts.memory import MEMORY
from firmware.limits import PAGE
from tests.support.bench import REPEATS, spread
from tests.support.clients import DISCORDJS, Figures, measure, peer, settled
from tests.support.dispatch_path import (
    EVENT_BYTES,
    EVENTS,
    FIRST_SEQUENCE,
    DispatchPath,
    dispatches,
    frames,
    instructions,
    ready_node,
)
from tests.support.firehose import Firehose
from tests.support.site import SHARDS, quiet

pytestmark = pytest.mark.bench
PEERS = (DISCORDJS, "hikari")
PASSES, SLOW_PASSES = 10_000, 2_000
MANY = 64
"""Shards of a process when the memory of one more is asked for."""
EVENT = f"MESSAGE_CREATE of {EVENT_BYTES:,} bytes"
HEARD = ", in a datagram to a listener"
# name, how the dispatches are made, whether somebody listens, passes
Stream = tuple[str, dict[str, bool], bool, int]
STREAMS: tuple[Stream, ...] = (
    (HEARD, {}, True, PASSES),
    (", nobody listens", {}, False, PASSES),
    (HEARD + "; texts with escapes, accents, emoji", {"plain": False}, True, PASSES),
    (HEARD + "; `d` before all else", {"d_first": True}, True, SLOW_PASSES),
)


def gateway(shards: int) -> Firehose:
    """Return a gateway that pours on demand; no heartbeat falls into the measurement."""
    options = quiet(
        shards=shards,
        max_concurrency=shards,
        heartbeat_interval_ms=600_000,
        require_user_agent=False,
    )
    return Firehose(options)


async def of_peer(library: str) -> Figures:
    async with gateway(SHARDS) as hose, peer(hose, library, SHARDS) as client:
        return await measure(hose, client, dispatches(), FIRST_SEQUENCE)


def test_dispatch_path(figure):
    medians = []
    for name, how, heard, passes in STREAMS:
        path = DispatchPath(ready_node(SHARDS, heard=heard), frames(dispatches(**how)), SHARDS)
        rates = [passes * EVENTS * SHARDS / seconds for seconds in path.run(passes, REPEATS)]
        medians.append(statistics.median(rates))
        figure(f"events per CPU-second, {EVENT}: this node{name}", spread(rates, "/s"))
    for library in PEERS:
        found = asyncio.run(of_peer(library))
        rates = [1e6 / seconds for seconds in found.costs]
        ratio = medians[0] / statistics.median(rates)
        figure(
            f"events per CPU-second, {EVENT}: {library}",
            f"{spread(rates, '/s')}; this node does {ratio:.1f} times that with a listener",
        )


def test_dispatch_path_instructions(figure):
    for name, how, heard, _ in STREAMS:
        count = instructions(ready_node(1, trace=True, heard=heard), frames(dispatches(**how)))
        figure(f"instructions per event, {EVENT}{name}", f"{count:,.0f}")


async def memory(library: str, shards: int) -> float:
    async with gateway(shards) as hose, peer(hose, library, shards) as client:
        return await settled(hose, client)


def test_dispatch_path_idle_shard(figure):
    """What one more connected shard takes that has nothing to do."""
    free = [int(Rig(facts=NodeFacts(shards=n)).node.g(MEMORY).free_pages) for n in (1, SHARDS)]
    ours = (free[0] - free[1]) * PAGE // (SHARDS - 1)
    figure("memory of one more idle shard: this node", f"{ours:,} bytes, its buffers included")
    for library in PEERS:
        found = []
        for _ in range(REPEATS):
            few, many = (asyncio.run(memory(library, shards)) for shards in (1, MANY))
            found.append((many - few) * 2**20 / (MANY - 1))
        figure(
            f"memory of one more idle shard: {library}",
            f"{spread(found, 'bytes')}; without the kernel's buffers, {MANY} shards beside one",
        )
