"""`shardfw lease`: one line to the node's serial port, the node's log line as the answer."""

import asyncio
import json
import threading

import pytest
from click.testing import CliRunner

from toolchain.cli.lease import command
from toolchain.cli.runtime import ControlServer

GRANTED = "t=5 level=info code=lease.granted generation=2 left=60000"
EXPIRED = "t=6 level=warn code=lease.expired generation=2 late=0"
BAD = "t=7 level=warn code=lease.bad_command length=12"


class FakeRunner:
    """A runner's control socket in a thread; answers every serial line with one log line."""

    def __init__(self, answer, name="node"):
        self.answer, self.name, self.asked = answer, name, []
        self.started = threading.Event()
        self.thread = threading.Thread(target=lambda: asyncio.run(self.main()))

    async def serial(self, request):
        self.asked.append(request)
        return {"line": self.answer}

    async def main(self):
        self.loop = asyncio.get_running_loop()
        self.stop = asyncio.Event()
        async with ControlServer(self.name, {"serial": self.serial}):
            self.started.set()
            await self.stop.wait()

    def __enter__(self):
        self.thread.start()
        assert self.started.wait(10)
        return self

    def __exit__(self, *_):
        self.loop.call_soon_threadsafe(self.stop.set)
        self.thread.join()


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))


def run(*argv):
    return CliRunner().invoke(command, list(argv))


def test_help_shows_examples():
    assert "shardfw lease renew 60000" in run("--help").output
    assert "shardfw lease arm 60000" in run("arm", "--help").output


@pytest.mark.parametrize(
    ("argv", "line", "answer"),
    [
        (["arm", "60000"], "lease arm 60000", GRANTED),
        (["renew", "1"], "lease renew 1", GRANTED),
        (["expire"], "lease expire", EXPIRED),
    ],
)
def test_the_line_goes_out_and_the_answer_is_printed(argv, line, answer):
    with FakeRunner(answer) as runner:
        result = run(*argv)
    assert result.exit_code == 0, result.output
    assert result.output == answer + "\n"
    assert runner.asked[0]["line"] == line
    assert "lease.bad_command" in runner.asked[0]["codes"]


def test_json_holds_the_values():
    with FakeRunner(GRANTED, name="other"):
        result = run("arm", "60000", "--name", "other", "--json")
    assert json.loads(result.output) == {
        "t_ms": 5,
        "code": "lease.granted",
        "generation": 2,
        "left": 60000,
    }


@pytest.mark.parametrize(
    ("argv", "hint"),
    [
        (["arm", "1"], "Give 1 to 4294967295 milliseconds"),
        (["renew", "1"], "Take a new grant: shardfw lease arm MS"),
        (["expire"], "the lease has expired already"),
    ],
)
def test_a_refusal_says_what_to_do(argv, hint):
    with FakeRunner(BAD):
        result = run(*argv)
    assert result.exit_code == 1
    assert hint in result.output


@pytest.mark.parametrize("ms", ["0", "-1", "4294967296", "soon"])
def test_numbers_out_of_range_are_wrong_usage(ms):
    assert run("arm", "--", ms).exit_code == 2


def test_no_node_says_how_to_start_one():
    result = run("expire")
    assert result.exit_code == 1
    assert "no node 'node' runs here. Start one with `shardfw run`" in result.output
