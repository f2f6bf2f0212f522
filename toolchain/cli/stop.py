"""`shardfw stop`: a node closes its shards, releases everything, reports, and goes off."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import click

from firmware.layouts.control import ControlVerb
from firmware.layouts.stop import StopPhase, StopReport
from toolchain.cli.control import Commander, CommandError, NoReplyError, find_place, place_options
from toolchain.cli.runtime import RunnerError, wait_gone
from toolchain.layout.pack import unpack

if TYPE_CHECKING:
    from toolchain.cli.control import Place

POLL_S = 0.1
GONE_S = 15.0
"""Wait for a local run to end after its node has stopped; seconds."""


def stop_node(place: Place, timeout: float) -> dict[str, Any]:
    """Tell a node to stop, and return its report once everything is released.

    Args:
        place: The node.
        timeout: Seconds in all.

    Raises:
        CommandError: It did not answer, refused, or was not done in time.
    """
    deadline = time.monotonic() + timeout
    begun = False
    with Commander(place) as node:
        while True:
            try:
                reply = node.send(ControlVerb.STOP, room=StopReport.SIZE)
            except NoReplyError as error:
                if not begun:
                    raise
                raise NoReplyError(
                    "the node fell silent while it stopped, so its report is not known. See its "
                    "serial line for node.stopped"
                ) from error
            begun = True
            report = unpack(StopReport, reply.payload)
            if report["phase"] >= StopPhase.STOPPED:
                return report
            if time.monotonic() >= deadline:
                raise CommandError(
                    f"{report['open']} connections are still open after {timeout:g} s. The node goes "
                    "on with its stop; ask again with a longer --timeout"
                )
            time.sleep(POLL_S)


def _sentence(report: dict[str, Any]) -> str:
    text = (
        f"stopped in {report['took']} ms: {report['closed']} connections closed, "
        f"{report['reset']} reset"
    )
    return f"{text}, {report['left']} not released in time" if report["left"] else text


@click.command(
    epilog="""\b
Examples:
  shardfw stop                       the node that `shardfw run` started here
  shardfw stop --json                its report for a program
  shardfw stop --host 192.0.2.7      a node elsewhere, with the key in SHARDFW_CONTROL_KEY

\b
Every open shard closes with code 4000, so that its session can be resumed; who does not answer
within five seconds is reset. The node reports and goes off; a node run here is gone when this
command returns. The power button does the same.

\b
JSON: closed (connections that ended with the close handshake), reset (without it), left (not
released in time), took_ms.
Exit codes: 0 all was released, 1 no node, no answer, or connections were left, 2 wrong usage."""
)
@place_options
@click.option(
    "--timeout",
    default=15.0,
    show_default=True,
    type=click.FloatRange(min=1),
    help="Seconds to wait until everything is released.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the report as one JSON object.")
def command(
    *, name: str, host: str | None, port: int | None, timeout: float, as_json: bool
) -> None:
    """Stop a node: close every shard, wait until all is released, switch it off."""
    try:
        report = stop_node(find_place(name, host, port), timeout)
        if host is None and port is None:
            wait_gone(name, GONE_S)
    except (CommandError, RunnerError) as error:
        raise click.ClickException(str(error)) from error
    if as_json:
        shown = {key: report[key] for key in ("closed", "reset", "left")}
        click.echo(json.dumps(shown | {"took_ms": report["took"]}))
    else:
        click.echo(_sentence(report))
    if report["left"]:
        raise SystemExit(1)
