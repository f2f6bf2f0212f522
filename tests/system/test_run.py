"""`shardfw run` as a user does it: from the command to READY, asked, sent through, leased, and ended."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from firmware.limits import IMAGE_LIMIT_BYTES

pytestmark = pytest.mark.system

CLI = [sys.executable, "-c", "from toolchain.cli.main import main; main()"]
READY_S = 120


@pytest.fixture
def environ(tmp_path, monkeypatch):
    """An environment of its own: runtime folder, cache, state, temporary folder."""
    for name in ("XDG_RUNTIME_DIR", "XDG_CACHE_HOME", "XDG_STATE_HOME", "TMPDIR"):
        folder = tmp_path / name.lower()
        folder.mkdir()
        monkeypatch.setenv(name, str(folder))
    return tmp_path


def cli(*argv):
    return subprocess.run(
        [*CLI, *argv], capture_output=True, text=True, timeout=READY_S + 30, check=False
    )


class Running:
    """`shardfw run`, or another command, in the background; its lines are read as they come."""

    def __init__(self, *argv, command="run"):
        self.process = subprocess.Popen(
            [*CLI, command, *argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.out, self.err = self.process.stdout, self.process.stderr
        self.lines = []
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read)

    def __enter__(self):
        self._reader.start()
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join()
        self.out.close()
        self.err.close()

    def _read(self):
        for line in self.out:
            with self._changed:
                self.lines.append(line.rstrip("\n"))
                self._changed.notify_all()

    def wait(self, text, count=1):
        """Wait until `count` lines hold `text`."""

        def enough():
            return sum(text in line for line in self.lines) >= count

        with self._changed:
            if not self._changed.wait_for(enough, READY_S):
                raise AssertionError(
                    f"{count} lines with {text!r} did not come: {self.lines[-30:]}"
                )

    def end(self, number=signal.SIGINT):
        """End it as Ctrl-C does; return exit code and what it said on standard error."""
        self.process.send_signal(number)
        self.process.wait(timeout=30)
        self._reader.join()
        return self.process.returncode, self.err.read()


def alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def leftovers(folder):
    """What a run that ended has left in its folders, the cache aside."""
    return [
        path
        for name in ("xdg_runtime_dir", "tmpdir")
        for path in (folder / name).rglob("*")
        if path.name != "shardfw" or path.is_file()
    ]


@pytest.mark.parametrize(
    ("nic", "tls", "transport"),
    [
        ("transitional", (), "wss"),
        ("transitional", ("--no-tls",), "ws"),
        ("legacy", (), "wss"),
        ("modern", ("--no-tls",), "ws"),
        ("modern", ("--tls",), "wss"),
    ],
)
def test_until_ready_boots_sixteen_shards_and_prints_the_figures(environ, nic, tls, transport):
    result = cli("run", "--until-ready", "--json", "--nic", nic, *tls)
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert report["shards"] == report["ready"] == 16
    assert report["transport"] == transport
    assert 0 < report["nbp_to_ready_ms"] < report["power_on_to_ready_ms"]
    # Decision 11: the image and, over TLS, the trust section of a web core behind it.
    anchors = 16 * 1024 if transport == "wss" else 0
    assert 0 < report["image_bytes"] <= IMAGE_LIMIT_BYTES + anchors
    assert set(report) == {
        "shards",
        "ready",
        "transport",
        "nbp_to_ready_ms",
        "power_on_to_ready_ms",
        "image_bytes",
    }
    assert leftovers(environ) == []


@pytest.mark.parametrize("discovery", ["static", "http"])
def test_over_tls_every_shard_knows_its_server(environ, discovery):
    """The gateway is dialled at wss://, or asked for over https:// first."""
    config = environ / "node.toml"
    config.write_text(
        f'[gateway]\ndiscovery = "{discovery}"\nmax_concurrency = 16\n[shards]\ncount = 16\n'
    )
    with Running("--direct", "-c", str(config), "--json") as run:
        run.wait('"ready": 16')
        assert json.loads(run.lines[-1])["transport"] == "wss"
        shown = json.loads(cli("status", "--json").stdout)
        code, said = run.end()
    assert code == 0, said
    for row in shown["shards"]:
        assert (row["state"], row["tls_state"]) == ("READY", "CONNECTED")
        tls = row["tls"]
        assert (tls["protocol"], tls["chain"], tls["key"]) == ("TLS 1.3", "verified", "P256")
        assert tls["anchor"] == "shardfw local gateway, root"
        assert tls["suite"].startswith("TLS_")
        assert tls["group"] in {"x25519", "secp256r1"}
    assert leftovers(environ) == []


def test_256_shards_boot_in_32_mib_and_stay_ready(environ):
    """The whole table, through the boot ROM. One group identifies, so that nothing is paced: more lines
    at once than the serial port takes, and the runner asks the node for what it missed.
    """
    config = environ / "full.toml"
    config.write_text("[gateway]\nmax_concurrency = 256\n[shards]\ncount = 256\n")
    with Running("-c", str(config), "--memory", "32", "--json") as run:
        run.wait('"ready": 256')
        first = json.loads(cli("status", "--json", "--timeout", "30").stdout)
        time.sleep(15)  # real time is what this test is about
        later = json.loads(cli("status", "--json", "--timeout", "30").stdout)
        assert run.end()[0] == 0
    for shown in (first, later):
        assert [row["shard"] for row in shown["shards"]] == list(range(256))
        assert {row["state"] for row in shown["shards"]} == {"READY"}
        assert {row["tls_state"] for row in shown["shards"]} == {"CONNECTED"}
        assert {row["identifies"] for row in shown["shards"]} == {1}
        assert {row["reconnects"] for row in shown["shards"]} == {0}
    assert later["node"]["identified"] == 256


