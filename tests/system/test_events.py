"""`shardfw events` beside a running node: through QEMU's network, over a Resume, nothing missing."""

import json

import pytest

from tests.system.test_run import Running, cli, environ, leftovers

pytestmark = pytest.mark.system
__all__ = ["environ"]
SHARDS = 2


class Heard(Running):
    """`shardfw events --json` in the background."""

    def __init__(self, *argv):
        super().__init__(*argv, command="events")

    def objects(self):
        return [json.loads(line) for line in self.lines]


def test_a_listener_hears_every_dispatch_over_a_resume(environ):
    with Running("--shards", str(SHARDS), "--direct", "--load", "8") as run:
        run.wait("code=lifecycle.ready", count=SHARDS)
        with Heard("--json", "--lease", "3") as heard:
            heard.wait('"type":', count=30)
            assert cli("lease", "expire").returncode == 0
            assert cli("lease", "arm", "600000").returncode == 0
            heard.wait('"notice":"GAP"', count=SHARDS)
            heard.wait('"type":', count=80)
            one = cli("events", "--shard", "1", "--count", "2")
            assert one.returncode == 0, one.stderr
            assert all(line.startswith("shard 1  ") for line in one.stdout.splitlines())
            code, said = heard.end()
            assert (code, said) == (0, "")
            got = heard.objects()
        run.wait("code=events.ended", count=2)
        code, said = run.end()
    assert code == 0, said
    assert leftovers(environ) == []

    assert not [event for event in got if "lost" in event or "restarted" in event]
    for shard in range(SHARDS):
        mine = [event for event in got if event["shard"] == shard]
        told = [event for event in mine if "notice" in event]
        assert [event["notice"] for event in told] == ["RESUMED", "GAP"]
        assert not told[1]["missing"]
        # The generator numbers its dispatches for each shard: none is missing, none comes twice.
        counters = [
            event["d"]["load_counter"] for event in mine if "load_counter" in (event.get("d") or {})
        ]
        assert counters == list(range(counters[0], counters[0] + len(counters)))
        assert len(counters) > 15
    assert {event["shard"] for event in got} == set(range(SHARDS))
