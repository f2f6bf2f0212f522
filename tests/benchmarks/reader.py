"""Read a fleet's events with nats-py, in one process, and tell how many came.

    python tests/benchmarks/reader.py URL BOT SHARDS

Each line on standard input is answered by one line of JSON: shard id to the number of events. Every
event is acknowledged.
"""

import asyncio
import contextlib
import json
import sys

import nats
import nats.errors

from pxe.nats import is_wanted

BATCH, WAIT_S = 200, 1.0


async def read(url: str, bot: str, counts: dict[int, int]) -> None:
    """Count events until cancelled."""
    client = await nats.connect(url)
    subscription = await client.jetstream().pull_subscribe(
        f"shardfw.{bot}.ev.>", durable="bench", stream="SHARDFW_EV"
    )
    while is_wanted():
        with contextlib.suppress(nats.errors.TimeoutError):
            for message in await subscription.fetch(BATCH, timeout=WAIT_S):
                counts[int(message.subject.split(".")[3])] += 1
                await message.ack()


async def main(url: str, bot: str, shards: int) -> None:
    """Read until standard input ends."""
    counts = dict.fromkeys(range(shards), 0)
    reading = asyncio.ensure_future(read(url, bot, counts))
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while await reader.readline() and not reading.done():
        sys.stdout.write(json.dumps(counts) + "\n")
        sys.stdout.flush()
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=not reading.done())


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
