"""`shardfw run --fleet` as a user does it: nodes share the shards, one is killed, the plan changes."""

import json
import re

import pytest

from tests.system.test_run import Running, cli, environ, leftovers
from toolchain.cli.fleet.words import PASSWORD_ENV

__all__ = ["environ"]

pytestmark = pytest.mark.system
LEASE_MS = 8000


def test_the_shards_of_a_node_that_is_killed_go_to_the_others(environ):
    """Before that a slot is moved. Events go on all the time: none is lost, none comes twice."""
    lease = ("--lease-ms", str(LEASE_MS))
    result = cli(
        "run", "--fleet", "2", "--direct", "--shards", "4", *lease, "--demo-takeover", "--json"
    )
    assert result.returncode == 0, result.stdout + result.stderr
    report = json.loads(result.stdout)
    assert (report["nodes"], report["shards"], report["slots"]) == (2, 4, 2)
    assert report["overlaps"] == report["identify_gate_refusals"] == 0
    assert report["events"] > 0
    assert report["lost_events"] == report["doubled_events"] == 0
    assert report["handover_lost_events"] == report["handover_doubled_events"] == 0
    assert {report["handover_from"], report["handover_to"]} == {"node-1", "node-2"}
    assert (report["handover_resumed"], report["handover_identified"]) == (2, 0)
    assert report["victim"] == report["handover_to"]
    assert "0" in report["takers"]
    assert set(report["takers"].values()) == {report["handover_from"]}
    moved = 2 * len(report["takers"])
    assert (report["moved_shards"], report["resumed"], report["identified"]) == (moved, moved, 0)
    assert 0 < report["kill_to_claim_ms"] <= report["kill_to_connected_ms"]
    assert 0 < report["takeover_s"] <= report["renewal_to_connected_s"]
    assert report["handover_s"] > 0
    assert f"{report['victim']} holds slots 0" in result.stderr
    shown = cli("run", "--help").stdout
    for key in report:
        assert key in shown
    assert leftovers(environ) == []


def test_a_fleet_over_the_network_is_asked_and_planned_anew(environ, monkeypatch):
    """Two nodes boot through their ROMs; NATS and gateway are reached over TLS."""
    with Running("--fleet", "2", "--shards", "4", "--load", "20", "--json") as run:
        run.wait('"connected": 4')
        report = json.loads(run.lines[0])
        assert report["transport"] == "wss"
        assert [node["alive"] for node in report["nodes"]] == [True, True]
        assert sorted(slot for node in report["nodes"] for slot in node["slots"]) == [0, 1]
        (env,) = (environ / "tmpdir").glob("shardfw-fleet-*/fleet.env")
        for name, value in re.findall(r"export (\w+)=(\S+)", env.read_text()):
            monkeypatch.setenv(name, value)
        found = json.loads(cli("fleet", "status", "--json").stdout)
        owners = {node["name"] for node in report["nodes"]}
        assert {slot["node"] for slot in found["slots"]} <= owners
        events = cli("fleet", "tail", "--count", "3", "--json").stdout.splitlines()
        assert {json.loads(event)["node"] for event in events} <= owners
        changed = cli("fleet", "plan", "--slots", "4", "--json")
        assert changed.returncode == 0, changed.stderr
        assert json.loads(changed.stdout)["epoch"] == 2
        for label in ("node-1", "node-2"):
            answer = json.loads(cli("status", "--name", label, "--json").stdout)
            assert answer["node"]["serial"] == label
        code, said = run.end()
    assert code == 0, said
    assert "shardfw fleet status" in said
    assert PASSWORD_ENV not in said
    assert leftovers(environ) == []