def test_a_node_without_memory_for_all_its_shards_is_not_ready(environ):
    """Less RAM than the command line offers: 256 shards need 10 MiB, and some of them come up."""
    import asyncio

    from toolchain.cli.runner import RunError, Runner, RunOptions
    from toolchain.config import load_config

    shards = {"shards.total": 256, "shards.count": 256, "gateway.max_concurrency": 256}
    options = RunOptions(load_config(None, {}, shards), "small", target="direct", memory_mb=8)
    runner = Runner(options)
    with pytest.raises(RunError, match=r"^\d+ of 256 shards found memory in 8 MiB: give the node"):
        asyncio.run(runner.run(lambda runner: runner.until_ready(READY_S)))
    assert 0 < len(runner.board.without_memory) < 256
    assert runner.report()["shards"] == 256
    assert runner.report()["nbp_to_ready_ms"] is None
    assert leftovers(environ) == []


def test_a_running_node_is_asked_leased_and_ended(environ):
    with Running("--shards", "4", "--direct") as run:
        run.wait("code=lifecycle.ready", count=4)

        status = cli("status", "--json")
        assert status.returncode == 0, status.stderr
        shown = json.loads(status.stdout)
        assert [row["shard"] for row in shown["shards"]] == [0, 1, 2, 3]
        for row in shown["shards"]:
            assert row["state"] == "READY"
            assert row["tcp_state"] == "ESTABLISHED"
            assert row["last_error"] == 0
            assert row["frame_age_ms"] is not None
        assert "Lifecycle" in cli("status").stdout

        before = [row["dispatches"] for row in shown["shards"]]
        sent = cli("send", "2", "8", '{"guild_id":"7","query":"","limit":1}', "--json")
        assert sent.returncode == 0, sent.stderr
        assert json.loads(sent.stdout)["sent"]
        # The gateway answers a request for members with a dispatch, to that shard alone.
        got: list[int] = []
        for _ in range(40):
            rows = json.loads(cli("status", "--json").stdout)["shards"]
            got = [row["dispatches"] - n for row, n in zip(rows, before, strict=True)]
            if any(got):
                break
        assert got == [0, 0, 1, 0]
        assert "bad_op: opcode 2" in cli("send", "2", "2", "{}").stderr

        granted = cli("lease", "arm", "600000", "--json")
        assert granted.returncode == 0, granted.stderr
        first = json.loads(granted.stdout)["generation"]
        renewed = cli("lease", "renew", "600000")
        assert renewed.stdout == f"grant {first} ends in 600000 ms\n"
        expired = cli("lease", "expire")
        assert expired.stdout == f"grant {first} has ended\n", expired.stderr
        held = json.loads(cli("status", "--json").stdout)
        assert held["node"]["lease_expired"]
        assert {row["hold"] for row in held["shards"]} == {"LEASE_EXPIRED"}
        assert "not_ready: shard 2" in cli("send", "2", "3", "{}").stderr
        refused = cli("lease", "renew", "1000")
        assert refused.returncode == 1
        assert "Take a new grant" in refused.stderr
        assert cli("lease", "arm", "600000").returncode == 0
        run.wait("code=lifecycle.ready", count=8)

        second = cli("run", "--until-ready")
        assert second.returncode == 1
        assert "a node 'node' runs already" in second.stderr

        code, said = run.end()
    assert code == 0, said
    assert leftovers(environ) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_no_process_is_left(environ, number):
    from toolchain.cli.runtime import ask

    with Running("--direct") as run:
        run.wait("code=boot.started")
        pid = ask("node", {"ask": "where"})["qemu_pid"]
        assert alive(pid)
        code, said = run.end(number)
    assert code == 0, said
    assert not alive(pid)
    assert leftovers(environ) == []


def test_a_killed_runner_takes_qemu_with_it(environ):
    from toolchain.cli.runtime import ask

    with Running("--direct") as run:
        run.wait("code=boot.started")
        pid = ask("node", {"ask": "where"})["qemu_pid"]
        run.process.kill()
        run.process.wait()
        for _ in range(200):
            if not alive(pid):
                break
            threading.Event().wait(0.05)
        assert not alive(pid)
    # The socket that is left does not hold up the next one.
    assert cli("status").returncode == 1


def test_too_little_time_ends_with_the_last_lines(environ):
    result = cli("run", "--until-ready", "--timeout", "1")
    assert result.returncode == 1
    assert "0 of 16 shards are READY after 1 s" in result.stderr
    assert leftovers(environ) == []


def test_a_slow_link_stops_the_machine_until_the_image_is_there(environ, monkeypatch):
    """The boot ROM asks once, about 4 s after power-on: the image must not come too late."""
    import asyncio
    import time

    from toolchain.cli import images, runner
    from toolchain.config import load_config

    link = images.fresh_template

    def slow(target):
        time.sleep(7)
        return link(target)

    monkeypatch.setattr(images, "fresh_template", slow)
    made = runner.Runner(runner.RunOptions(load_config(None, os.environ), "slow"))

    async def first_line(running):
        while not running.board.lines:
            await asyncio.sleep(0.05)

    asyncio.run(asyncio.wait_for(made.run(first_line), READY_S))
    assert made.board.lines[0][0] > 7
    assert leftovers(environ) == []
