"""`shardfw release`: one command to the node, and what it says of it."""

import json

import pytest
from click.testing import CliRunner

from firmware.layouts.control import ControlResult, ControlVerb
from tests.support.control import KEY
from tests.support.fake_control import FakeControl
from toolchain.cli.release import command


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("SHARDFW_CONTROL_KEY", KEY.hex())


def run(*argv):
    return CliRunner().invoke(command, list(argv))


def test_help_says_what_the_hold_is():
    output = run("--help").output
    assert "shardfw release --host 192.0.2.7" in output
    assert "crashes three times in ten minutes" in output


@pytest.mark.parametrize(
    ("value", "said"), [(1, "the hold has ended\n"), (0, "the node was not held\n")]
)
def test_the_order_goes_out_and_the_answer_is_printed(value, said):
    with FakeControl(lambda *_: (ControlResult.DONE, value, b"")) as node:
        where = ("--host", "127.0.0.1", "--port", str(node.port))
        plain, as_json = run(*where), run(*where, "--json")
    assert (plain.exit_code, plain.output) == (0, said)
    assert json.loads(as_json.output) == {"was_held": bool(value)}
    assert node.done == [(ControlVerb.NODE_RELEASE, 0)] * 2


def test_no_node_here_says_how_to_start_one():
    result = run()
    assert result.exit_code == 1
    assert "Start one with `shardfw run`" in result.output
