"""The two streams of a fleet, and what must hold of the servers that keep them."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.request import urlopen

import nats.js.errors

from toolchain.cli.fleet.connect import EVENTS, STREAM, FleetError
from toolchain.cli.fleet.words import DOCS

if TYPE_CHECKING:
    from toolchain.cli.fleet.connect import Fleet

NS: Final = 1_000_000_000
EVENT_BYTES: Final = 128 << 20
EVENT_S: Final = 300
DUPLICATE_S: Final = 120
PAYLOAD_BYTES: Final = 8 << 20
REPLICAS: Final = 3
NOT_FOUND: Final = 404
NO_PEERS: Final = 10_005
"""JetStream's error code where too few servers can be reached by their leader."""
PEERS_S: Final = 15
"""How long the servers of a cluster that was just started may need to know each other."""
POLL_S: Final = 0.25
MONITOR_S: Final = 5
ALWAYS: Final = "jetstream { sync_interval: always }"

OK, NOTE, BAD = "ok", "note", "bad"


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        level: OK, NOTE (works, but look at it) or BAD (a fleet is not safe here).
        what: What was looked at.
        text: What was found; with what to do unless it is OK.
    """

    level: str
    what: str
    text: str


def wanted(replicas: int, event_bytes: int) -> dict[str, dict[str, Any]]:
    """Return the configurations of the streams, by name."""
    return {
        STREAM: {
            "name": STREAM,
            "subjects": ["$KV.shardfw.>"],
            "retention": "limits",
            "storage": "file",
            "discard": "new",
            "max_msgs_per_subject": 1,
            "max_age": 0,
            "num_replicas": replicas,
            "deny_delete": True,
            "allow_rollup_hdrs": False,
            "allow_direct": True,
        },
        EVENTS: {
            "name": EVENTS,
            "subjects": ["shardfw.*.ev.>"],
            "retention": "limits",
            "storage": "memory",
            "discard": "old",
            "max_age": EVENT_S * NS,
            "max_bytes": event_bytes,
            "duplicate_window": DUPLICATE_S * NS,
            "num_replicas": replicas,
        },
    }


async def stream_config(fleet: Fleet, name: str) -> dict[str, Any] | None:
    """Return the configuration of a stream, None when there is none.

    Raises:
        FleetError: No answer, or not allowed.
    """
    try:
        found = await fleet.api(f"STREAM.INFO.{name}")
    except nats.js.errors.APIError as error:
        if error.code == NOT_FOUND:
            return None
        raise FleetError(f"{name}: {error.description}") from error
    config: dict[str, Any] = found["config"]
    return config


async def _make_stream(fleet: Fleet, name: str, config: bytes) -> None:
    """Make one, as soon as there are servers for it."""
    deadline = time.monotonic() + PEERS_S
    while True:
        try:
            await fleet.api(f"STREAM.CREATE.{name}", config)
        except nats.js.errors.APIError as error:
            if error.err_code != NO_PEERS or time.monotonic() > deadline:
                raise
            await asyncio.sleep(POLL_S)
        else:
            return


async def make_streams(fleet: Fleet, replicas: int, event_bytes: int) -> list[str]:
    """Make the streams that are missing; return their names.

    Raises:
        FleetError: The server refuses.
    """
    made = []
    for name, config in wanted(replicas, event_bytes).items():
        if await stream_config(fleet, name) is not None:
            continue
        try:
            await _make_stream(fleet, name, json.dumps(config).encode())
        except nats.js.errors.APIError as error:
            raise FleetError(
                f"the server does not make {name} with {replicas} replicas: {error.description}. A "
                "cluster needs three servers that run, each with room for it"
            ) from error
        made.append(name)
    return made


def judge_server(info: dict[str, Any], replicas: int) -> list[Finding]:
    """Return what a server's INFO tells."""
    clustered = bool(info.get("cluster"))
    found = [Finding(OK, "version", f"nats-server {info['version']}")]
    if clustered and replicas < REPLICAS:
        text = f"a cluster, and {replicas} copies of the leases. Leave --replicas out"
        found.append(Finding(BAD, "copies", text))
    elif clustered:
        found.append(Finding(OK, "copies", f"{replicas}, in cluster {info['cluster']}"))
    else:
        text = (
            "one server: when it stops, so does the fleet, and its disk is all there is. Run three"
        )
        found.append(Finding(NOTE, "copies", text))
    size = info["max_payload"]
    if size < PAYLOAD_BYTES:
        text = (
            f"messages of at most {size} bytes: larger events are published as stubs. Write "
            "max_payload: 8MB"
        )
        found.append(Finding(NOTE, "max_payload", text))
    else:
        found.append(Finding(OK, "max_payload", f"{size} bytes"))
    if not info.get("auth_required"):
        text = f"anybody who reaches the port may take a lease. {DOCS} shows a user for each node"
        found.append(Finding(NOTE, "login", text))
    if not (info.get("tls_required") or info.get("tls_available")):
        found.append(Finding(NOTE, "TLS", "without it leases and events can be read and changed"))
    return found


def judge_stream(name: str, config: dict[str, Any] | None, want: dict[str, Any]) -> list[Finding]:
    """Return how a stream's configuration differs from what a fleet needs."""
    if config is None:
        return [Finding(BAD, name, "missing. Make it with: shardfw fleet init")]
    # Room for events is the operator's choice, as long as there is a bound.
    free = {"max_bytes"} if config.get("max_bytes", -1) > 0 else set()
    found = [
        Finding(
            BAD,
            name,
            f"{key} is {config.get(key)!r}. Set it to {value!r} with: nats stream edit {name}",
        )
        for key, value in want.items()
        if key not in free and config.get(key, type(value)()) != value
    ]
    return found or [Finding(OK, name, f"{config['num_replicas']} x {config['storage']}")]


def judge_sync(monitors: tuple[str, ...]) -> list[Finding]:
    """Return whether each server writes to the disk before it acknowledges.

    Args:
        monitors: URLs of HTTP monitoring.
    """
    if not monitors:
        text = (
            "not checked: sync_interval: always keeps leases over a power loss. Name the monitoring "
            "of each server: --monitor http://127.0.0.1:8222"
        )
        return [Finding(NOTE, "sync", text)]
    found = []
    for url in monitors:
        try:
            with urlopen(f"{url.rstrip('/')}/varz", timeout=MONITOR_S) as answer:  # noqa: S310 - the operator's own URL
                varz = json.loads(answer.read())
            config = varz["jetstream"]["config"]
        except (OSError, ValueError, KeyError) as error:
            text = f"{url} does not tell: {error}. Name the http: address of a nats-server"
            found.append(Finding(BAD, "sync", text))
            continue
        name = varz.get("server_name", url)
        if config.get("sync_always"):
            found.append(Finding(OK, "sync", f"{name}: always"))
        else:
            text = (
                f"{name} acknowledges what a power loss takes away, and then two nodes may hold one "
                f"slot. Write {ALWAYS}"
            )
            found.append(Finding(BAD, "sync", text))
    return found


async def examine(
    fleet: Fleet, replicas: int, event_bytes: int, monitors: tuple[str, ...]
) -> list[Finding]:
    """Return all findings about servers and streams.

    Raises:
        FleetError: No answer, or not allowed.
    """
    found = judge_server(fleet.info, replicas) + await asyncio.to_thread(judge_sync, monitors)
    for name, want in wanted(replicas, event_bytes).items():
        found += judge_stream(name, await stream_config(fleet, name), want)
    return found


def default_replicas(info: dict[str, Any]) -> int:
    """Return how many copies a stream has: three in a cluster."""
    return REPLICAS if info.get("cluster") else 1
