"""`shardfw status`: every diagnostics field of every shard, from the node's own bytes."""

import json

import pytest
from click.testing import CliRunner

from firmware.errors import NIC_RING
from tests.support.fake_node import FakeNode
from tests.support.status_examples import FAILED, HELD, NODE, READY
from toolchain.cli.status import command, milliseconds


@pytest.fixture
def node():
    with FakeNode(NODE, [READY, FAILED, HELD]) as running:
        yield running


def run(*argv):
    return CliRunner().invoke(command, list(argv))


def test_help_shows_examples_and_the_json_keys():
    output = run("--help").output
    assert "shardfw status --host 192.0.2.7" in output
    assert "heartbeat_misses" in output


def test_the_table_says_that_the_node_was_told_to_stop(node):
    assert "draining: the node was told to stop" in run("--port", str(node.port)).output


def test_json_holds_every_diagnostics_field(node):
    result = run("--port", str(node.port), "--json")
    assert result.exit_code == 0, result.output
    shown = json.loads(result.stdout)
    assert shown["node"]["ip"] == "10.0.2.15"
    assert shown["node"]["uptime_ms"] == 6000
    assert shown["node"]["lease_left_ms"] == 2500
    assert (shown["node"]["stop"], shown["node"]["commands"]) == ("DRAINING", 9)
    assert shown["node"]["commands_bad"] == 4
    assert shown["node"]["entropy"] == "strong"
    assert shown["node"]["entropy_sources"] == {
        "rdseed": "failed", "rdrand": "credited", "virtio_rng": "absent",
    }  # fmt: skip
    ready, failed, held = shown["shards"]
    assert ready["shard"] == 8
    assert ready["state"] == "READY"
    assert ready["sequence"] == 41
    assert (ready["ack_age_ms"], ready["frame_age_ms"], ready["latency_ms"]) == (1500, 85, 3)
    assert ready["last_failure"] is None
    assert held["hold"] == "NO_CLOCK"
    expected = {
        "state": "BACKOFF",
        "reconnects": 2**63,
        "reconnect_deadline": 13_200_000,
        "reconnect_in_ms": 3200,
        "last_error": NIC_RING.code | 7,
        "last_error_text": "nic.ring(7)",
        "lease_generation": 5,
        "lease_deadline": 12_500_000,
        "tcp_state": "CLOSED",
        "tls_state": "IDLE",
        "heartbeat_misses": 4,
        "ack_age_ms": None,
        "frame_age_ms": None,
        "sequence": None,
        "connection": "Recovering",
        "recovery": {"phase": "recovery", "attempt": 2, "retry_delay_ms": 5000},
        "recovering": True,
        "outage_ms": 1800,
        "gap": "possible",
        "gap_from": 12,
        "missing_first": 14,
        "missing_last": 17,
        "profile": "discord",
        "dispatches_malformed": 0,
        "owner": {"user_id": None, "drain": "DRAINING", "tasks": []},
    }
    assert (shown["node"]["connection"], shown["node"]["latency_ms"]) == ("Recovering", None)
    assert (ready["connection"], ready["recovery"], ready["gap"]) == ("Connected", None, "none")
    assert held["connection"] == "Disconnected"
    assert {key: failed[key] for key in expected} == expected
    assert failed["last_failure"] == {
        "ago_ms": 1800,
        "end": "TCP_FAILED",
        "reason": "network",
        "classification": "network",
        "stop": None,
        "refusal": None,
        "attempt": 2,
        "lost": True,
        "required_wait_ms": 0,
        "phase": "HELLO",
        "error": NIC_RING.code,
        "error_text": "nic.ring",
        "tcp_state": "FAILED",
        "tls_state": "FAILED",
        "close_code": 4009,
        "http_status": 503,
        "sequence": 17,
        "connected_ms": 61_000,
        "delay_ms": 5000,
        "next_step": "resume",
    }


def test_tables_show_the_same_for_people(node):
    result = run("--port", str(node.port))
    assert result.exit_code == 0, result.output
    lines = [line.split() for line in result.stdout.splitlines()]
    assert "node 10.0.2.15 Recovering: shards 8 to 10 of 32, latency -, up 6.0 s" in result.stdout
    assert "entropy strong (rdseed failed, rdrand credited), 2 log" in result.stdout
    assert "lease ends in 2.5 s (grant 5)" in result.stdout
    assert "8 READY 0 - - none none ESTABLISHED PASS_THROUGH 0 5 2.5 s".split() in lines
    assert (
        f"9 BACKOFF {2**63} 3.2 s 1.8 s possible nic.ring(7) CLOSED IDLE 4 5 2.5 s".split() in lines
    )
    assert "10 ASSIGNED NO_CLOCK 0 - - none none CLOSED IDLE 0 5 2.5 s".split() in lines
    assert "8 OPEN READY 1.5 s 85 ms 3 ms 41 40 1 1 0".split() in lines
    last = (
        "9 1.8 s ago network network - HELLO nic.ring FAILED FAILED 4009 503 17 61.0 s 5.0 s resume"
    )
    assert last.split() in lines


