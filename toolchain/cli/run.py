"""`shardfw run`: boot a QEMU node over the network and watch its shards."""

from __future__ import annotations

import asyncio
import json
import math
import signal
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from firmware.layouts.fleet import DURATION_MAX_MS, DURATION_MIN_MS, HELD_MAX
from toolchain.cli.runtime import DEFAULT_NAME
from toolchain.config.schema import MAX_LOCAL_SHARDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pxe.node import SerialLine
    from toolchain.cli.loglines import LogLine
    from toolchain.cli.runner import Runner, RunOptions
    from toolchain.config import NodeConfig

FLEET_NODES_MAX, LEAST_FOR_DEMO = 8, 2
LEASE_MS = 20_000
DEMO_LOAD = 50
NICS = ("transitional", "legacy", "modern")
DEFAULT_CONCURRENCY = DEFAULT_SHARDS = 16
FLEET_PATIENCE_S = 20
"""More for each node: they boot beside each other."""
FRAMES_A_SECOND = 8
BOOT_PATIENCE_S, GROUP_PATIENCE_S = 60, 6


def _print_line(runner: Runner, line: SerialLine, parsed: LogLine | None) -> None:
    """Print a line of the node, and behind its start how many shards it lacks memory for."""
    sys.stdout.write(f"{line.seconds:8.3f} {line.text}\n")
    if parsed is not None and parsed.code.name == "node.started" and runner.lacks:
        sys.stdout.write(f"{line.seconds:8.3f} {runner.lacks}\n")
    sys.stdout.flush()


async def _watch(runner: Runner, *, on_stderr: bool) -> None:
    """Draw the live table until cancelled; nothing when there is no terminal."""
    from rich.console import Console  # noqa: PLC0415
    from rich.live import Live  # noqa: PLC0415

    from toolchain.cli.view import render  # noqa: PLC0415

    console = Console(stderr=on_stderr)
    if not console.is_terminal:
        return
    with Live(console=console, auto_refresh=False, transient=on_stderr) as live:
        try:
            while True:
                live.update(render(runner, console.height), refresh=True)
                await asyncio.sleep(1 / FRAMES_A_SECOND)
        finally:
            live.update(render(runner, console.height), refresh=True)


