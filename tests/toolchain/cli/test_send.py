"""`shardfw send`: a body in parts, and every refusal by its name with what to do."""

import json

import pytest
from click.testing import CliRunner

from firmware.layouts.control import ControlResult, ControlVerb
from firmware.layouts.profile import PROFILES
from tests.support.control import KEY
from tests.support.fake_control import FakeControl
from toolchain.cli.send import OP_MOST, PART_BYTES, REFUSALS, command

V, R = ControlVerb, ControlResult
BODY = '{"status":"online"}'


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("SHARDFW_CONTROL_KEY", KEY.hex())


class Node:
    """Takes parts as the firmware does; the last one gets `result` and `value`."""

    def __init__(self, result=R.DONE, value=0):
        self.result, self.value = result, value
        self.parts = []

    def act(self, verb, argument, payload):
        assert verb is V.SEND
        opcode, size, number, offset = (argument >> n & 0xFFFF for n in (0, 16, 32, 48))
        self.parts.append((opcode, size, number, offset, payload))
        if offset + len(payload) < size:
            return R.DONE, offset + len(payload), b""
        return self.result, self.value, b""

    @property
    def body(self):
        return b"".join(part[-1] for part in self.parts)


def run(*argv, stdin=None):
    return CliRunner().invoke(command, list(argv), input=stdin)


def send(node, *argv, stdin=None):
    with FakeControl(node.act) as served:
        return run(*argv, "--host", "127.0.0.1", "--port", str(served.port), stdin=stdin)


def test_help_names_opcodes_and_refusals():
    said = run("--help").output
    for profile in PROFILES:
        assert f"{profile.id.name.lower()} {', '.join(map(str, profile.send_ops))}" in said
    for name in ("not_ready", "rate_limited", "too_large", "bad_op", "bad_body", "no_shard"):
        assert f"  {name} " in said


def test_a_short_body_is_one_command():
    node = Node()
    result = send(node, "3", "8", BODY)
    assert (result.exit_code, result.output) == (0, "sent 32 bytes through shard 3\n")
    ((opcode, size, _, offset, payload),) = node.parts
    assert (opcode, size, offset, payload) == (8, len(BODY), 0, BODY.encode())


