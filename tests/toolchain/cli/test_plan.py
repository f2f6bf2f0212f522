"""`shardfw plan`: shows a node's plan, or moves it, and says why not."""

import json

import pytest
from click.testing import CliRunner

from firmware.layouts.control import ControlResult, ControlVerb
from firmware.layouts.plan import PlanOrder, PlanRefusal, PlanReport
from tests.support.control import KEY
from tests.support.fake_control import FakeControl
from toolchain.cli.plan import REFUSALS, command
from toolchain.layout.pack import pack, unpack

NOW = {"total": 16, "start": 4, "count": 8, "generation": 1, "moves": 0, "leaving": 0}


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("SHARDFW_CONTROL_KEY", KEY.hex())


class Node:
    """A node that moves, or refuses."""

    def __init__(self, refusal=0, result=None):
        self.refusal, self.result, self.orders = refusal, result, []

    def act(self, verb, _argument, payload):
        assert verb == ControlVerb.PLAN
        if not payload:
            return ControlResult.DONE, 0, pack(PlanReport, NOW)
        self.orders.append(unpack(PlanOrder, payload))
        if self.result or self.refusal:
            return self.result or ControlResult.PLAN_REFUSED, self.refusal, b""
        moved = NOW | self.orders[-1] | {"generation": 2, "moves": 1, "leaving": 3}
        return ControlResult.DONE, 0, pack(PlanReport, moved)


def run(node, *argv):
    with FakeControl(node.act) as channel:
        where = ("--host", "127.0.0.1", "--port", str(channel.port))
        return CliRunner().invoke(command, [*where, *argv])


def test_help_says_what_a_move_does():
    output = CliRunner().invoke(command, ["--help"]).output
    assert "shardfw plan --total 8 --start 0 --count 8" in output
    assert "at most three times an hour" in output


def test_without_options_it_shows_the_plan_and_changes_nothing():
    node = Node()
    plain, as_json = run(node), run(node, "--json")
    assert plain.output == "shards 4 to 11 of 16, plan 1, 0 of 3 moves in the last hour\n"
    assert json.loads(as_json.output) == NOW
    assert node.orders == []


@pytest.mark.parametrize(
    ("argv", "order"),
    [
        (["--start", "0"], (16, 0, 8)),
        (["--count", "2"], (16, 4, 2)),
        (["--total", "32", "--start", "0", "--count", "32"], (32, 0, 32)),
    ],
)
def test_what_is_not_given_stays(argv, order):
    node = Node()
    result = run(node, *argv)
    assert result.exit_code == 0
    assert [tuple(asked.values())[:3] for asked in node.orders] == [order]
    assert "plan 2, 1 of 3 moves in the last hour; 3 shards are closing" in result.output


@pytest.mark.parametrize("reason", list(REFUSALS))
def test_a_refusal_says_its_reason(reason):
    result = run(Node(reason), "--count", "9")
    assert result.exit_code == 1
    assert f"the node refused to move: {REFUSALS[reason]}" in result.output


def test_every_reason_an_operator_can_meet_has_words():
    own = {PlanRefusal.NONE, PlanRefusal.NOT_THE_WHOLE_PLAN}
    assert set(REFUSALS) == set(PlanRefusal) - own


def test_another_refusal_is_told_as_it_is():
    result = run(Node(result=ControlResult.VERB), "--count", "9")
    assert result.exit_code == 1
    assert "the node refused plan: it does not know the command" in result.output


@pytest.mark.parametrize("argv", [["--count", "0"], ["--count", "257"], ["--total", "16385"]])
def test_numbers_out_of_bounds_are_wrong_usage(argv):
    assert run(Node(), *argv).exit_code == 2
