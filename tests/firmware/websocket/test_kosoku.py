"""kosoku, somebody else's suite for WebSocket clients, against the layer in the emulator.

Groups 1 to 7 and 10 of Autobahn's cases: everything that does not need compression or messages
beyond the role's buffer.
"""

import json
import socket
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from tests.support.echo_bridge import EchoBridge

GROUPS = ("1", "2", "3", "4", "5", "6", "7", "10")
CASES = 247
AGENT = "shardfw"
# Both control clients of the fact sheet end up the same way in these.
NON_STRICT = {f"6.4.{n}" for n in range(1, 5)}
INFORMATIONAL = {"7.1.6", "7.13.1", "7.13.2"}
START_S = 20.0
START_KOSOKU = "from kosoku._cli import main; raise SystemExit(main())"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(port):
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    pytest.fail(f"kosoku did not listen on port {port} within {START_S} s")


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """Run every case once and return the suite's verdicts by case."""
    out, port = tmp_path_factory.mktemp("kosoku"), free_port()
    include = [part for group in GROUPS for part in ("-i", f"{group}.*")]
    server = subprocess.Popen(
        [sys.executable, "-c", START_KOSOKU, "-m", "fuzzingserver", *include, "-o", str(out),
         f"127.0.0.1:{port}"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        wait_for(port)
        base = f"ws://127.0.0.1:{port}"
        with connect(f"{base}/getCaseCount") as asked:
            count = int(asked.recv())
        bridge = EchoBridge()
        for case in range(1, count + 1):
            bridge.run("127.0.0.1", port, f"/runCase?case={case}&agent={AGENT}")
        # The server drops this connection without a close frame, writes its reports and ends.
        with connect(f"{base}/updateReports?agent={AGENT}") as asked, suppress(ConnectionClosed):
            asked.recv()
        server.wait(START_S)
    finally:
        server.kill()
        server.wait()
    return json.loads((out / "index.json").read_text())[AGENT]


def test_kosoku_runs_every_case(report):
    assert len(report) == CASES


def test_kosoku_no_case_fails(report):
    verdicts = Counter(v["behavior"] for v in report.values())
    wrong = {
        case: (v["behavior"], v["behaviorClose"])
        for case, v in report.items()
        if v["behavior"] not in {"OK", "NON-STRICT", "INFORMATIONAL"}
        or v["behaviorClose"] not in {"OK", "INFORMATIONAL"}
    }
    assert not wrong, verdicts


def test_kosoku_leniency_is_the_known_one(report):
    got = {case: v["behavior"] for case, v in report.items() if v["behavior"] != "OK"}
    assert {c for c, b in got.items() if b == "INFORMATIONAL"} == INFORMATIONAL
    assert {c for c, b in got.items() if b == "NON-STRICT"} <= NON_STRICT
