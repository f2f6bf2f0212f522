"""Events a second from the gateway through a node and NATS to a reader, and the fleet's memory.

The gateway pours events of 1 KB into all connections, held back by TCP alone. The node in QEMU publishes each, the
stream (one replica, in memory) acknowledges it, nats-py reads and acknowledges it. As the node is faster than such a
reader, the stream has room for all of them; a run without a reader shows the node alone. Beside that, other people's
libraries take the same events from the same gateway in one process: they publish nothing.
"""

import asyncio
import json
import statistics
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import nats
import pytest

from firmware.layouts.bus import BUS, BUS_ASIDE, BUS_IN, BUS_LOGIN, LINKS
from firmware.layouts.commands import COMMANDS
from firmware.layouts.enrol import ENROL
from firmware.layouts.events import EventStream
from firmware.layouts.fleet import FLEET, FLEET_OUT, FLEET_VIEW
from firmware.layouts.fleet_config import FLEET_CONFIG
from firmware.layouts.fleet_diag import FLEET_DIAG
from firmware.layouts.fleet_tickets import FLEET_BUDGET, FLEET_TICKETS
from firmware.layouts.handover import HANDOVER, HandoverRow
from firmware.layouts.outbox import ASSEMBLIES, OUTBOX
from firmware.layouts.shard import ShardContext
from firmware.limits import (
    ASSEMBLY_BYTES,
    OUTBOX_BYTES,
    RING_BYTES,
    SHARDS_MAX,
    TX_BYTES,
    WORKSPACE_STATE_BYTES,
)
from tests.support.bench import spread
from tests.support.clients import DISCORDJS, Client, Figures, measure, peer, piped
from tests.support.firehose import Firehose, Prepared, bodies
from tests.support.fleet_cli import BOT
from tests.support.fleet_site import fleet_site
from tests.support.site import quiet
from toolchain.cli.fleet.connect import EVENTS

pytestmark = pytest.mark.bench
SHARDS = 4
EVENT_BYTES = 1024
DIGITS = 5
"""Of a number, as most of them have."""
BEFORE = b',"op":0,"d":'
ROOM_MIB = 4096
"""For all events of a run: a stream drops the oldest when a reader is slower than the node."""
PEERS = ("discord.py", DISCORDJS)
READER = Path(__file__).with_name("reader.py")
GLOBALS = (
    BUS, BUS_ASIDE, BUS_IN, BUS_LOGIN, COMMANDS, ENROL, FLEET, FLEET_BUDGET, FLEET_CONFIG, FLEET_DIAG,
    FLEET_OUT, FLEET_TICKETS, FLEET_VIEW, HANDOVER, OUTBOX,
)  # fmt: skip


def kilobytes() -> list[Prepared]:
    """Return messages of EVENT_BYTES, but for the digits of their number."""
    found = []
    for head, tail in bodies():
        if b"MESSAGE_CREATE" in head:
            message = json.loads(tail[len(BEFORE) : -1]) | {"content": ""}
            bare = len(head) + DIGITS + len(BEFORE) + len(json.dumps(message)) + 1
            message["content"] = "x" * (EVENT_BYTES - bare)
            found.append((head, BEFORE + json.dumps(message).encode() + b"}"))
    return found


@asynccontextmanager
async def read(gateway: Firehose, folder: Path):
    """Let nats-py read what the node publishes."""
    async with (
        fleet_site(gateway, folder, SHARDS, event_mib=ROOM_MIB) as (server, node),
        piped([sys.executable, str(READER), server.url, BOT, str(SHARDS)], SHARDS) as (_, counts),
    ):
        yield Client("this node in QEMU (TCG), NATS, nats-py", node.pid, counts)


@asynccontextmanager
async def unread(gateway: Firehose, folder: Path):
    """Let nobody read; the stream says how many it has."""
    async with fleet_site(gateway, folder, SHARDS, event_mib=ROOM_MIB) as (server, node):
        client = await nats.connect(server.url)
        stream = client.jetstream()

        async def counts() -> list[int]:
            info = await stream.stream_info(EVENTS, subjects_filter=">")
            found = [0] * SHARDS
            for subject, count in (info.state.subjects or {}).items():
                found[int(subject.split(".")[3])] += count
            return found

        yield Client("this node in QEMU (TCG), NATS, no reader", node.pid, counts)
        await client.close()


async def run(folder: Path) -> dict[str, Figures]:
    found = {}
    for library in (read, unread, *PEERS):
        # @discordjs/ws says no User-Agent.
        options = quiet(shards=SHARDS, max_concurrency=SHARDS, require_user_agent=False)
        async with Firehose(options) as gateway:
            made = (
                peer(gateway, library, SHARDS)
                if isinstance(library, str)
                else library(gateway, folder)
            )
            async with made as client:
                found[client.name] = await measure(gateway, client, kilobytes())
    return found


def test_fleet_events(figure, tmp_path):
    found = asyncio.run(run(tmp_path))
    ours = next(iter(found.values()))
    for name, figures in found.items():
        ratio = statistics.median(figures.rates) / statistics.median(ours.rates)
        beside = "" if figures is ours else f"; {ratio:.2f} times the fleet's"
        share = statistics.median(figures.shares)
        figure(
            f"events of 1 KB a second over {SHARDS} shards, {name}",
            f"{spread(figures.rates, '/s')}; took {share:.0f} % of a core{beside}",
        )


def test_fleet_events_memory(figure):
    """What lies in memory for the fleet, by the layouts."""
    fields = (
        ShardContext.hard_stop, ShardContext.held, ShardContext.unleased, EventStream.stuck,
        EventStream.fence, EventStream.stalled_at, EventStream.stuck_at,
        EventStream.waited_at, EventStream.part_at, EventStream.part_len, EventStream.gap_told,
        EventStream.owed_first, EventStream.owed_last, EventStream.owed_number,
    )  # fmt: skip
    inside = sum(field.size for field in fields)
    subscription = COMMANDS.struct.shards.size // SHARDS_MAX
    shard = HandoverRow.SIZE + subscription
    figure(
        "memory of the fleet, each shard",
        f"{shard} bytes: {HandoverRow.SIZE} of its session's record, {subscription} of its "
        f"subscription; {inside} more inside its workspace, which is no larger for them",
    )
    variables = sum(one.size for one in GLOBALS) - SHARDS_MAX * shard
    links = LINKS * (WORKSPACE_STATE_BYTES + TX_BYTES + RING_BYTES)
    outbox = OUTBOX_BYTES + ASSEMBLIES * ASSEMBLY_BYTES
    figure(
        "memory of the fleet, each node",
        f"{variables:,} bytes of variables, in a node without a fleet, too; {links:,} for two "
        f"connections to NATS; {outbox:,} for what is published",
    )
