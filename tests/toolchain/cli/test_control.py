"""The client of the control channel: one command, one effect, whatever the network does."""

import socket

import click
import pytest

from firmware.layouts.control import CONTROL_LEAST, ControlResult, ControlVerb
from tests.support.control import BOOT, KEY, command
from tests.support.fake_control import FakeControl
from toolchain.cli import control
from toolchain.cli.control import (
    Commander,
    CommandError,
    NoReplyError,
    Place,
    RefusedError,
    UncertainError,
    command_node,
    find_place,
    read_reply,
)

V, R = ControlVerb, ControlResult


@pytest.fixture(autouse=True)
def _fast(monkeypatch):
    monkeypatch.setattr(control, "REPEAT_S", 0.05)


def commander(node, *, key=KEY, timeout=10.0, at=1_000):
    """Return a client whose clock stands at `at` microseconds."""
    return Commander(Place("127.0.0.1", node.port, key), timeout, lambda: at * 1000)


def test_a_command_learns_the_boot_and_is_carried_out_once():
    with FakeControl() as node, commander(node) as client:
        assert client.send(V.PING, argument=7).value == 7
        assert client.send(V.PING, argument=8).value == 8
    assert node.done == [(V.PING, 7), (V.PING, 8)]
    # The first one is sent twice: once to learn the boot's nonce.
    assert len(node.sizes) == 3
    assert all(answer <= request == CONTROL_LEAST for request, answer in node.sizes)


def test_payloads_travel_both_ways_and_the_request_is_padded_for_the_answer():
    def act(_verb, _argument, payload):
        return R.DONE, len(payload), payload * 5

    with FakeControl(act) as node, commander(node) as client:
        reply = client.send(V.PING, payload=b"x" * 100, room=500)
    assert (reply.value, reply.payload) == (100, b"x" * 500)
    assert all(answer <= request for request, answer in node.sizes)


def test_a_command_too_long_for_a_datagram_is_a_mistake():
    with FakeControl() as node, commander(node) as client:
        with pytest.raises(ValueError, match="a command of 1401 bytes; 1400 fit"):
            client.send(V.PING, payload=bytes(1401 - 72))
        with pytest.raises(ValueError, match="1400 fit"):
            client.send(V.PING, room=1321)


def test_lost_requests_are_sent_again():
    with FakeControl() as node, commander(node) as client:
        node.lose_requests = 2
        assert client.send(V.PING, argument=1).value == 1
    assert node.done == [(V.PING, 1)]


def test_a_lost_answer_does_not_carry_the_command_out_twice():
    with FakeControl() as node, commander(node) as client:
        client.send(V.PING)
        node.lose_answers = 2
        assert client.send(V.LEASE_ARM, argument=5).value == 5
    assert node.done == [(V.PING, 0), (V.LEASE_ARM, 5)]


def test_a_lost_answer_that_another_operator_pushed_out_is_said_to_be_uncertain():
    with FakeControl() as node, commander(node) as client:
        client.send(V.PING)
        node.lose_answers = 1
        node.between = lambda: setattr(node, "last", node.last + 1)
        with pytest.raises(UncertainError, match="another command came between lease arm and its"):
            client.send(V.LEASE_ARM, argument=5)
    assert node.done.count((V.LEASE_ARM, 5)) == 1


def test_a_clock_behind_the_last_counter_is_no_obstacle():
    with FakeControl(last=5_000_000) as node, commander(node) as client:
        assert client.send(V.PING, argument=3).value == 3
        assert client.send(V.PING, argument=4).value == 4
    assert node.last == 5_000_002


def test_a_node_that_restarted_is_asked_for_its_new_nonce():
    with FakeControl() as node, commander(node) as client:
        client.send(V.PING)
        node.boot, node.last = BOOT + 1, 0
        assert client.send(V.PING, argument=9).value == 9