@pytest.mark.parametrize("size", [PART_BYTES, PART_BYTES + 1, 4083])
def test_a_long_body_comes_in_parts_of_one_number(size):
    body = '{"x":"' + "y" * (size - 8) + '"}'
    node = Node()
    result = send(node, "3", "8", "-", stdin=body)
    assert result.exit_code == 0, result.output
    assert node.body == body.encode()
    assert len(node.parts) == -(-size // PART_BYTES)
    assert {part[:3] for part in node.parts} == {(8, size, node.parts[0][2])}
    assert [part[3] for part in node.parts] == list(range(0, size, PART_BYTES))


def test_the_body_is_not_touched():
    node = Node()
    body = ' {"a" : 1.50, "é":"\\u00e9"}\n'
    send(node, "0", "3", body)
    assert node.body == body.encode()


def test_what_is_no_utf_8_is_for_the_node_to_refuse():
    node = Node(R.SEND_BAD_BODY)
    assert send(node, "0", "3", '{"a":"\udcff"}').exit_code == 1
    assert node.body == b'{"a":"\xff"}'


def test_an_empty_body_is_for_the_node_to_refuse():
    node = Node(R.SEND_BAD_BODY)
    result = send(node, "0", "3", "")
    assert result.exit_code == 1
    assert [part[1:] for part in node.parts] == [(0, node.parts[0][2], 0, b"")]


def test_the_shard_goes_into_the_command():
    from tests.support import fake_control

    seen = []
    answer = fake_control.FakeControl._answer

    class Spy(FakeControl):
        def _answer(self, request):
            seen.append(int.from_bytes(request[0x20:0x24], "little"))
            return answer(self, request)

    with Spy(Node().act) as served:
        run("77", "3", "{}", "--host", "127.0.0.1", "--port", str(served.port))
    assert set(seen) == {77}


@pytest.mark.parametrize(
    ("result", "value", "text"),
    [
        (
            R.SEND_NOT_READY,
            0,
            "not_ready: shard 3 is not READY, and a payload goes out on a whole connection only. See "
            "`shardfw status`, and send it again when the shard is READY",
        ),
        (
            R.SEND_RATE_LIMITED,
            29_501,
            "rate_limited: shard 3 may send opcode 8 again in 29501 ms. Nothing was sent; send it "
            "again then",
        ),
        (
            R.SEND_BAD_OP,
            0,
            "bad_op: opcode 8 is not for applications; the service would close the connection. Use "
            "one that the node's profile takes: discord takes 3, 4, 8, 31, 43; fluxer takes 3, 4, "
            "8, 14, 15, 16",
        ),
        (
            R.SEND_BAD_BODY,
            0,
            'bad_body: the body is not one JSON object in UTF-8. Write it like {"status":"online"}, '
            "in quotes for the shell, or give - and put it on standard input",
        ),
        (
            R.ARGUMENT,
            0,
            "no_shard: the node does not hold shard 3. See `shardfw status` for those it holds",
        ),
        (
            R.SEND_ORDER,
            0,
            "interrupted: another send began while this one's body was on its way. Nothing was "
            "sent; send it again",
        ),
    ],
)
def test_a_refusal_is_named_and_says_what_to_do(result, value, text):
    got = send(Node(result, value), "3", "8", BODY)
    assert (got.exit_code, got.output) == (1, f"Error: {text}\n")
    told = json.loads(send(Node(result, value), "3", "8", BODY, "--json").output)
    wait = {R.SEND_RATE_LIMITED: value, R.SEND_ORDER: 0}.get(result)
    name = text.partition(":")[0]
    assert told == {"sent": False, "error": name, "retry_after_ms": wait, "message": text}


@pytest.mark.parametrize(
    ("op", "size", "over"), [("8", 4084, 1), ("31", 4083, 1), ("8", 5000, 917)]
)
def test_what_is_too_large_is_not_even_asked(op, size, over):
    node = Node()
    got = send(node, "3", op, "-", stdin='{"x":"' + "y" * (size - 8) + '"}')
    assert got.exit_code == 1
    assert got.output == (
        f"Error: too_large: the payload has {4096 + over} bytes with its envelope, and the gateway "
        f"takes 4096. Make the body {over} bytes shorter\n"
    )
    assert node.parts == []


def test_the_node_may_find_it_too_large_as_well():
    got = send(Node(R.SEND_TOO_LARGE), "3", "8", BODY)
    assert got.output.startswith("Error: too_large: the payload has 32 bytes with its envelope")
    assert "Make the body shorter" in got.output


def test_every_refusal_of_the_send_path_is_known():
    assert {result for result in R if result.name.startswith("SEND_")} <= set(REFUSALS)


def test_other_refusals_are_those_of_every_command():
    got = send(Node(R.VERB), "3", "8", BODY, "--json")
    assert got.exit_code == 1
    assert "it does not know the command" in got.output


def test_json_tells_what_was_sent():
    got = send(Node(), "3", "31", "{}", "--json")
    assert json.loads(got.output) == {"sent": True, "shard": 3, "op": 31, "bytes": 16}


@pytest.mark.parametrize(
    "argv", [["-1", "3", "{}"], ["0", str(OP_MOST + 1), "{}"], ["0", "x", "{}"]]
)
def test_numbers_out_of_range_are_wrong_usage(argv):
    assert run("--", *argv).exit_code == 2


def test_no_node_says_how_to_start_one():
    result = run("0", "3", "{}")
    assert result.exit_code == 1
    assert "no node 'node' runs here. Start one with `shardfw run`" in result.output
