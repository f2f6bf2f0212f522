"""`shardfw gateway`: serve a local gateway until Ctrl-C."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterator

    from pxe.gateway.events import GatewayEvent
    from pxe.gateway.script import Step

DEFAULT_PORT = 8080
STANDARD_OUTPUT = Path("-")


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


@contextlib.contextmanager
def _tls(
    host: str, names: tuple[str, ...], folder: Path | None, ca: Path | None
) -> Iterator[tuple[ssl.SSLContext, Path]]:
    """Give the server's context and the file of its root, which a temporary folder holds if need be.

    Args:
        host: Where it listens.
        names: Further host names and addresses.
        folder: Keeps the chain for the next start, or None.
        ca: Gets a copy of the root; `-` is standard output.
    """
    from pxe.gateway.certificates import ROOT_FILE, kept_chain  # noqa: PLC0415
    from pxe.gateway.cli_support import names_of  # noqa: PLC0415

    with tempfile.TemporaryDirectory(prefix="shardfw-tls-") as passing:
        place = folder or Path(passing)
        try:
            chain = kept_chain(place, names_of(host, names))
            root = place / ROOT_FILE
            if ca == STANDARD_OUTPUT:
                click.echo(chain.root.decode(), nl=False)
            elif ca is not None:
                ca.write_bytes(chain.root)
                root = ca
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="--name") from error
        except OSError as error:
            raise click.ClickException(
                f"cannot write {error.filename}: {error.strerror}"
            ) from error
        yield chain.context(), root


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
  shardfw gateway --tls --ca ca.pem          and extra_anchors = ["ca.pem"] in node.toml

\b
A script is TOML with [[step]] tables, for example
  [[step]]
  on = "ready"
  shard = 3
  after_ms = 2000
  do = "kick"
  code = 4000

A QEMU node on its user network reaches this gateway at ws://10.0.2.2:PORT/, or wss:// with --tls."""
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
@click.option(
    "--tls", is_flag=True, help="Serve wss:// and https:// (TLS 1.3) with a CA made for it."
)
@click.option(
    "--name",
    "names",
    multiple=True,
    help="A further host name or address of the certificate; may be given several times. It has "
    "--host, 127.0.0.1, localhost, 10.0.2.2 and 10.77.0.1 anyway.",
)
@click.option(
    "--tls-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep chain, key and CA in this folder and use them again; otherwise each start has others.",
)
@click.option(
    "--ca",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    help="Write the CA's certificate to this file, PEM; - prints it.",
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
    tls: bool,
    names: tuple[str, ...],
    tls_dir: Path | None,
    ca: Path | None,
    as_json: bool,
) -> None:
    """Serve a local gateway, Discord's or Fluxer's, on this machine until Ctrl-C.

    The same port answers GET /gateway/bot (discord) or /.well-known/fluxer (fluxer), for nodes that
    discover their gateway.

    Prints one line per event, dispatches excepted; ends with the counts. Exit codes: 0 stopped,
    1 could not listen or read a file, 2 wrong usage.
    """
    from pxe.gateway.cli_support import print_event  # noqa: PLC0415

    if not tls and (names or tls_dir or ca):
        raise click.UsageError("--name, --tls-dir and --ca are about certificates; add --tls")
    if as_json and ca == STANDARD_OUTPUT:
        raise click.UsageError("--json and --ca - both want standard output; name a file")
    token, steps = _read_token(token_env, token_file), _read_script(script)
    try:
        with contextlib.ExitStack() as stack:
            context, root = (
                stack.enter_context(_tls(host, names, tls_dir, ca)) if tls else (None, None)
            )
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
                    ssl_context=context,
                    ca=root,
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
