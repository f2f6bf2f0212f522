"""`shardfw status`: every diagnostics field of every shard, from the node's own bytes."""

import json

import pytest
from click.testing import CliRunner

from firmware.errors import NIC_RING
from firmware.layouts.bus import LinkState
from firmware.layouts.bus_sites import CLOSED, UNAUTHORIZED
from firmware.layouts.enrol import ENROL_SEAL, ENROL_WEAK, EnrolState
from firmware.layouts.entropy import SourceState
from firmware.layouts.fleet import HELD_MAX, HeldPhase, PlanMode, WatchState
from firmware.layouts.fleet_sites import FLEET_GAP
from firmware.layouts.gateway import GatewayState
from firmware.layouts.shard import (
    Classification,
    End,
    Gap,
    Hold,
    Phase,
    ShardFlag,
    ShardState,
)
from firmware.layouts.status import AGE_UNKNOWN, StatusReply
from firmware.layouts.stop import StopPhase
from firmware.layouts.tcp import TcpState
from firmware.layouts.tls import TlsState
from firmware.layouts.websocket import WsState
from tests.support.fake_node import FakeNode, FakeShard
from toolchain.cli import diagnostics
from toolchain.cli.diagnostics import NoAnswerError, ask
from toolchain.cli.status import command, milliseconds

PATIENCE_S = 60.0
NODE = {
    "token_known": 1,
    "now": 10_000_000,
    "cycles_per_ms": 1000,
    "boot_tsc": 4_000_000,
    "turns": 77,
    "global_total": 32,
    "local_start": 8,
    "local_count": 3,
    "ip": 0x0F02000A,  # 10.0.2.15 as loaded from the wire
    "lease_generation": 5,
    "lease_deadline": 12_500_000,
    "log_dropped": 2,
    "commands": 9,
    "commands_bad": 4,
    "stop_phase": StopPhase.DRAINING,
    "entropy_sources": bytes([SourceState.FAILED, SourceState.CREDITED, 0, 0]),
}
READY = FakeShard(
    {
        "state": ShardState.READY,
        "shard_id": 8,
        "flags": ShardFlag.SEQ_VALID | ShardFlag.ESTABLISHED,
        "sequence": 41,
        "attempts": 1,
        "identifies": 1,
        "dispatches": 40,
    },
    {
        "tcp_state": TcpState.ESTABLISHED,
        "tls_state": TlsState.PASS_THROUGH,
        "ws_state": WsState.OPEN,
        "gateway_state": GatewayState.READY,
        "ack_age_ms": 1500,
        "frame_age_ms": 85,
        "latency_ms": 3,
        "heartbeat_interval_ms": 41250,
    },
)
FAILED = FakeShard(
    {
        "state": ShardState.BACKOFF,
        "shard_id": 9,
        "sequence": 0xFFFF_FFFF,
        "reconnects": 2**63,
        "reconnect_deadline": 13_200_000,
        "last_error": NIC_RING.code | 7,
        "hb_misses": 4,
        "evidence": {
            "error": NIC_RING.code,
            "tcp_state": TcpState.FAILED,
            "tls_state": TlsState.FAILED,
            "end": End.TCP_FAILED,
            "phase": Phase.HELLO,
            "close_code": 4009,
            "sequence": 17,
            "sequence_valid": 1,
            "delay_ms": 5000,
            "failed_at": 8_200_000,
            "connected_ms": 61_000,
            "http_status": 503,
            "next_step": 1,
            "classification": Classification.NETWORK,
            "attempt": 2,
            "lost": 1,
        },
        "flags": ShardFlag.ESTABLISHED,
        "disconnected_at": 8_200_000,
        "attempts": 2,
        "gap": Gap.PARTIAL,
        "gap_from": 12,
        "hole_first": 14,
        "hole_last": 17,
    },
    {"tcp_state": TcpState.CLOSED, "ack_age_ms": AGE_UNKNOWN, "frame_age_ms": AGE_UNKNOWN,
     "latency_ms": AGE_UNKNOWN},
)  # fmt: skip
HELD = FakeShard({"state": ShardState.ASSIGNED, "hold": Hold.NO_CLOCK, "shard_id": 10})


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


def test_not_more_questions_are_open_than_a_card_holds(monkeypatch):
    batches, collect = [], diagnostics._collect

    def record(node, until, batch, nonces, answers):
        batches.append(len(batch))
        collect(node, until, batch, nonces, answers)

    monkeypatch.setattr(diagnostics, "_collect", record)
    monkeypatch.setattr(diagnostics, "ROUND_S", PATIENCE_S)
    with FakeNode(NODE, [READY] * 256) as node:
        found = ask("127.0.0.1", node.port, PATIENCE_S)
    assert [reply["slot"] for reply in found] == list(range(256))
    assert batches == [1, *([32] * 7), 31]


def test_a_request_is_as_long_as_the_answer(node):
    ask("127.0.0.1", node.port)
    assert set(node.sizes) == {StatusReply.SIZE}


def test_lost_datagrams_are_asked_again():
    with FakeNode(NODE, [READY, FAILED], lose=2) as node:
        assert [r["slot"] for r in ask("127.0.0.1", node.port)] == [0, 1]


def test_a_strangers_answer_is_ignored():
    class Liar(FakeNode):
        def answer(self, request):
            answer = super().answer(request) or b""
            return answer[:8] + bytes(8) + answer[16:]  # another nonce

    with Liar(NODE, [READY]) as node, pytest.raises(NoAnswerError) as caught:
        ask("127.0.0.1", node.port, timeout=0.4)
    assert "did not answer for slot 0 within 0.4 s" in str(caught.value)
    assert "[diagnostics] port" in str(caught.value)


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
