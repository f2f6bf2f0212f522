"""`shardfw run` without a machine: options, what the configuration becomes, waiting, the table."""

import asyncio
import io
import json

import pytest
from click.testing import CliRunner
from rich.console import Console

from pxe.node import SerialLine
from toolchain.cli.run import command
from toolchain.cli.runner import RunError, Runner, RunOptions, with_gateway, with_lines
from toolchain.cli.runtime import RunnerError
from toolchain.cli.view import render
from toolchain.config import load_config

READY = "t={} level=info shard={} code=shard.ready attempt=1 resumed=0 sequence=1 took=40"
FATAL = "t=1 level=error shard=0 code=shard.fatal error=0x8010000 tcp=closed tls=idle close=4004"
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


def test_the_gateway_is_replaced_and_its_path_kept():
    config = load_config(None, {}, {"gateway.host": "gw.lan", "gateway.path": "/x?y=1"})
    assert with_gateway(config, 4321).gateway.endpoint.url == "ws://10.0.2.2:4321/x?y=1"


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


def test_until_ready_gives_up_with_the_last_lines():
    async def main():
        runner = runner_of()
        feed(runner, READY.format(340, 0))
        await runner.until_ready(0.01)

    with pytest.raises(RunError) as caught:
        asyncio.run(main())
    assert "1 of 2 shards are READY after 0.01 s. Last lines:" in str(caught.value)
    assert "code=shard.ready" in str(caught.value)


def test_a_silent_machine_is_told_apart():
    with pytest.raises(RunError, match="The serial port was silent"):
        asyncio.run(runner_of().until_ready(0.01))


def test_a_fatal_shard_ends_the_wait_at_once():
    async def main():
        runner = runner_of()
        feed(runner, FATAL)
        await runner.until_ready(30)

    with pytest.raises(RunError, match="shard 0 is FATAL: error 0x08010000"):
        asyncio.run(main())


def test_questions_before_the_start_are_refused():
    with pytest.raises(RunnerError, match="still being started"):
        asyncio.run(runner_of()._where({"ask": "where"}))


def test_a_serial_line_gets_the_answer_with_its_code():
    sent = []

    class FakeNode:
        def send_serial(self, data):
            sent.append(data)

    async def main():
        runner = runner_of()
        runner._node = FakeNode()
        request = {"line": "lease arm 5", "codes": ["lease.granted"]}
        asking = asyncio.ensure_future(runner._serial(request))
        await asyncio.sleep(0)
        answer = "t=9 level=info code=lease.granted generation=1 left=5"
        feed(runner, "t=8 level=warn code=lease.expired generation=1 late=0", answer)
        return await asking, answer

    reply, answer = asyncio.run(main())
    assert reply == {"line": answer}
    assert sent == [b"lease arm 5\n"]


def test_a_serial_line_without_answer_is_given_up(monkeypatch):
    monkeypatch.setattr("toolchain.cli.runner.ANSWER_S", 0.01)

    class FakeNode:
        def send_serial(self, data):
            assert data == b"lease expire\n"

    async def main():
        runner = runner_of()
        runner._node = FakeNode()
        await runner._serial({"line": "lease expire", "codes": ["lease.expired"]})

    with pytest.raises(RunnerError, match=r"did not answer 'lease expire' within 0\.01 s"):
        asyncio.run(main())


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
    assert "code=shard.ready" in out.getvalue()
    # A small terminal shows the table, not the lines.
    small = io.StringIO()
    Console(file=small, width=120).print(render(runner, 11))
    assert "code=shard.ready" not in small.getvalue()
    assert "READY 1/3" in small.getvalue()


def test_the_report_is_json():
    assert json.loads(json.dumps(runner_of().report()))["ready"] == 0
