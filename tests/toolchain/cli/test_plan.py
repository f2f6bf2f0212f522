"""`shardfw plan`: shows a node's plan, or moves it, and says why not."""

import json

import pytest
from click.testing import CliRunner

from firmware.layouts.control import ControlResult, ControlVerb
from firmware.layouts.plan import PlanOrder, PlanReport
from firmware.layouts.policy import SessionProvider
from firmware.layouts.refusal import PlanRefusal
from tests.support.control import KEY
from tests.support.fake_control import FakeControl
from toolchain.cli.handover import HandoverStore, bot_digest
from toolchain.cli.plan import OFFER_WAIT_MS, REFUSALS, command
from toolchain.cli.sessions import Saved, now_ms
from toolchain.layout.pack import pack, unpack

NOW = {"total": 16, "start": 4, "count": 8, "generation": 1, "moves": 0, "leaving": 0}
NOTHING = {"taken": 0, "given": 0}
BOT = bot_digest("one")


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
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
        plan = {key: self.orders[-1][key] for key in ("total", "start", "count")}
        moved = NOW | plan | {"generation": 2, "moves": 1, "leaving": 3}
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
    assert json.loads(as_json.output) == NOW | {"sessions": NOTHING}
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
    own = {PlanRefusal.NONE, PlanRefusal.NOT_THE_WHOLE_PLAN, PlanRefusal.NOT_AUTOMATIC}
    assert set(REFUSALS) == set(PlanRefusal) - own


def test_another_refusal_is_told_as_it_is():
    result = run(Node(result=ControlResult.VERB), "--count", "9")
    assert result.exit_code == 1
    assert "the node refused plan: it does not know the command" in result.output


@pytest.mark.parametrize("argv", [["--count", "0"], ["--count", "257"], ["--total", "16385"]])
def test_numbers_out_of_bounds_are_wrong_usage(argv):
    assert run(Node(), *argv).exit_code == 2


class Keeping:
    """A node with a provider: shards that leave have sessions, shards that come wait for one."""

    def __init__(self, provider=SessionProvider.HOST):
        self.plan = NOW | {"provider": provider, "bot": BOT}
        self.orders, self.taken, self.offered = [], [], {}
        self.channel = FakeControl(self.act)

    def act(self, verb, _argument, payload):
        slot = self.channel.slot
        if verb == ControlVerb.SESSION_TAKE:
            self.taken.append(slot)
            return ControlResult.DONE, 0, b"session of %d" % slot
        if verb == ControlVerb.SESSION_OFFER:
            self.offered[slot] = payload
            return ControlResult.DONE, 0, b""
        if payload:
            order = unpack(PlanOrder, payload)
            self.orders.append(order["wait_ms"])
            self.plan |= {key: order[key] for key in ("total", "start", "count")}
        return ControlResult.DONE, 0, pack(PlanReport, self.plan)

    def run(self, *argv):
        with self.channel as channel:
            where = ("--host", "127.0.0.1", "--port", str(channel.port))
            return CliRunner().invoke(command, [*where, *argv])


def test_sessions_change_nodes_with_their_shards():
    """One node gives shards 10 and 11 up, another gets 10 to 12."""
    giver, taker = Keeping(), Keeping()
    taker.plan |= {"start": 13, "count": 3}
    result = giver.run("--count", "6")
    assert result.exit_code == 0, result.output
    assert (giver.orders, giver.taken, giver.offered) == ([0], [10, 11], {})
    assert (
        "; 2 sessions are kept for a minute, for the node that gets their shards" in result.output
    )
    result = taker.run("--start", "10", "--count", "6", "--json")
    assert json.loads(result.output)["sessions"] == {"taken": 0, "given": 2}
    assert (taker.orders, taker.taken) == ([OFFER_WAIT_MS], [])
    assert [taker.offered[n] for n in (10, 11, 12)] == [b"session of 10", b"session of 11", b""]


def test_without_a_session_on_this_machine_no_shard_waits():
    node = Keeping()
    assert "handed" not in node.run("--count", "9").output
    assert (node.orders, node.offered) == ([0], {})


@pytest.mark.parametrize(
    ("provider", "argv"),
    [
        (SessionProvider.NONE, ["--count", "2"]),
        (SessionProvider.HOST, ["--total", "17"]),
    ],
)
def test_without_a_provider_or_with_another_total_no_session_moves(provider, argv):
    HandoverStore.of(BOT, 17).put(5, Saved(b"x", now_ms()))
    node = Keeping(provider)
    result = node.run(*argv)
    assert result.exit_code == 0
    assert "sessions" not in result.output
    assert (node.orders, node.taken, node.offered) == ([0], [], {})
