"""`shardfw gateway`: serve a local gateway until Ctrl-C."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Callable

    from pxe.gateway.events import GatewayEvent
    from pxe.gateway.script import Step

DEFAULT_PORT = 8080


def event_json(event: GatewayEvent) -> str:
    """Return one event as a line of JSON: t_ms, event, connection, shard, and its own fields."""
    row: dict[str, object] = {"t_ms": event.at_ms, "event": event.name}
    row |= {"connection": event.connection, "shard": event.shard}
    return json.dumps(row | event.fields, default=str)


def _say_json(event: GatewayEvent) -> None:
    sys.stdout.write(event_json(event) + "\n")
    sys.stdout.flush()


def _read_token(name: str | None, path: Path | None) -> str | None:
    """Return the only token that the gateway shall accept, None for any."""
    if name is not None and path is not None:
        raise click.UsageError("--token-env and --token-file are both given; give one of them")
    if name is not None:
        if not os.environ.get(name):
            raise click.ClickException(
                f"the environment has no {name}. Set it: export {name}=..., or leave out "
                "--token-env to accept any token"
            )
        return os.environ[name].strip()
    return None if path is None else path.read_text(encoding="ascii").strip()


def _read_script(path: Path | None) -> tuple[Step, ...]:
    if path is None:
        return ()
    from pxe.gateway.cli_support import load_script  # noqa: PLC0415 - --help needs no gateway

    try:
        return load_script(path)
    except ValueError as error:
        raise click.ClickException(str(error)) from error


async def _serve(on_event: Callable[[GatewayEvent], None], **settings: object) -> dict[str, object]:
    """Serve until the first SIGINT or SIGTERM; return the counts."""
    from pxe.gateway.cli_support import serve  # noqa: PLC0415

    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stop.set)
    stats = await serve(on_event=on_event, stop=stop, **settings)  # type: ignore[arg-type]  # click checked their types
    return stats.to_dict()


@click.command(
    epilog="""\b
Examples:
  shardfw gateway --shards 16 --max-concurrency 16
  shardfw gateway --port 9000 --load 200 --json
  shardfw gateway --script trouble.toml
  shardfw gateway --profile fluxer

\b
A script is TOML with [[step]] tables, for example
  [[step]]
  on = "ready"
  shard = 3
  after_ms = 2000
  do = "kick"
  code = 4000

A QEMU node on its user network reaches this gateway at ws://10.0.2.2:PORT/."""
)
@click.option(
    "--profile",
    type=click.Choice(["discord", "fluxer"]),
    default="discord",
    show_default=True,
    help="Whose rules it follows.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    default=DEFAULT_PORT,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="TCP port; 0 takes a free one, which the first line names.",
)
@click.option(
    "--shards",
    default=16,
    show_default=True,
    type=click.IntRange(min=1),
    help="Shard count of the bot.",
)
@click.option(
    "--max-concurrency",
    default=16,
    show_default=True,
    type=click.IntRange(min=1),
    help="How many shards may identify in the same five seconds.",
)
@click.option(
    "--heartbeat-ms",
    default=41_250,
    show_default=True,
    type=click.IntRange(min=1),
    help="Heartbeat interval that Hello announces; milliseconds.",
)
@click.option(
    "--load",
    default=0.0,
    show_default=True,
    type=click.FloatRange(min=0),
    help="Dispatches a second over all shards.",
)
@click.option(
    "--guilds", default=2, show_default=True, type=click.IntRange(min=0), help="Guilds per shard."
)
@click.option(
    "--token-env", metavar="NAME", help="Accept only the token in this environment variable."
)
@click.option(
    "--token-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Accept only the token in this file. Without either, any token is accepted.",
)
@click.option(
    "--seed", default=0, show_default=True, type=int, help="Seed of session ids and of the load."
)
@click.option("--public-url", metavar="URL", help="URL for resume; default: as the client dialled.")
@click.option(
    "--script",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Scripted trouble: a TOML or JSON file.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object per event.")
def command(
    *,
    profile: str,
    host: str,
    port: int,
    shards: int,
    max_concurrency: int,
    heartbeat_ms: int,
    load: float,
    guilds: int,
    token_env: str | None,
    token_file: Path | None,
    seed: int,
    public_url: str | None,
    script: Path | None,
    as_json: bool,
) -> None:
    """Serve a local gateway, Discord's or Fluxer's, on this machine until Ctrl-C.

    The same port answers GET /gateway/bot (discord) or /.well-known/fluxer (fluxer), for nodes that
    discover their gateway.

    Prints one line per event, dispatches excepted; ends with the counts. Exit codes: 0 stopped,
    1 could not listen or read a file, 2 wrong usage.
    """
    from pxe.gateway.cli_support import print_event  # noqa: PLC0415

    token, steps = _read_token(token_env, token_file), _read_script(script)
    try:
        stats = asyncio.run(
            _serve(
                _say_json if as_json else print_event,
                host=host,
                port=port,
                shards=shards,
                max_concurrency=max_concurrency,
                heartbeat_interval_ms=heartbeat_ms,
                load_rate=load,
                token=token,
                seed=seed,
                guilds_per_shard=guilds,
                public_url=public_url,
                script=steps,
                profile=profile,
            )
        )
    except OSError as error:
        raise click.ClickException(
            f"cannot listen on {host}:{port}: {error.strerror or error}. Choose another --port; "
            "0 takes a free one"
        ) from error
    if as_json:
        click.echo(json.dumps({"event": "stopped", "stats": stats}))
    else:
        counts = {name: value for name, value in stats.items() if isinstance(value, int)}
        click.echo("stopped " + " ".join(f"{name}={value}" for name, value in counts.items()))
