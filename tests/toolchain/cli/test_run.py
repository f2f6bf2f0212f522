"""`shardfw run` without a machine: options, what the configuration becomes, waiting, the table."""

import asyncio
import io
import json
from types import SimpleNamespace
from typing import ClassVar

import pytest
from click.testing import CliRunner
from rich.console import Console

from firmware.layouts.shard import ShardState
from pxe.node import SerialLine
from tests.support.fake_node import FakeNode, FakeShard
from toolchain.cli.run import _patience, _print_line, command
from toolchain.cli.run_config import with_control_key, with_gateway, with_lines
from toolchain.cli.runner import RunError, Runner, RunOptions
from toolchain.cli.runtime import RunnerError
from toolchain.cli.sessions import SessionKeeper, SessionStore
from toolchain.cli.view import render
from toolchain.config import load_config

READY = (
    "t={} level=info shard={} code=lifecycle.ready durationMs=40 attempt=1 mode=identify shards=2 "
    'outageMs=0 gap=none known=none missingFrom=0 missingTo=0 sequence=1 text="Shard 0 is ready"'
)
FATAL = (
    "t=1 level=error shard=0 code=lifecycle.connectionEnded attempt=1 stop=auth "
    "reported=AuthenticationError budgetMs=0 refusal=none closeCode=4004 reason=closed "
    "classification=AuthenticationError error=0x8010000 tcp=closed tls=idle "
    'stage=none known=3 text="Shard 0 could not connect."'
)
NODE_STARTED = (
    "t=1 level=info code=node.started total=2 start=0 count=2 lease_ms=0 plan=configuration"
)
STARTED = "t=0 level=info code=boot.started pci=0x18 ram_kb=32256 regions=4 image_kb=60"


def invoke(*argv):
    return CliRunner().invoke(command, list(argv))


def runner_of(count=2):
    return Runner(RunOptions(load_config(None, {}, {"shards.count": count}), "node"))


def feed(runner, *lines):
    for n, text in enumerate(lines):
        runner._take(SerialLine(6.0 + n, text))


def test_help_documents_the_json_keys():
    output = invoke("--help").output
    for key in runner_of().report():
        assert key in output
    assert "shardfw run --until-ready --json" in output


def test_no_gateway_needs_a_configuration():
    result = invoke("--no-gateway")
    assert result.exit_code == 2
    assert "--no-gateway needs -c" in result.output


def test_a_bad_configuration_is_refused_before_anything_starts(tmp_path):
    (tmp_path / "node.toml").write_text("[shards]\ntotal = 4\ncount = 4\n")
    result = invoke("-c", str(tmp_path / "node.toml"), "--shards", "5")
    assert result.exit_code == 1
    assert "shards 0 to 4 do not exist among a total of 4" in result.output


