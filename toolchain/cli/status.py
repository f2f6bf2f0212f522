"""`shardfw status`: what a running node says of itself and of every shard."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from toolchain.cli.runtime import DEFAULT_NAME, RunnerError
from toolchain.cli.runtime import ask as ask_runner

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.table import Table

DEFAULT_PORT = 4747
# Wide enough for every column: a narrow terminal wraps lines rather than losing values.
WIDTH = 170
ROWS_MOST = 64
"""With more shards than this, READY ones are counted and not listed, unless all are asked for."""
STATE_STYLES = {
    "READY": "green",
    "STARTING": "yellow",
    "ASSIGNED": "cyan",
    "BACKOFF": "red",
    "FATAL": "bold red",
}

Row = dict[str, Any]
Column = tuple[str, "Callable[[Row], object]"]


def milliseconds(value: int | None) -> str:
    """Return a duration for people: `-` for none, `85 ms`, `3.2 s`, `2 h 05 min`."""
    if value is None:
        return "-"
    size = abs(value)
    if size < 1000:
        return f"{value} ms"
    if size < 120_000:
        return f"{value / 1000:.1f} s"
    minutes = round(size / 60_000)
    text = f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60:02} min"
    return text if value > 0 else f"-{text}"


def _state(row: Row) -> str:
    more = {"STARTING": row["phase"], "ASSIGNED": row["hold"]}.get(row["state"], "NONE")
    text = row["state"] if more == "NONE" else f"{row['state']} {more}"
    style = STATE_STYLES.get(row["state"])
    return f"[{style}]{text}[/]" if style else text


def _retry(row: Row) -> str:
    if row["state"] != "BACKOFF":
        return "-"
    return "now" if row["reconnect_deadline"] == 0 else milliseconds(row["reconnect_in_ms"])


def _plain(value: object) -> str:
    return "-" if value is None else str(value)


def _failure(key: str, show: Callable[[Any], str] = _plain) -> Callable[[Row], object]:
    return lambda row: show(row["last_failure"][key])


LIFECYCLE: Sequence[Column] = (
    ("shard", lambda r: r["shard"]),
    ("state", _state),
    ("reconnects", lambda r: r["reconnects"]),
    ("retry in", _retry),
    ("outage", lambda r: milliseconds(r["outage_ms"])),
    ("gap", lambda r: r["gap"]),
    ("last error", lambda r: r["last_error_text"]),
    ("TCP", lambda r: r["tcp_state"]),
    ("TLS", lambda r: r["tls_state"]),
    ("beats missed", lambda r: r["heartbeat_misses"]),
    ("lease", lambda r: r["lease_generation"]),
    ("lease left", lambda r: milliseconds(r["lease_left_ms"])),
)
CONNECTION: Sequence[Column] = (
    ("shard", lambda r: r["shard"]),
    ("WebSocket", lambda r: r["websocket_state"]),
    ("gateway", lambda r: r["gateway_state"]),
    ("last ACK", lambda r: milliseconds(r["ack_age_ms"])),
    ("last frame", lambda r: milliseconds(r["frame_age_ms"])),
    ("latency", lambda r: milliseconds(r["latency_ms"])),
    ("sequence", lambda r: _plain(r["sequence"])),
    ("dispatches", lambda r: r["dispatches"]),
    ("attempts", lambda r: r["attempts"]),
    ("identified", lambda r: r["identifies"]),
    ("resumed", lambda r: r["resumes"]),
)
TLS: Sequence[Column] = (
    ("shard", lambda r: r["shard"]),
    ("protocol", lambda r: r["tls"]["protocol"]),
    ("suite", lambda r: r["tls"]["suite"]),
    ("group", lambda r: _plain(r["tls"]["group"])),
    ("chain", lambda r: r["tls"]["chain"]),
    ("server's key", lambda r: _plain(r["tls"]["key"])),
    ("anchor", lambda r: _plain(r["tls"]["anchor"] or r["tls"]["anchor_hash"]).replace("[", "\\[")),
)
FAILURE: Sequence[Column] = (
    ("shard", lambda r: r["shard"]),
    ("failed", _failure("ago_ms", lambda v: f"{milliseconds(v)} ago")),
    ("why", _failure("reason")),
    ("kind", _failure("classification")),
    ("ended by", _failure("stop")),
    ("phase", _failure("phase")),
    ("error", _failure("error_text")),
    ("TCP", _failure("tcp_state")),
    ("TLS", _failure("tls_state")),
    ("close", _failure("close_code")),
    ("HTTP", _failure("http_status")),
    ("sequence", _failure("sequence")),
    ("was READY", _failure("connected_ms", milliseconds)),
    ("delay", _failure("delay_ms", milliseconds)),
    ("next", _failure("next_step")),
)


def _table(title: str, columns: Sequence[Column], rows: Sequence[Row]) -> Table:
    from rich import box  # noqa: PLC0415 - --help and --json need no rich
    from rich.table import Table  # noqa: PLC0415

    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name, _ in columns:
        table.add_column(name, no_wrap=True)
    for row in rows:
        table.add_row(*(str(show(row)) for _, show in columns))
    return table


def _summary(shards: Sequence[Row]) -> str:
    """Return how many shards are in which state, in the order of the states."""
    counts = {name: sum(row["state"] == name for row in shards) for name in STATE_STYLES}
    said = [f"[{STATE_STYLES[name]}]{count} {name}[/]" for name, count in counts.items() if count]
    return f"{len(shards)} shards: {', '.join(said) or 'none'}"


def _entropy(node: Row) -> str:
    """Return what became of each source, the absent ones left out."""
    found = [
        f"{name} {state}" for name, state in node["entropy_sources"].items() if state != "absent"
    ]
    return ", ".join(found) or "no source"


def _link(link: Row) -> str:
    """Return a line about a connection to NATS."""
    up = link["state"] == "UP"
    state = f"[{'green' if up else 'red'}]{link['state']}[/]"
    server = link["server"] or "no server yet"
    version = f" ({link['version']})" if link["version"] else ""
    said = [f"NATS {link['link']} {state} {server}{version}, connected {link['connections']} times"]
    if link["failures"]:
        said.append(f"{link['failures']} attempts failed since")
    if link["denied"]:
        said.append(f"[yellow]{link['denied']} requests denied[/]")
    if link["last_error"]:
        said.append(f"last error {link['last_error_text']}")
    return ", ".join(said)


def _print(node: Row, shards: Sequence[Row], *, every: bool) -> None:
    from rich.console import Console  # noqa: PLC0415

    console = Console(highlight=False)
    console.width = max(console.width, WIDTH)
    first = node["local_start"]
    last = first + max(node["local_count"], 1) - 1
    console.print(
        f"node {node['ip'] or 'without address'} {node['connection']}: shards {first} to {last} of "
        f"{node['global_total']}, latency {milliseconds(node['latency_ms'])}, up {milliseconds(node['uptime_ms'])}, "
        f"{node['turns']} turns, TSC {node['tsc_cycles_per_ms']} cycles/ms, entropy "
        f"{node['entropy']} ({_entropy(node)}), {node['log_dropped']} log lines dropped, {node['requests_bad']} bad "
        f"requests, {node['commands']} commands, {node['commands_bad']} bad ones"
    )
    if node["lease_expired"]:
        lease = "[bold red]expired[/]: all shard traffic is stopped"
    elif node["lease_deadline"] == 0:
        lease = "off: enforcement is not armed"
    else:
        lease = f"ends in {milliseconds(node['lease_left_ms'])}"
    console.print(f"lease {lease} (grant {node['lease_generation']})")
    if (fleet := node["fleet"]) is not None:
        held = "; ".join(
            f"slot {one['slot']} {one['phase']}, generation {one['generation']}, {one['shards']} "
            f"shards, {milliseconds(one['left_ms'])} left"
            for one in fleet["held"]
        )
        console.print(
            f"fleet: watch {fleet['watch']}, plan {fleet['plan']} of epoch {fleet['epoch']}; "
            f"{held or 'no slot'}"
        )
    console.print(
        f"boot {node['boots']} since power came; {node['identified']} of "
        f"{node['identify_allowance'] or 'any number of'} Identifies of the day are sent"
    )
    for link in node["links"]:
        console.print(_link(link))
    if node["uuid"] or node["serial"]:
        from rich.markup import escape  # noqa: PLC0415

        console.print(
            f"machine {node['uuid'] or 'without UUID'}, serial number "
            f"{escape(node['serial'] or 'not known')}"
        )
    if node["plan_moves"] or node["leaving"]:
        console.print(
            f"plan {node['plan_generation']}: {node['plan_moves']} moves in the last hour, "
            f"{node['leaving']} shards are leaving"
        )
    if (recommended := node["recommended_shards"] or 0) > node["global_total"]:
        console.print(
            f"[yellow]the service recommends {recommended} shards[/], the bot has "
            f"{node['global_total']}; see shardfw {'plan' if fleet is None else 'fleet plan'}"
        )
    if node["crash_hold"]:
        console.print("[bold red]held[/]: three crashes in ten minutes; see shardfw release")
    if (enrol := node["enrol"]) is not None and enrol["state"] != "enrolled":
        last = f", the last one: {enrol['last_error']}" if enrol["last_error"] else ""
        what = (
            f"it waits for shardfw fleet approve, with the fingerprint {enrol['fingerprint']}"
            if enrol["state"] == "waiting"
            else "it cannot ask for one"
        )
        console.print(
            f"[bold red]{node['hold']}[/]: the node has no token; {what}; "
            f"{enrol['refused']} answers were refused{last}"
        )
    elif node["hold"]:
        console.print(f"[bold red]{node['hold']}[/]: the image holds no token, and no shard starts")
    if node["stop"] != "RUNNING":
        console.print(f"[yellow]{node['stop'].lower()}[/]: the node was told to stop")
    console.print(_summary(shards))
    if len(shards) > ROWS_MOST and not every:
        shards = [row for row in shards if row["state"] != "READY"]
        console.print("only shards that are not READY are listed; --all lists every one")
    if shards:
        console.print(_table("Lifecycle", LIFECYCLE, shards))
        console.print(_table("Connection", CONNECTION, shards))
    if encrypted := [row for row in shards if row["tls"] is not None]:
        console.print(_table("TLS", TLS, encrypted))
    failed = [row for row in shards if row["last_failure"] is not None]
    if failed:
        console.print(_table("Last failure", FAILURE, failed))
    else:
        console.print("no attempt has failed")


def _find(name: str, host: str | None, port: int | None) -> tuple[str, int, dict[int, str]]:
    """Return the address to ask, as given, else that of the node that runs here, and its anchors."""
    if host is not None:
        return host, port or DEFAULT_PORT, {}
    if port is not None:
        return "127.0.0.1", port, {}
    where = ask_runner(name, {"ask": "where"})
    anchors = {int(known, 16): label for known, label in where["anchors"].items()}
    return str(where["diagnostics_host"]), int(where["diagnostics_port"]), anchors


def _anchors(replies: Sequence[Row], known: dict[int, str]) -> dict[int, str]:
    """Return what to call the anchors of the answers: as the runner does, or as certifi does."""
    if all(reply["tls_anchor"] in {0, *known} for reply in replies):
        return known
    from datetime import UTC, datetime  # noqa: PLC0415 - a plain node needs none of it

    from toolchain.cli.trust import labels_of  # noqa: PLC0415
    from toolchain.trust import choose  # noqa: PLC0415

    return labels_of(choose("all", (), datetime.now(UTC))) | known


@click.command(
    epilog="""\b
