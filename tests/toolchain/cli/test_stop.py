"""`shardfw stop`: asks until everything is released, and says what became of it."""

import json

import pytest
from click.testing import CliRunner

from firmware.layouts.control import ControlResult, ControlVerb
from firmware.layouts.stop import StopPhase, StopReport
from tests.support.control import KEY
from tests.support.fake_control import FakeControl
from toolchain.cli import control, stop
from toolchain.cli.runtime import RunnerError, socket_path, wait_gone
from toolchain.cli.stop import command
from toolchain.layout.pack import pack

DONE = {"phase": StopPhase.STOPPED, "closed": 15, "reset": 1, "took": 5012}


@pytest.fixture(autouse=True)
def _fast(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("SHARDFW_CONTROL_KEY", KEY.hex())
    monkeypatch.setattr(control, "REPEAT_S", 0.05)
    monkeypatch.setattr(stop, "POLL_S", 0.01)


class Stopping:
    """A node whose stop takes some questions."""

    def __init__(self, *reports):
        self.reports = list(reports)

    def __call__(self, verb, _argument, _payload):
        assert verb == ControlVerb.STOP
        report = self.reports.pop(0) if len(self.reports) > 1 else self.reports[0]
        return ControlResult.DONE, report["phase"], pack(StopReport, report)


def draining(left):
    return {"phase": StopPhase.DRAINING, "open": left}


def on(node, *argv):
    where = ["--host", "127.0.0.1", "--port", str(node.port)]
    return CliRunner().invoke(command, [*where, *argv])


def test_help_shows_examples():
    assert "shardfw stop --json" in CliRunner().invoke(command, ["--help"]).output


def test_it_asks_until_all_is_released_and_says_so():
    with FakeControl(Stopping(draining(16), draining(1), DONE)) as node:
        result = on(node)
    assert result.exit_code == 0, result.output
    assert result.output == "stopped in 5012 ms: 15 connections closed, 1 reset\n"
    assert len(node.done) == 3


def test_json_holds_the_report():
    with FakeControl(Stopping(DONE)) as node:
        result = on(node, "--json")
    assert json.loads(result.output) == {"closed": 15, "reset": 1, "left": 0, "took_ms": 5012}


def test_connections_that_were_left_are_a_failure():
    with FakeControl(Stopping(DONE | {"left": 2, "took": 6000})) as node:
        result = on(node)
    assert result.exit_code == 1
    assert result.output.endswith("15 connections closed, 1 reset, 2 not released in time\n")


def test_a_node_that_does_not_get_done_is_said_to_go_on():
    with FakeControl(Stopping(draining(3))) as node:
        result = on(node, "--timeout", "1")
    assert result.exit_code == 1
    assert "3 connections are still open after 1 s. The node goes on with its stop" in result.output


def test_a_node_that_falls_silent_is_told_apart_from_none(monkeypatch):
    monkeypatch.setattr(stop, "Commander", lambda place: control.Commander(place, 0.3))
    with FakeControl() as node:

        def act(*_):
            node.lose_requests = 1000
            return ControlResult.DONE, StopPhase.DRAINING, pack(StopReport, draining(3))

        node.act = act
        result = on(node)
        assert result.exit_code == 1
        assert "the node fell silent while it stopped, so its report is not known" in result.output
        assert "did not answer within 0.3 s" in on(node).output


def test_no_node_says_how_to_start_one():
    result = CliRunner().invoke(command, [])
    assert result.exit_code == 1
    assert "no node 'node' runs here. Start one with `shardfw run`" in result.output


def test_a_runner_that_stays_is_an_error():
    wait_gone("gone", 0.1)
    socket_path("stays").touch()
    with pytest.raises(
        RunnerError, match=r"its runner still runs after 0\.1 s\. End it with Ctrl-C"
    ):
        wait_gone("stays", 0.1)