def test_what_is_not_the_answer_is_passed_over():
    with FakeControl() as node, commander(node) as client:
        old = node._reply({"counter": 999}, R.DONE, 42)
        forged = old[:-1] + bytes([old[-1] ^ 1])
        node.before_answer = [b"", b"x" * 300, forged, old, command(counter=1000)]
        assert client.send(V.PING, argument=3).value == 3


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (R.ARGUMENT, "the node refused lease renew: a value is out of bounds"),
        (R.NO_CLOCK, "its clock is not calibrated yet"),
        (R.LEASE_OVER, "the lease has expired. Take a new grant: shardfw lease arm MS"),
        (
            R.FLEET,
            "leases decide what a node of a fleet holds. Use shardfw fleet plan, drain or move",
        ),
        (R.SESSION_UNWANTED, "`shardfw run` and `shardfw plan` offer one before it starts"),
        (R.SESSION_LIVE, "shardfw stop, or shardfw plan --start S --count C"),
        (R.VERB, "it does not know the command. Use the shardfw that built its image"),
        (R.VERSION, "it speaks another version of the protocol"),
        (999, "it gives the reason 999"),
    ],
)
def test_a_refusal_says_what_to_do(result, text):
    with (
        FakeControl(lambda *_: (result, 0, b"")) as node,
        commander(node) as client,
        pytest.raises(RefusedError, match=text) as caught,
    ):
        client.send(V.LEASE_RENEW, argument=1)
    assert caught.value.result == result
    assert len(node.done) == 1


class Restless(FakeControl):
    """A node that has restarted, whenever it is asked."""

    def _answer(self, request):
        return self._reply({"counter": int.from_bytes(request[8:16], "little")}, R.BOOT)


def test_a_node_that_never_settles_is_given_up():
    with (
        Restless() as node,
        commander(node) as client,
        pytest.raises(RefusedError, match="it restarts again and again"),
    ):
        client.send(V.PING)


def test_another_key_hears_nothing_and_is_told_why():
    with (
        FakeControl() as node,
        commander(node, key=b"k" * 32, timeout=0.2) as client,
        pytest.raises(NoReplyError, match="a node does not answer what another key has signed"),
    ):
        client.send(V.PING)


def test_nobody_there_is_an_error_with_the_address():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with (
        Commander(Place("127.0.0.1", port, KEY), 0.2) as client,
        pytest.raises(NoReplyError, match=f"127.0.0.1 UDP port {port} did not answer within 0"),
    ):
        client.send(V.PING)


def test_a_host_that_is_none_is_an_error():
    with (
        Commander(Place("no.such.host.invalid", 1, KEY), 0.2) as client,
        pytest.raises(NoReplyError, match=r"no\.such\.host\.invalid port 1 cannot be reached"),
    ):
        client.send(V.PING)


@pytest.mark.parametrize("length", [0, 79, 80, 2**32 - 1])
def test_a_reply_cut_short_or_with_a_wild_length_is_none(length):
    assert read_reply(KEY, bytes(min(length, 200))) is None


def test_a_place_elsewhere_needs_the_key(monkeypatch):
    monkeypatch.delenv("SHARDFW_CONTROL_KEY", raising=False)
    with pytest.raises(
        CommandError, match=r"put what its \[control\] key_env or key_file holds into"
    ):
        find_place("node", "192.0.2.1", None)
    monkeypatch.setenv("SHARDFW_CONTROL_KEY", "short")
    with pytest.raises(CommandError, match="SHARDFW_CONTROL_KEY: the key has 5 characters"):
        find_place("node", "192.0.2.1", None)
    monkeypatch.setenv("SHARDFW_CONTROL_KEY", KEY.hex())
    assert find_place("node", "192.0.2.1", None) == Place("192.0.2.1", 4747, KEY)
    assert find_place("node", None, 7).host == "127.0.0.1"
    assert KEY.hex() not in repr(find_place("node", None, 7))


def test_errors_reach_the_command_line(monkeypatch):
    monkeypatch.delenv("SHARDFW_CONTROL_KEY", raising=False)
    with pytest.raises(click.ClickException, match="commands need the node's key"):
        command_node(V.PING, lambda: find_place("node", "192.0.2.1", None))