def test_a_missing_qemu_names_its_package(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("pxe.qemu.shutil.which", lambda *_args, **_options: None)
    result = invoke("--until-ready")
    assert result.exit_code == 1
    assert "Run: sudo apt-get install qemu-system-x86" in result.output
    assert not list((tmp_path / "shardfw").glob("*.sock"))


def test_a_run_makes_the_key_that_the_keeper_of_sessions_needs(tmp_path, monkeypatch):
    """A build without one is refused; the run comes as far as starting QEMU."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.delenv("SHARDFW_CONTROL_KEY", raising=False)
    monkeypatch.setattr("pxe.qemu.shutil.which", lambda *_args, **_options: None)
    config = tmp_path / "node.toml"
    config.write_text('[gateway]\nurl = "ws://10.0.2.2:80/"\n[sessions]\nprovider = "host"\n')
    result = invoke("-c", str(config))
    assert result.exit_code == 1
    assert "qemu-system-x86" in result.output


def test_the_gateway_is_replaced_and_its_path_kept():
    config = load_config(None, {}, {"gateway.host": "gw.lan", "gateway.path": "/x?y=1"})
    assert with_gateway(config, 4321).gateway.endpoint.url == "ws://10.0.2.2:4321/x?y=1"


@pytest.mark.parametrize(
    ("profile", "path"), [("discord", "/gateway/bot"), ("fluxer", "/.well-known/fluxer")]
)
def test_a_node_that_discovers_asks_the_local_gateway(profile, path):
    config = load_config(
        None,
        {},
        {
            "gateway.discovery": "http",
            "gateway.discovery_url": "http://api.lan/x",
            "gateway.profile": profile,
        },
    )
    assert with_gateway(config, 4321).gateway.endpoint.url == f"http://10.0.2.2:4321{path}"


@pytest.mark.parametrize("profile", ["discord", "fluxer"])
def test_the_local_gateway_follows_the_profile(profile):
    config = load_config(None, {}, {"gateway.profile": profile})
    assert Runner(RunOptions(config=config, name="x"))._gateway().profile.name == profile


@pytest.mark.parametrize(("level", "becomes"), [("error", "info"), ("debug", "debug")])
def test_the_lines_that_are_read_are_switched_on(level, becomes):
    config = with_lines(load_config(None, {}, {"log.level": level, "log.serial": False}))
    assert (config.log.level, config.log.serial) == (becomes, True)


def test_until_ready_returns_and_the_report_has_the_figures():
    async def main():
        runner = runner_of()
        waiting = asyncio.ensure_future(runner.until_ready(30))
        await asyncio.sleep(0)
        feed(runner, READY.format(340, 0), READY.format(512, 1))
        await waiting
        return runner.report()

    assert asyncio.run(main()) == {
        "shards": 2,
        "ready": 2,
        "transport": "ws",
        "nbp_to_ready_ms": 512,
        "power_on_to_ready_ms": 7000,
        "image_bytes": 0,
    }


def test_lines_that_the_serial_port_dropped_are_made_up_for(monkeypatch):
    """The node is asked when it is quiet; it knows of a READY whose line is missing."""
    monkeypatch.setattr("toolchain.cli.runner.QUIET_S", 0.01)
    node_part = {"boot_tsc": 4_000, "now": 900_000, "cycles_per_ms": 1_000, "log_dropped": 3}
    node_part |= {"global_total": 2, "local_start": 0, "local_count": 2}
    ready = {"state": ShardState.READY, "connected_at": 704_000, "attempts": 2}

    class Machine:
        lines: ClassVar[list[SerialLine]] = []
        started_at = 0.0

        async def forwarded_port(self):
            return fake.port

    async def main():
        runner = runner_of()
        runner._node = Machine()
        feed(runner, STARTED, NODE_STARTED, READY.format(340, 0))
        asking = asyncio.ensure_future(runner._ask_when_quiet())
        try:
            await runner.until_ready(30)
        finally:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
        return runner

    with FakeNode(node_part, [FakeShard(ready | {"shard_id": n}) for n in range(2)]) as fake:
        runner = asyncio.run(main())
    assert runner.report()["ready"] == 2
    assert runner.report()["nbp_to_ready_ms"] == 700
    row = runner.board.rows[1]
    assert (row.state, row.attempts, row.detail) == ("READY", 2, "told by the node's diagnostics")
    assert runner.board.rows[0].detail == "identified in 40 ms"


def test_until_ready_gives_up_with_the_last_lines():
    async def main():
        runner = runner_of()
        feed(runner, READY.format(340, 0))
        await runner.until_ready(0.01)

    with pytest.raises(RunError) as caught:
        asyncio.run(main())
    assert "1 of 2 shards are READY after 0.01 s. Last lines:" in str(caught.value)
    assert "code=lifecycle.ready" in str(caught.value)


def test_a_silent_machine_is_told_apart():
    with pytest.raises(RunError, match="The serial port was silent"):
        asyncio.run(runner_of().until_ready(0.01))


def test_a_fatal_shard_ends_the_wait_at_once():
    async def main():
        runner = runner_of()
        feed(runner, FATAL)
        await runner.until_ready(30)

    with pytest.raises(RunError, match="shard 0 is FATAL: auth: closed 4004"):
        asyncio.run(main())


def test_shards_without_memory_end_the_wait_at_once():
    """The four that found room are READY; six were asked for."""

    async def main():
        runner = runner_of(6)
        told = NODE_STARTED.replace("total=2", "total=6").replace("count=2", "count=4")
        for line in (STARTED, told, *(READY.format(340 + n, n) for n in range(4))):
            runner.board.feed(6.0, line)
        assert runner.report()["shards"] == 6
        await runner.until_ready(30)

    with pytest.raises(
        RunError,
        match=r"4 of 6 shards found memory in 32 MiB: give the node more \(--memory\), or fewer "
        r"shards \(--shards, or shards\.count\)\. Last lines:",
    ):
        asyncio.run(main())


def test_the_table_shows_which_shards_found_no_memory():
    runner = runner_of(3)
    for line in (STARTED, NODE_STARTED, READY.format(340, 0), READY.format(350, 1)):
        runner.board.feed(6.0, line)
    out = io.StringIO()
    Console(file=out, width=120).print(render(runner, 40))
    assert "READY 2/3" in out.getvalue()
    rows = [line.split() for line in out.getvalue().splitlines()]
    assert "2 ASSIGNED no_memory 0 0".split() in rows
    assert "2 of 3 shards found memory in 32 MiB" in out.getvalue()


@pytest.mark.parametrize("shards", [2, 3])
def test_without_a_terminal_a_line_says_which_memory_is_missing(capsys, shards):
    runner = runner_of(shards)
    for seconds, text in ((1.0, STARTED), (2.0, NODE_STARTED), (3.0, READY.format(340, 0))):
        _print_line(runner, SerialLine(seconds, text), runner.board.feed(seconds, text))
    said = capsys.readouterr().out.splitlines()
    assert [line[:8].strip() for line in said] == ["1.000", "2.000"] + ["2.000"] * (shards - 2) + [
        "3.000"
    ]
    assert ("2 of 3 shards found memory in 32 MiB" in said[2]) == (shards == 3)


def test_questions_before_the_start_are_refused():
    with pytest.raises(RunnerError, match="still being started"):
        asyncio.run(runner_of()._where({"ask": "where"}))


def test_a_run_without_a_key_gets_one_of_its_own():
    config = load_config(None, {})
    first, second = (with_control_key(config).control_key.get_secret_value() for _ in range(2))
    assert len(first) == len(second) == 32
    assert first != second
    given = load_config(None, {"SHARDFW_CONTROL_KEY": "k" * 40})
    assert with_control_key(given).control_key.get_secret_value() == b"k" * 40


def test_the_table_shows_steps_states_and_lines():
    runner = runner_of(3)
    feed(runner, STARTED, READY.format(340, 1))
    out = io.StringIO()
    console = Console(file=out, width=120, height=40)
    console.print(render(runner, 40))
    lines = [line.split() for line in out.getvalue().splitlines()]
    assert "boot ROM 6.0 s" in out.getvalue()
    assert "READY 1/3" in out.getvalue()
    assert "1 READY identified in 40 ms 1 0 7.00 s".split() in lines
    assert "2 ASSIGNED 0 0".split() in lines
    assert "code=lifecycle.ready" in out.getvalue()
    # A small terminal shows the table, not the lines.
    small = io.StringIO()
    Console(file=small, width=120).print(render(runner, 11))
    assert "code=lifecycle.ready" not in small.getvalue()
    assert "READY 1/3" in small.getvalue()


def test_the_table_follows_a_move():
    """Shard 0 has left; the local gateway serves shards 0 and 1 alone."""

    class Gateway:
        def stats(self):
            rows = [SimpleNamespace(shard=n, dispatches=70 + n, heartbeats=3) for n in range(2)]
            return SimpleNamespace(shards=rows)

    runner = runner_of()
    runner.gateway = Gateway()
    moved = "t=9 level=warn code=lifecycle.resharded total=2 start=1 shards=2 generation=2"
    feed(runner, STARTED, READY.format(340, 0), READY.format(350, 1), moved)
    out = io.StringIO()
    Console(file=out, width=120).print(render(runner, 40))
    table = out.getvalue().split("t=9")[0]
    rows = [line.split() for line in table.splitlines()]
    assert "1 READY identified in 40 ms 1 0 8.00 s 71 3".split() in rows
    assert "2 ASSIGNED 0 0".split() in rows
    assert "READY 1/2" in table
    assert not [row for row in rows if row[:1] == ["0"]]


def test_more_shards_than_lines_become_a_letter_each():
    runner = runner_of(256)
    feed(runner, STARTED, *(READY.format(340 + n, n) for n in range(250)))
    out = io.StringIO()
    console = Console(file=out, width=120, height=24)
    console.print(render(runner, 24))
    lines = out.getvalue().splitlines()
    assert len(lines) <= 24
    assert "READY 250/256" in out.getvalue()
    assert f"{192:7} {'r' * 58}{'a' * 6}" in out.getvalue()
    assert [line.split()[:2] for line in lines if "ASSIGNED" in line] == [
        [str(n), "ASSIGNED"] for n in range(250, 256)
    ]
    assert "more that are not READY" not in out.getvalue()


def test_rows_that_find_no_room_are_counted():
    runner = runner_of(256)
    feed(runner, STARTED)
    out = io.StringIO()
    Console(file=out, width=120, height=24).print(render(runner, 24))
    lines = out.getvalue().splitlines()
    assert len(lines) <= 25
    shown = sum("ASSIGNED" in line for line in lines)
    assert f"and {256 - shown} more that are not READY" in out.getvalue()


@pytest.mark.parametrize(
    ("count", "keys", "seconds"), [(16, 16, 66), (256, 16, 156), (256, 1, 1596)]
)
def test_the_wait_follows_the_groups_that_identify(count, keys, seconds):
    config = load_config(None, {}, {"shards.count": count, "gateway.max_concurrency": keys})
    assert _patience(config.shards.count, config) == seconds


def test_the_report_is_json():
    assert json.loads(json.dumps(runner_of().report()))["ready"] == 0


def test_a_line_behind_the_end_offers_no_session(tmp_path):
    async def late():
        made = Runner(RunOptions(load_config(None, {}), "late"))
        made._keeper = SessionKeeper(SessionStore(tmp_path / "late.sessions.json"))
        await made._end_keeping()
        made._take(SerialLine(1.0, NODE_STARTED))
        return made

    made = asyncio.run(late())
    assert (made._keeping, len(made.board.lines)) == (None, 1)
