"""Nodes in QEMU: one that starts again resumes, one that runs takes another plan, two change shards."""

import json
import re

import pytest

from tests.system.test_run import Running, cli, environ

pytestmark = pytest.mark.system
__all__ = ["environ"]
SHARDS = 4


def test_a_node_that_stopped_resumes_when_it_runs_again(environ, monkeypatch):
    state = environ / "state"
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    store = state / "shardfw" / "node.sessions.json"
    with Running("--port", "0", "--shards", str(SHARDS), command="gateway") as gateway:
        gateway.wait("ws://")
        port = re.findall(r"ws://[^:]+:(\d+)", "\n".join(gateway.lines))[0]
        config = environ / "node.toml"
        config.write_text(
            f'[gateway]\nurl = "ws://10.0.2.2:{port}/"\nmax_concurrency = 16\n'
            f"[shards]\ncount = {SHARDS}\n"
        )
        arguments = ("--direct", "--no-gateway", "-c", str(config))
        with Running(*arguments) as first:
            first.wait("code=lifecycle.ready", count=SHARDS)
            stopped = cli("stop", "--json")
            assert stopped.returncode == 0, stopped.stderr
            report = json.loads(stopped.stdout)
            assert (report["closed"], report["reset"], report["left"]) == (SHARDS, 0, 0)
            first.process.wait(timeout=30)
        assert len(json.loads(store.read_text())) == SHARDS
        assert store.stat().st_mode & 0o777 == 0o600
        with Running(*arguments) as second:
            second.wait("code=lifecycle.ready", count=SHARDS)
            assert not store.exists()
            assert second.end()[0] == 0
    text = "\n".join(second.lines)
    ages = [int(age) for age in re.findall(r"code=lifecycle\.sessionRestored ageMs=(\d+) ", text)]
    assert len(ages) == SHARDS
    assert all(age < 60_000 for age in ages)
    order = [text.index("sessionRestored"), text.index("code=lifecycle.ready")]
    assert order == sorted(order)
    ready = [line for line in second.lines if "code=lifecycle.ready" in line]
    assert all("mode=resume" in line and "gap=replayed" in line for line in ready)
    assert "sessionSnapshotIgnored" not in text


def test_sessions_of_a_gateway_that_ended_with_its_run_are_not_offered(environ, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(environ / "state"))
    for _ in range(2):
        with Running("--direct", "--shards", "2") as run:
            run.wait("code=lifecycle.ready", count=2)
            stopped = cli("stop", "--json")
            assert stopped.returncode == 0, stopped.stderr
            run.process.wait(timeout=30)
        text = "\n".join(run.lines)
        assert text.count("mode=identify") == 2
        assert "sessionSnapshotIgnored" not in text


def test_a_running_node_takes_another_plan(environ):
    """The gateway knows eight shards; the node holds four of them, then four others."""
    with Running("--port", "0", "--shards", "8", command="gateway") as gateway:
        gateway.wait("ws://")
        port = re.findall(r"ws://[^:]+:(\d+)", "\n".join(gateway.lines))[0]
        config = environ / "node.toml"
        config.write_text(
            f'[gateway]\nurl = "ws://10.0.2.2:{port}/"\nmax_concurrency = 16\n'
            "[shards]\ntotal = 8\nstart = 0\ncount = 4\n"
        )
        with Running("--direct", "--no-gateway", "-c", str(config)) as run:
            run.wait("code=lifecycle.ready", count=4)
            moved = cli("plan", "--start", "2", "--json")
            assert moved.returncode == 0, moved.stderr
            plan = json.loads(moved.stdout)
            assert (plan["total"], plan["start"], plan["count"]) == (8, 2, 4)
            assert (plan["generation"], plan["moves"]) == (2, 1)
            run.wait("code=lifecycle.ready", count=6)
            status = json.loads(cli("status", "--json").stdout)
            shards = sorted((row["shard"], row["state"]) for row in status["shards"])
            assert shards == [(n, "READY") for n in range(2, 6)]
            assert (status["node"]["plan_generation"], status["node"]["leaving"]) == (2, 0)
            refused = cli("plan", "--start", "7")
            assert refused.returncode == 1
            assert "these shards do not exist among that total" in refused.stderr
            assert run.end()[0] == 0
    text = "\n".join(run.lines)
    assert len(re.findall("code=shard.held hold=plan_changed", text)) == 2
    assert "code=lifecycle.resharded total=8 start=2 shards=4 generation=2" in text
    assert "code=lifecycle.reshardRefused total=8 start=7 shards=4 reason=out_of_bounds" in text


def test_two_nodes_change_shards_and_their_sessions(environ):
    """Shards 2 and 3 of eight go from node a to node b, which resumes them."""
    with Running("--port", "0", "--shards", "8", command="gateway") as gateway:
        gateway.wait("ws://")
        port = re.findall(r"ws://[^:]+:(\d+)", "\n".join(gateway.lines))[0]

        def node(name, start):
            config = environ / f"{name}.toml"
            config.write_text(
                f'[gateway]\nurl = "ws://10.0.2.2:{port}/"\nmax_concurrency = 16\n'
                f"[shards]\ntotal = 8\nstart = {start}\ncount = 4\n"
            )
            return Running("--direct", "--no-gateway", "-c", str(config), "--name", name)

        with node("a", 0) as giver, node("b", 4) as taker:
            for running in (giver, taker):
                running.wait("code=lifecycle.ready", count=4)
            gave = cli("plan", "--name", "a", "--count", "2", "--json")
            assert gave.returncode == 0, gave.stderr
            plan = json.loads(gave.stdout)
            assert (plan["count"], plan["leaving"]) == (2, 0)
            assert plan["sessions"] == {"taken": 2, "given": 0}
            got = cli("plan", "--name", "b", "--start", "2", "--count", "6", "--json")
            assert got.returncode == 0, got.stderr
            assert json.loads(got.stdout)["sessions"] == {"taken": 0, "given": 2}
            taker.wait("code=lifecycle.ready", count=6)
            for running in (giver, taker):
                assert running.end()[0] == 0
    ready = [line for line in taker.lines if "code=lifecycle.ready" in line]
    resumed = [line for line in ready if "mode=resume" in line]
    assert sorted(re.findall(r"shard=(\d)", " ".join(resumed))) == ["2", "3"]
    assert all("gap=replayed" in line for line in resumed)
    assert len(re.findall("code=lifecycle.sessionRestored", "\n".join(taker.lines))) == 2
    assert "sessionSnapshotIgnored" not in "\n".join(taker.lines)
    assert list((environ / "xdg_state_home" / "shardfw" / "handover").iterdir()) == []
