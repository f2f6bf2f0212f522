"""What ``shardfw gateway`` calls.

::

    asyncio.run(serve(port=8080, shards=16, max_concurrency=16, load_rate=200.0))

or, to stop it from elsewhere and to learn the port::

    stop = asyncio.Event()
    task = asyncio.create_task(serve(shards=16, on_bound=print, stop=stop))
"""

import asyncio
import ipaddress
import json
import ssl
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

from pxe.gateway.accounting import GatewayStats
from pxe.gateway.events import GatewayEvent, Observer
from pxe.gateway.load import LoadOptions
from pxe.gateway.options import GatewayOptions
from pxe.gateway.protocol import PROFILES
from pxe.gateway.script import Step, parse_script
from pxe.gateway.server import GatewayServer
from pxe.segment import HOST_ADDRESS
from toolchain.config.endpoint import QEMU_HOST

LOCAL_NAMES = ("127.0.0.1", "localhost", QEMU_HOST, HOST_ADDRESS)
"""This machine: for itself, for a node on QEMU's user network, for one on a bridge of ours."""


def print_event(event: GatewayEvent) -> None:
    """Write one event as one line to standard output."""
    sys.stdout.write(event.line() + "\n")
    sys.stdout.flush()


def load_script(path: Path) -> tuple[Step, ...]:
    """Read a script: TOML with ``[[step]]`` tables, or a JSON list of objects.

    Raises:
        ValueError: Names the file and what is wrong in it.
    """
    text = path.read_text(encoding="utf-8")
    try:
        rows = json.loads(text) if path.suffix == ".json" else tomllib.loads(text).get("step", [])
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            msg = "expected a list of steps: [[step]] tables in TOML, a list of objects in JSON"
            raise ValueError(msg)
        return parse_script(rows)
    except ValueError as error:
        msg = f"{path}: {error}"
        raise ValueError(msg) from error


def names_of(host: str, more: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return the names under which a gateway on this machine is reached, for its certificate.

    Args:
        host: Where it listens.
        more: Further host names or addresses.
    """
    try:
        everywhere = ipaddress.ip_address(host).is_unspecified
    except ValueError:
        everywhere = False
    listens = () if everywhere else (host,)
    return tuple(dict.fromkeys((*listens, *more, *LOCAL_NAMES)))


async def serve(
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    shards: int = 1,
    max_concurrency: int = 1,
    heartbeat_interval_ms: int = 41_250,
    load_rate: float = 0.0,
    token: str | None = None,
    seed: int = 0,
    guilds_per_shard: int = 2,
    require_user_agent: bool = True,
    public_url: str | None = None,
    script: tuple[Step, ...] = (),
    profile: str = "discord",
    ssl_context: ssl.SSLContext | None = None,
    ca: Path | None = None,
    on_event: Observer | None = print_event,
    on_bound: Callable[[GatewayServer], None] | None = None,
    stop: asyncio.Event | None = None,
) -> GatewayStats:
    """Serve until ``stop`` is set or the task is cancelled, and return the counts.

    Args:
        host: Address to listen on; a node behind QEMU's user network reaches 127.0.0.1.
        port: Port to listen on; 0 takes a free one, which ``on_bound`` learns.
        shards: Shard count of the bot.
        max_concurrency: Identify keys.
        heartbeat_interval_ms: Interval that Hello announces.
        load_rate: Dispatches a second over all shards; 0 means none.
        token: The only accepted token; None accepts any.
        seed: Seed of session ids and load.
        guilds_per_shard: Guild stubs in READY.
        require_user_agent: Close an upgrade without User-Agent with 4002.
        public_url: Gateway URL for clients; None means the host that the client dialled.
        script: Scripted trouble, see :func:`load_script`.
        profile: Whose rules it follows, a key of PROFILES.
        ssl_context: Serves TLS when given.
        ca: Where the certificate lies that its clients have to trust; told when it listens.
        on_event: Called for every event; None says nothing.
        on_bound: Called once with the listening server: ``server.port``, ``server.url``.
        stop: Ends the server when set; None runs until the task is cancelled.

    Raises:
        ValueError: A setting makes no sense.
        OSError: The address cannot be listened on.
    """
    options = GatewayOptions(
        shards=shards,
        max_concurrency=max_concurrency,
        heartbeat_interval_ms=heartbeat_interval_ms,
        load=LoadOptions(rate=load_rate) if load_rate else None,
        token=token,
        seed=seed,
        guilds_per_shard=guilds_per_shard,
        require_user_agent=require_user_agent,
        public_url=public_url,
        script=script,
        profile=PROFILES[profile],
    )
    server = GatewayServer(
        options, host=host, port=port, observer=on_event, ssl_context=ssl_context
    )
    async with server:
        if on_event is not None:
            trusted = {} if ca is None else {"ca": ca}
            fields = {"url": server.url, "shards": shards} | trusted
            on_event(GatewayEvent(0, "listening", fields=fields))
        if on_bound is not None:
            on_bound(server)
        await (stop or asyncio.Event()).wait()
        return server.stats()
