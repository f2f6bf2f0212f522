"""`shardfw gateway`: one line per event, the token from outside, a clean end."""

import json
import os
import signal
import subprocess
import sys

import pytest
from click.testing import CliRunner
from websockets.sync.client import connect

from pxe.gateway.events import GatewayEvent
from toolchain.cli.gateway import command, event_json


def test_help_shows_examples_and_exit_codes():
    result = CliRunner().invoke(command, ["--help"])
    assert result.exit_code == 0
    assert "shardfw gateway --shards 16 --max-concurrency 16" in result.output
    assert "Exit codes: 0 stopped" in " ".join(result.output.split())


def test_an_event_is_one_json_object():
    line = event_json(GatewayEvent(1500, "close", 2, 7, {"code": 4000}))
    assert json.loads(line) == {
        "t_ms": 1500,
        "event": "close",
        "connection": 2,
        "shard": 7,
        "code": 4000,
    }


def test_a_missing_token_variable_says_how_to_set_it():
    result = CliRunner(env={"NO_SUCH": None}).invoke(command, ["--token-env", "NO_SUCH"])
    assert result.exit_code == 1
    assert "the environment has no NO_SUCH. Set it: export NO_SUCH=..." in result.output


def test_two_token_sources_are_wrong_usage(tmp_path):
    file = tmp_path / "token"
    file.write_text("x")
    result = CliRunner().invoke(command, ["--token-env", "A", "--token-file", str(file)])
    assert result.exit_code == 2
    assert "both given; give one of them" in result.output


def test_a_bad_script_names_file_and_fault(tmp_path):
    script = tmp_path / "trouble.toml"
    script.write_text('[[step]]\non = "never"\ndo = "kick"\n')
    result = CliRunner().invoke(command, ["--script", str(script)])
    assert result.exit_code == 1
    assert str(script) in result.output
    assert "never" in result.output


def test_a_taken_port_says_what_to_do(unused_listener):
    port = unused_listener.getsockname()[1]
    result = CliRunner().invoke(command, ["--port", str(port)])
    assert result.exit_code == 1
    assert f"cannot listen on 127.0.0.1:{port}" in result.output
    assert "0 takes a free one" in result.output


@pytest.mark.parametrize(("profile", "version"), [("discord", 10), ("fluxer", 1)])
def test_serves_and_ends_clean_on_sigint(profile, version):
    environ = os.environ | {"NAME_FOR_TEST": "hunter-2-hunter"}
    argv = ["gateway", "--port", "0", "--json", "--token-env", "NAME_FOR_TEST"]
    argv += ["--profile", profile]
    with subprocess.Popen(
        [sys.executable, "-c", "from toolchain.cli.main import main; main()", *argv],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environ,
    ) as process:
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        assert first["event"] == "listening"
        with connect(f"{first['url']}/?v={version}&encoding=json") as client:
            assert json.loads(client.recv())["op"] == 10
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        rows = [json.loads(line) for line in out.splitlines()]
    assert process.returncode == 0, err
    assert rows[0]["event"] == "connect"
    assert rows[-1]["event"] == "stopped"
    assert rows[-1]["stats"]["connections"] == 1
    assert "hunter-2" not in out + err
