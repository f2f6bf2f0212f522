"""`shardfw lease`: one command to the node, and its answer for people and for programs."""

import json

import pytest
from click.testing import CliRunner

from firmware.layouts.control import ControlResult, ControlVerb
from tests.support.control import KEY
from tests.support.fake_control import FakeControl
from toolchain.cli.lease import command

V, R = ControlVerb, ControlResult


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("SHARDFW_CONTROL_KEY", KEY.hex())


def run(*argv):
    return CliRunner().invoke(command, list(argv))


def on(node, *argv):
    return run(*argv, "--host", "127.0.0.1", "--port", str(node.port))


def test_help_shows_examples():
    assert "shardfw lease renew 60000" in run("--help").output
    assert "shardfw lease arm 60000" in run("arm", "--help").output


@pytest.mark.parametrize(
    ("argv", "done", "said"),
    [
        (["arm", "60000"], (V.LEASE_ARM, 60_000), "grant 2 ends in 60000 ms\n"),
        (["renew", "1"], (V.LEASE_RENEW, 1), "grant 2 ends in 1 ms\n"),
        (["expire"], (V.LEASE_EXPIRE, 0), "grant 2 has ended\n"),
    ],
)
def test_the_order_goes_out_and_the_answer_is_printed(argv, done, said):
    with FakeControl(lambda *_: (R.DONE, 2, b"")) as node:
        result = on(node, *argv)
    assert result.exit_code == 0, result.output
    assert result.output == said
    assert node.done == [done]


def test_json_holds_the_values():
    with FakeControl(lambda *_: (R.DONE, 2, b"")) as node:
        result = on(node, "arm", "60000", "--json")
    assert json.loads(result.output) == {"generation": 2, "left_ms": 60_000}


def test_a_refusal_says_what_to_do():
    with FakeControl(lambda *_: (R.LEASE_OVER, 2, b"")) as node:
        result = on(node, "renew", "1")
    assert result.exit_code == 1
    assert "Take a new grant: shardfw lease arm MS" in result.output


@pytest.mark.parametrize("argv", [["arm", "60000"], ["renew", "60000"], ["expire"]])
def test_a_node_of_a_fleet_refuses_and_says_who_decides(argv):
    with FakeControl(lambda *_: (R.FLEET, 2, b"")) as node:
        result = on(node, *argv)
    assert result.exit_code == 1
    assert (
        f"the node refused lease {argv[0]}: leases decide what a node of a fleet holds. "
        "Use shardfw fleet plan, drain or move"
    ) in result.output


@pytest.mark.parametrize("ms", ["0", "-1", "4294967296", "soon"])
def test_numbers_out_of_range_are_wrong_usage(ms):
    assert run("arm", "--", ms).exit_code == 2


def test_no_node_says_how_to_start_one():
    result = run("expire")
    assert result.exit_code == 1
    assert "no node 'node' runs here. Start one with `shardfw run`" in result.output
