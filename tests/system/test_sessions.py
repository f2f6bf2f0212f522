"""A node in QEMU that is stopped and started again: it resumes what its runner has kept."""

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
