"""An operator who approves nodes over a real server, and the token that they get."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from pxe.nats import NatsOptions, NatsServer
from tests.support.enrolling import IDENTITY, EnrollingNode
from tests.support.fleet_cli import fleet
from toolchain.cli.fleet import approving
from toolchain.cli.fleet.enrolment import Announcement

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import pytest
    from click.testing import Result

R = TypeVar("R")
TOKEN = "MTk4.the-token.of_the-bot"  # noqa: S105 - of tests
TOKEN_IN = {"SHARDFW_TOKEN": TOKEN}


def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for no more than nodes need that speak five times a second; forget what the shell has."""
    monkeypatch.setattr(approving, "LISTEN_S", 1.0)
    monkeypatch.setattr(approving, "ENROLLED_S", 2.0)
    for name in ("SHARDFW_TOKEN", "SHARDFW_NODE_PASSWORD", "SHARDFW_NODE_NKEY"):
        monkeypatch.delenv(name, raising=False)


def shown(node: EnrollingNode) -> str:
    """Return the fingerprint of a node's key."""
    return Announcement("n7", False, 0, node.public, IDENTITY).fingerprint


def served(work: Callable[[NatsServer], Awaitable[R]], options: NatsOptions | None = None) -> R:
    """Do async work beside a running server."""

    async def run() -> R:
        async with NatsServer(options) as server:
            return await work(server)

    return asyncio.run(run())


async def approve(server: NatsServer, *words: str, **environ: str) -> Result:
    """Run the command beside the server."""
    return await fleet(server.url, "approve", *words, **environ)


def error_of(result: Result) -> str:
    """Return the last line that a command which failed has said."""
    assert result.exit_code == 1, result.output
    return result.stderr.strip().splitlines()[-1]