def test_a_node_without_entropy_says_that_no_source_was_there():
    with FakeNode(NODE | {"entropy_weak": 1, "entropy_sources": bytes(4)}, [HELD]) as node:
        plain, as_json = run("--port", str(node.port)), run("--port", str(node.port), "--json")
    assert "entropy weak (no source), 2 log" in plain.stdout
    assert json.loads(as_json.stdout)["node"]["entropy"] == "weak"


def test_a_node_that_is_held_says_what_ends_it():
    facts = {"boots": 4, "identified": 17, "identify_allowance": 1000, "crash_hold": 1}
    with FakeNode(NODE | facts, [HELD]) as node:
        plain, as_json = run("--port", str(node.port)), run("--port", str(node.port), "--json")
    assert "boot 4 since power came; 17 of 1000 Identifies of the day are sent" in plain.stdout
    assert "held: three crashes in ten minutes; see shardfw release" in plain.stdout
    shown = json.loads(as_json.stdout)["node"]
    assert {key: shown[key] for key in facts} == facts | {"crash_hold": True}


@pytest.mark.parametrize(("recommended", "said"), [(0, False), (32, False), (33, True)])
def test_more_shards_than_the_bot_has_are_a_recommendation(recommended, said):
    with FakeNode(NODE | {"recommended": recommended}, [READY]) as node:
        plain, as_json = run("--port", str(node.port)), run("--port", str(node.port), "--json")
    told = f"the service recommends {recommended} shards, the bot has 32; see shardfw plan"
    assert (told in plain.stdout) == said
    assert json.loads(as_json.stdout)["node"]["recommended_shards"] == (recommended or None)


def test_the_machine_is_told_by_uuid_and_serial_number():
    facts = {"uuid": bytes(range(16)), "serial": b"[bold]S-1".ljust(64, b"\0")}
    with FakeNode(NODE | facts, [READY]) as node:
        plain, as_json = run("--port", str(node.port)), run("--port", str(node.port), "--json")
    identity = "00010203-0405-0607-0809-0a0b0c0d0e0f"
    assert f"machine {identity}, serial number [bold]S-1\n" in plain.stdout
    shown = json.loads(as_json.stdout)["node"]
    assert (shown["uuid"], shown["serial"]) == (identity, "[bold]S-1")


def test_a_machine_without_them_says_nothing():
    with FakeNode(NODE, [READY]) as node:
        plain, as_json = run("--port", str(node.port)), run("--port", str(node.port), "--json")
    assert "machine" not in plain.stdout
    shown = json.loads(as_json.stdout)["node"]
    assert (shown["uuid"], shown["serial"]) == (None, None)


def test_a_large_node_lists_what_is_not_ready_unless_asked():
    shards = [*([READY] * 255), HELD]
    with FakeNode(NODE, shards) as node:
        short, whole = run("--port", str(node.port)), run("--port", str(node.port), "--all")
    assert "256 shards: 255 READY, 1 ASSIGNED" in short.stdout
    assert "--all lists every one" in short.stdout
    rows = {kind.stdout.count("PASS_THROUGH") for kind in (short, whole)}
    assert rows == {0, 255}
    assert "10 ASSIGNED NO_CLOCK" in " ".join(short.stdout.split())


def test_a_large_node_that_is_well_shows_no_rows():
    with FakeNode(NODE, [READY] * 65) as node:
        result = run("--port", str(node.port))
    assert "65 shards: 65 READY" in result.stdout
    assert "Lifecycle" not in result.stdout


def test_a_node_without_shards_answers_for_itself():
    with FakeNode(NODE, []) as node:
        result = run("--port", str(node.port), "--json")
    assert json.loads(result.stdout)["shards"] == []


def test_no_node_here_says_how_to_start_one(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    result = run()
    assert result.exit_code == 1
    assert "no node 'node' runs here. Start one with `shardfw run`" in result.output


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0, "0 ms"),
        (-5, "-5 ms"),
        (3200, "3.2 s"),
        (200_000, "3 min"),
        (-200_000, "-3 min"),
        (7_500_000, "2 h 05 min"),
    ],
)
def test_durations_read_well(value, text):
    assert milliseconds(value) == text