async def _run(
    options: RunOptions, *, until_ready: bool, timeout: float, as_json: bool
) -> dict[str, Any]:
    """Run the node; return its report. With `until_ready` it ends when all shards are READY.

    Raises:
        NodeStoppedError: The node was stopped.
    """
    from toolchain.cli.runner import Runner  # noqa: PLC0415

    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stop.set)
    runner = Runner(options)
    if not as_json and not sys.stdout.isatty():
        runner.on_line = partial(_print_line, runner)

    async def until(runner: Runner) -> None:
        if until_ready:
            await runner.until_ready(timeout)
            return
        if as_json:
            await runner.until_ready(timeout)
            click.echo(json.dumps(runner.report()))
        await asyncio.Event().wait()

    work = asyncio.ensure_future(runner.run(until))
    view = asyncio.ensure_future(_watch(runner, on_stderr=as_json))
    stopped = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait([work, stopped], return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            await work
        elif until_ready:
            raise click.Abort
        return runner.report()
    finally:
        for task in (view, work, stopped):
            task.cancel()
        await asyncio.gather(view, work, stopped, return_exceptions=True)


def _sentence(report: dict[str, Any]) -> str:
    text = f"{report['ready']} of {report['shards']} shards READY over {report['transport']}"
    if report["nbp_to_ready_ms"] is not None:
        text += (
            f"; all were {report['nbp_to_ready_ms']} ms after the first instruction, "
            f"{report['power_on_to_ready_ms']} ms after power-on"
        )
    return f"{text}; image {report['image_bytes']} bytes"


def _patience(shards: int, config: NodeConfig) -> float:
    """Return how long a boot may take: shards identify in groups, five seconds apart."""
    groups = math.ceil(shards / config.gateway.max_concurrency)
    return BOOT_PATIENCE_S + GROUP_PATIENCE_S * groups


def _overrides(shards: int | None, config: Path | None) -> Iterator[tuple[str, object]]:
    if shards is not None:
        yield "shards.count", shards
    if config is None:
        yield "gateway.max_concurrency", DEFAULT_CONCURRENCY


@click.command(
    epilog="""\b
Examples:
  shardfw run                                16 shards over wss://, a live table until Ctrl-C
  shardfw run --shards 4 --load 200          with 200 dispatches a second
  shardfw run --shards 256 --until-ready     a full node in 32 MiB; 80 s, for Identifies are paced
  shardfw run --until-ready --json           boot, wait for READY, print the figures, end
  shardfw run --no-tls                       over ws://, to read along with --pcap
  shardfw run -c node.toml --nic modern      with a configuration, on another device
  shardfw run --fleet 3 --shards 12          three nodes that share the shards over NATS
  shardfw run --fleet 3 --demo-takeover      move a slot, kill a node, and see what became of shards and events

\b
JSON, printed once when all shards are READY:
  shards, ready            how many the node holds, how many are READY
  transport                "wss": over TLS 1.3, "ws": plain WebSocket
  nbp_to_ready_ms          from the node's first instruction, by its own clock
  power_on_to_ready_ms     from the start of QEMU, by this machine's clock
  image_bytes              size of the boot image

\b
With --fleet: nodes (label, name, alive, slots), shards, connected, slots, held, transport, image_bytes;
with --demo-takeover: nodes, shards, slots, lease_ms, and
  overlaps                 two connections spoke for one shard; must be 0
  events                   dispatches that the gateway published while it ran, and would repeat
  lost_events              how many of them a reader of the stream did not get; of a planned hand-over
                           handover_lost_events, which must be 0
  doubled_events           how many it got twice; must be 0; until the hand-over handover_doubled_events
  handover_s               from the order to move slot 0 until its handover_shards had a session on the
                           node handover_to instead of handover_from; handover_resumed, handover_identified
  takeover_s               from the death of victim until its moved_shards had a session on the takers;
                           resumed, identified; the same in kill_to_connected_ms
  kill_to_claim_ms         until all slots were claimed
  renewal_to_connected_s   from the victim's last renewal, which is what takeover_bound_s is about
  identify_gate_refusals   Identifies that came too soon; must be 0
Exit code 1 when anything is not as it must be."""
)
@click.option(
    "--shards", type=click.IntRange(1, MAX_LOCAL_SHARDS), help="How many shards.  [default: 16]"
)
@click.option(
    "-c",
    "--config",
    type=click.Path(dir_okay=False, path_type=Path),
    help="node.toml; its gateway is replaced by the local one.",
)
@click.option("--until-ready", is_flag=True, help="End with exit code 0 once all are READY.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=1),
    help="Seconds that --until-ready and --json wait, and --demo-takeover at first.  [default: 60, 6 for "
    f"each group of gateway.max_concurrency shards, and {FLEET_PATIENCE_S} for each node of a fleet]",
)
@click.option("--direct", is_flag=True, help="Start the image without the boot ROM (development).")
@click.option(
    "--memory", default=32, show_default=True, type=click.IntRange(min=16), help="RAM in MiB."
)
@click.option(
    "--nic",
    type=click.Choice(NICS),
    default=NICS[0],
    show_default=True,
    help="Which virtio-net device the node finds.",
)
@click.option(
    "--gateway/--no-gateway",
    "local",
    default=True,
    help="Start a local gateway, or use the one of the configuration.",
)
@click.option(
    "--tls/--no-tls",
    default=None,
    help="Whether the local gateway serves TLS 1.3, with a CA made for this run.  [default: --tls]",
)
@click.option(
    "--load",
    default=0.0,
    show_default=True,
    type=click.FloatRange(min=0),
    help="Dispatches a second of the local gateway.",
)
@click.option("--pcap", type=click.Path(dir_okay=False, path_type=Path), help="Record all frames.")
@click.option(
    "--name", default=DEFAULT_NAME, show_default=True, help="How status, lease and stop find it."
)
@click.option(
    "--fleet",
    "nodes",
    type=click.IntRange(1, FLEET_NODES_MAX),
    help="Run so many nodes on one segment, with a NATS server; they share the shards.",
)
@click.option(
    "--slots", type=click.IntRange(1), help="Slots of the fleet's plan.  [default: nodes]"
)
@click.option(
    "--lease-ms",
    default=LEASE_MS,
    show_default=True,
    type=click.IntRange(DURATION_MIN_MS, DURATION_MAX_MS),
    help="How long a lease of the fleet lasts.",
)
@click.option(
    "--demo-takeover",
    "demo",
    is_flag=True,
    help="Move a slot of the fleet, kill a node, print what came of both; with "
    f"{DEMO_LOAD} dispatches a second unless --load says otherwise.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the figures as one JSON object.")
def command(
    *,
    shards: int | None,
    config: Path | None,
    until_ready: bool,
    timeout: float | None,
    direct: bool,
    memory: int,
    nic: str,
    local: bool,
    tls: bool | None,
    load: float,
    pcap: Path | None,
    name: str,
    nodes: int | None,
    slots: int | None,
    lease_ms: int,
    demo: bool,
    as_json: bool,
) -> None:
    """Boot a QEMU node over the network against a local gateway and watch its shards.

    Builds the image, starts the gateway on a free port, boots through the machine's own boot ROM.
    Ctrl-C ends all of it, and so does `shardfw stop`. Exit codes: 0 READY, stopped or ended by
    Ctrl-C, 1 not all READY (too late, FATAL, no memory) or QEMU ended, 2 wrong usage.
    """
    if nodes is not None and (not local or pcap is not None):
        raise click.UsageError("--fleet has a gateway of its own and no --pcap")
    if demo and (nodes is None or nodes < LEAST_FOR_DEMO):
        raise click.UsageError("--demo-takeover needs another node: --fleet 2 or more")
    if nodes is None and (slots is not None or lease_ms != LEASE_MS):
        raise click.UsageError("--slots and --lease-ms go with --fleet")
    if nodes is not None and slots is not None and slots > HELD_MAX * (nodes - demo):
        raise click.UsageError(
            f"{slots} slots are too many. Write {HELD_MAX * (nodes - demo)} at most: {HELD_MAX} for each node"
            f"{' but the one that is killed' if demo else ''}"
        )
    if not local and config is None:
        raise click.UsageError("--no-gateway needs -c: a configuration that names a gateway")
    if tls is not None and not local:
        raise click.UsageError(
            f"--{'' if tls else 'no-'}tls is about the local gateway; without one the URL of the "
            "configuration decides"
        )
    from toolchain.cli.build import read_config  # noqa: PLC0415

    # The shards of a fleet are its plan's, and a configuration of one of its nodes has none.
    own = shards if nodes is None else None
    checked = read_config(config, dict(_overrides(own, config)), makes_key=True)
    from pxe.node import MissingProgramError, NicModel, NodeError  # noqa: PLC0415
    from toolchain.asm.errors import AsmError  # noqa: PLC0415
    from toolchain.build import BuildError  # noqa: PLC0415
    from toolchain.cli.runner import NodeStoppedError, RunError, RunOptions  # noqa: PLC0415
    from toolchain.cli.runtime import RunnerError  # noqa: PLC0415
    from toolchain.link import LinkError  # noqa: PLC0415

    total = checked.shards.count
    if nodes is not None:
        total = shards or checked.shards.total or DEFAULT_SHARDS
    wait_s = _patience(total, checked) if timeout is None else timeout
    if nodes is not None:
        from toolchain.cli.fleet_services import FleetRunOptions  # noqa: PLC0415
        from toolchain.cli.run_fleet import cap_for, fleet_main  # noqa: PLC0415

        cut = nodes if slots is None else slots
        fleet = FleetRunOptions(
            config=checked,
            nodes=nodes,
            total=total,
            slots=cut,
            cap=cap_for(nodes, cut),
            lease_ms=lease_ms,
            target="direct" if direct else "bios",
            memory_mb=memory,
            nic=NicModel[nic.upper()],
            tls=tls is not False,
            load=load or float(DEMO_LOAD * demo),
            publishes=True if demo else None,
            name=name,
        )
        if timeout is None:
            wait_s += FLEET_PATIENCE_S * nodes
        fleet_main(fleet, until_ready=until_ready, demo=demo, timeout=wait_s, as_json=as_json)
        return
    options = RunOptions(
        config=checked,
        name=name,
        target="direct" if direct else "bios",
        memory_mb=memory,
        nic=NicModel[nic.upper()],
        local_gateway=local,
        tls=tls is not False,
        load=load,
        pcap=pcap,
    )
    work = _run(options, until_ready=until_ready, timeout=wait_s, as_json=as_json)
    try:
        report = asyncio.run(work)
    except NodeStoppedError as error:
        if until_ready:
            raise click.ClickException(f"{error}, and its shards were not all READY") from error
        click.echo(str(error), err=as_json)
        return
    except (
        AsmError, BuildError, LinkError, MissingProgramError, NodeError, RunError, RunnerError
    ) as error:  # fmt: skip
        raise click.ClickException(str(error)) from error
    if not as_json:
        click.echo(_sentence(report))
    elif until_ready:
        click.echo(json.dumps(report))
