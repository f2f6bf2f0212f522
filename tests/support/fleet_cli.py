"""`shardfw fleet` and nodes of the reference beside each other, over a real server."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

from click.testing import CliRunner, Result

from pxe.nats import NatsOptions, NatsServer
from tests.support.fleet_node import FleetNode
from toolchain.cli.fleet import command

ROOT = Path(__file__).parents[2]
BOT = "b1"
DURATION_MS = 4000
"""The shortest lease: D' is 4.54 s."""
PLAN = ["--slots", "2", "--duration-ms", str(DURATION_MS)]
Run = tuple[int, int, float, float]
"""Slot, generation, when it began, when it ended."""
R = TypeVar("R")
SHARDFW = "import sys; from toolchain.cli.main import main; sys.exit(main())"


async def fleet(url: str, *argv: str, **environ: str) -> Result:
    """Run a command in this process, in a thread of its own."""
    first, *rest = argv
    words = [first, "--bot", BOT, "--server", url, *rest]
    return await asyncio.to_thread(CliRunner(env=environ).invoke, command, words)


async def told(url: str, *argv: str, **environ: str) -> Any:
    """Return what a command prints as JSON; it must succeed."""
    result = await fleet(url, *argv, "--json", **environ)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def refused(*argv: str, bot: str = BOT, **environ: str) -> str:
    """Run a command as a program of its own; return its error. nats-py leaks what it cannot open."""
    first, *rest = argv
    words = [sys.executable, "-c", SHARDFW, "fleet", first, "--bot", bot, *rest]
    done = subprocess.run(
        words,
        check=False,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, **environ},
        timeout=60,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr.strip()


async def new_fleet(url: str, *argv: str, **environ: str) -> None:
    """Make a fleet of four shards in two slots that nobody ever ran."""
    await told(url, "init", "--total", "4", *PLAN, "--new", *argv, **environ)


async def holders(url: str) -> list[str | None]:
    """Return who has each slot."""
    return [slot["node"] for slot in (await told(url, "status"))["slots"]]


def with_server(
    scenario: Callable[[NatsServer], Awaitable[R]], options: NatsOptions | None = None
) -> R:
    """Return what a scenario gives beside a server that lives for it."""

    async def run() -> R:
        async with NatsServer(options) as server:
            return await scenario(server)

    return asyncio.run(run())


def overlaps(*nodes: FleetNode) -> list[tuple[Run, Run]]:
    """Return pairs of runs of one slot that were at the same time; a crashed node's never end."""
    runs: list[Run] = []
    for node in nodes:
        open_: dict[int, tuple[int, float]] = {}
        for what, slot, generation, at in node.history:
            if what == "start":
                open_[slot] = (generation, at)
            else:
                runs.append((slot, *open_.pop(slot), at))
        runs += [(slot, *begun, float("inf")) for slot, begun in open_.items()]
    runs.sort(key=lambda run: run[2])
    return [
        (one, other)
        for number, one in enumerate(runs)
        for other in runs[number + 1 :]
        if one[0] == other[0] and other[2] < one[3]
    ]
