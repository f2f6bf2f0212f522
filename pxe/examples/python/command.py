"""Send a command to the node that owns a shard, and print its answer.

    python command.py --bot b1 --shard 0 '{"op":3,"d":{"since":null,"activities":[],"status":"idle","afk":false}}'

Needs nats-py. The commands: firmware/docs/fleet.md#commands.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import sys
from typing import Any

import nats
import nats.errors

WAIT_S = 5.0
say = functools.partial(print, flush=True)


async def send(server: str, bot: str, shard: int, command: str, who: dict[str, Any]) -> int:
    """Return the exit code: 0 when the node did it."""
    client = await nats.connect(server, **who)
    try:
        answer = await client.request(f"shardfw.{bot}.cmd.{shard}", command.encode(), WAIT_S)
    except nats.errors.NoRespondersError:
        say(f"no node owns shard {shard} now", file=sys.stderr)
        return 1
    except nats.errors.TimeoutError:
        say("no answer: it may have been done, or not", file=sys.stderr)
        return 1
    finally:
        await client.close()
    say(answer.data.decode())
    return 0 if answer.data == b'{"ok":true}' else 1


if __name__ == "__main__":
    from login import login  # type: ignore[import-not-found]  # beside this file

    parser = argparse.ArgumentParser()
    parser.add_argument("--server", default="nats://127.0.0.1:4222")
    parser.add_argument("--bot", required=True)
    parser.add_argument("--shard", type=int, required=True)
    parser.add_argument("command")
    sys.exit(asyncio.run(send(**vars(parser.parse_args()), who=login())))
