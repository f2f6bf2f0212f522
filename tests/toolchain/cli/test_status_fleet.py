"""`shardfw status` of a node of a fleet: its watch, its slots, its links, and how it got its token."""

import json

import pytest
from click.testing import CliRunner

from firmware.layouts.bus import LinkState
from firmware.layouts.bus_sites import CLOSED, UNAUTHORIZED
from firmware.layouts.enrol import ENROL_SEAL, ENROL_WEAK, EnrolState
from firmware.layouts.fleet import HELD_MAX, HeldPhase, PlanMode, WatchState
from firmware.layouts.fleet_sites import FLEET_GAP
from tests.support.fake_node import FakeNode
from tests.support.status_examples import FAILED, HELD, NODE, READY
from toolchain.cli.status import command


@pytest.fixture
def node():
    with FakeNode(NODE, [READY, FAILED, HELD]) as running:
        yield running


def run(*argv):
    return CliRunner().invoke(command, list(argv))


FLEET = {
    "fleet": 1,
    "fleet_watch": WatchState.SYNCED,
    "fleet_plan": PlanMode.ACTIVE,
    "fleet_epoch": 3,
    "fleet_error": FLEET_GAP.code,
    "fleet_held": [
        {"phase": HeldPhase.RUNNING, "slot": 2, "shards": 4, "generation": 7, "left_ms": 12_000},
        {},
        {"phase": HeldPhase.GONE, "slot": 5, "generation": 9},
        *[{}] * (HELD_MAX - 3),
    ],
    "sessions_taken": 3,
    "sessions_saved": 40,
    "sessions_refused": 1,
    "sessions_ignored": 2,
}


def test_a_node_of_a_fleet_shows_its_watch_its_plan_and_its_slots():
    with FakeNode(NODE | FLEET, [READY]) as node:
        shown = json.loads(run("--port", str(node.port), "--json").stdout)["node"]["fleet"]
        text = run("--port", str(node.port)).output
    assert shown == {
        "watch": "synced", "watch_ended_by": "fleet.gap", "plan": "active", "epoch": 3,
        "closing": False,
        "held": [
            {"slot": 2, "phase": "running", "generation": 7, "shards": 4, "left_ms": 12_000},
            {"slot": 5, "phase": "gone", "generation": 9, "shards": 0, "left_ms": 0},
        ],
        "sessions": {
            "taken": 3, "saved": 40, "refused": 1, "late": 0, "lost": 0, "ignored": 2,
        },
    }  # fmt: skip
    assert "fleet: watch synced, plan active of epoch 3; slot 2 running" in text


def test_a_node_alone_has_no_fleet(node):
    shown = json.loads(run("--port", str(node.port), "--json").stdout)["node"]["fleet"]
    assert shown is None
    assert "fleet:" not in run("--port", str(node.port)).output


def test_the_links_of_a_fleet_node_have_a_line_each():
    up = {"state": LinkState.UP, "ip": 0x0100000A, "port": 4222, "version": 0x020F01, "ups": 2}
    down = {"state": LinkState.DOWN, "error": UNAUTHORIZED.code, "failures": 4, "denials": 1}
    with FakeNode(
        NODE | {"fleet": 1, "links": [up | {"error": CLOSED.code}, down]}, [READY]
    ) as node:
        plain, as_json = run("--port", str(node.port)), run("--port", str(node.port), "--json")
    assert (
        "NATS control UP 10.0.0.1:4222 (2.15.1), connected 2 times, last error bus.closed\n"
        in plain.stdout
    )
    assert (
        "NATS data DOWN no server yet, connected 0 times, 4 attempts failed since, "
        "1 requests denied, last error bus.unauthorized\n" in plain.stdout
    )
    shown = json.loads(as_json.stdout)["node"]["links"]
    assert shown[0] == {
        "link": "control", "state": "UP", "server": "10.0.0.1:4222", "version": "2.15.1",
        "connections": 2, "failures": 0, "denied": 0, "last_error": CLOSED.code,
        "last_error_text": "bus.closed",
    }  # fmt: skip
    assert (shown[1]["server"], shown[1]["version"]) == (None, None)


def test_a_node_without_a_fleet_has_no_links():
    with FakeNode(NODE, [READY]) as node:
        plain, as_json = run("--port", str(node.port)), run("--port", str(node.port), "--json")
    assert "NATS" not in plain.stdout
    assert json.loads(as_json.stdout)["node"]["links"] == []


WAITS = {
    "token_known": 0,
    "enrol_state": EnrolState.WAITING,
    "fingerprint": bytes.fromhex("0fee1dead0000001"),
}


@pytest.mark.parametrize(
    ("facts", "said", "enrol"),
    [
        (
            WAITS,
            "NO_TOKEN: the node has no token; it waits for shardfw fleet approve, with the "
            "fingerprint 0xfee1dead0000001; 0 answers were refused\n",
            {
                "state": "waiting",
                "fingerprint": "0xfee1dead0000001",
                "refused": 0,
                "last_error": None,
            },
        ),
        (
            WAITS | {"enrol_refused": 3, "enrol_error": ENROL_SEAL.code},
            "; 3 answers were refused, the last one: fleet.seal\n",
            {
                "state": "waiting",
                "fingerprint": "0xfee1dead0000001",
                "refused": 3,
                "last_error": "fleet.seal",
            },
        ),
        (
            {
                "token_known": 0,
                "enrol_state": EnrolState.IMPOSSIBLE,
                "enrol_error": ENROL_WEAK.code,
            },
            "NO_TOKEN: the node has no token; it cannot ask for one; 0 answers were refused, the last "
            "one: fleet.weak\n",
            {"state": "impossible", "fingerprint": None, "refused": 0, "last_error": "fleet.weak"},
        ),
        ({"token_known": 0}, "NO_TOKEN: the image holds no token, and no shard starts\n", None),
    ],
)
def test_a_node_without_a_token_says_what_it_waits_for(facts, said, enrol):
    with FakeNode(NODE | facts, []) as node:
        plain, as_json = run("--port", str(node.port)), run("--port", str(node.port), "--json")
    assert said in plain.stdout
    shown = json.loads(as_json.stdout)["node"]
    assert (shown["hold"], shown["enrol"]) == ("NO_TOKEN", enrol)


def test_a_node_that_is_enrolled_says_so_in_json_alone():
    facts = {"enrol_state": EnrolState.ENROLLED, "fingerprint": bytes(range(8))}
    with FakeNode(NODE | facts, [READY]) as node:
        plain, as_json = run("--port", str(node.port)), run("--port", str(node.port), "--json")
    assert "token" not in plain.stdout
    shown = json.loads(as_json.stdout)["node"]
    assert (shown["hold"], shown["enrol"]["state"]) == (None, "enrolled")