Examples:
  shardfw status                            the node that `shardfw run` started here
  shardfw status --host 192.0.2.7           a node on the network
  shardfw status --all                      every shard of a node with more than 64
  shardfw status --json | jq '.shards[] | {shard, state, last_failure}'

\b
JSON: {"node": {...}, "shards": [...]}; durations in milliseconds, deadlines as TSC and as what is
left; null where there is nothing yet. The node has connection (Disconnected, Connecting, Connected,
Recovering, Closing, Closed), latency_ms (the slowest shard's, once all are READY), plan_generation,
plan_moves (in the last hour), leaving (shards that close for a move), entropy (weak: no TLS) with
entropy_sources (each credited, failed or absent), recommended_shards (what the
service told when it was asked for the gateway), uuid and serial of the machine, hold (NO_TOKEN without a
token), enrol (state, fingerprint, refused, last_error; null when the token is in the image) and fleet (null
without one; watch, watch_ended_by, plan, epoch, closing, held: slot, phase, generation, shards, left_ms
until its hard stop; sessions in the store: taken, saved, refused, late, lost, ignored). Per shard:
state, connection, phase, hold, recovery (phase, attempt, retry_delay_ms), recovering, outage_ms,
gap, gap_from, missing_first, missing_last, protocol_failures, profile, connection_number, reconnects, reconnect_deadline, reconnect_in_ms, last_error, last_error_text, lease_generation,
lease_deadline, lease_left_ms, tcp_state, tls_state, tls (null when plain; protocol, suite, group,
chain: pending or verified, key of the server, anchor: its name where it is known, anchor_hash),
websocket_state, gateway_state,
heartbeat_misses, ack_age_ms, frame_age_ms, latency_ms, sequence, counters (dispatches,
dispatches_malformed, ...), owner (user_id, null before READY; drain, how far a stop has come; tasks,
what still runs: farewell, sending, beat, event), last_failure."""
)
@click.option("--host", metavar="ADDRESS", help="Address of the node; default: the one run here.")
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    help=f"Its diagnostics port.  [default: {DEFAULT_PORT}]",
)
@click.option("--name", default=DEFAULT_NAME, show_default=True, help="Which node run here.")
@click.option(
    "--timeout",
    default=3.0,
    show_default=True,
    type=click.FloatRange(min=0.1),
    help="Seconds to wait for the whole answer.",
)
@click.option("--all", "every", is_flag=True, help="List READY shards of a large node too.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    *,
    host: str | None,
    port: int | None,
    name: str,
    timeout: float,
    every: bool,
    as_json: bool,
) -> None:
    """Ask a running node how it and its shards are.

    Exit codes: 0 answered, 1 no node or no answer, 2 wrong usage.
    """
    from rich.console import Console  # noqa: PLC0415

    from toolchain.cli import diagnostics  # noqa: PLC0415

    try:
        address, udp, known = _find(name, host, port)
        # Seen on a terminal only, and only when the answer takes its time.
        with Console(stderr=True).status(f"asking {address} UDP port {udp}"):
            replies = diagnostics.ask(address, udp, timeout)
    except (RunnerError, diagnostics.NoAnswerError) as error:
        raise click.ClickException(str(error)) from error
    node = diagnostics.node_report(replies[0])
    # A node without shards answers for slot 0 with its own part alone.
    replies = [reply for reply in replies if diagnostics.has_shard(reply)]
    anchors = _anchors(replies, known)
    shards = [diagnostics.shard_report(reply, anchors) for reply in replies]
    node |= diagnostics.observe_node(shards)
    if as_json:
        click.echo(json.dumps({"node": node, "shards": shards}))
    else:
        _print(node, shards, every=every)
