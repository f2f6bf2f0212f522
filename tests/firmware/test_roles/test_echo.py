"""The echo role in lockstep: fragments, back-pressure, too long messages, close codes."""

import pytest

from firmware.layouts.crypto import DRBG
from firmware.layouts.echo import ECHO, ECHO_MESSAGE_MAX, EchoState
from firmware.layouts.shard import ShardContext
from firmware.layouts.websocket import WsFlag, WsState
from firmware.test_roles.echo import echo_begin, echo_poll
from tests.support.lab import Lab
from tests.support.stream import Stream, client_frames, server_frame

LAB = Lab(echo_begin, echo_poll)
TARGET = (b"127.0.0.1", 9001, b"/runCase?case=1&agent=shardfw")


class EchoClient:
    def __init__(self):
        LAB.reset()
        LAB.g(DRBG).available = 0
        echo = LAB.g(ECHO)
        host, echo.port, path = TARGET
        echo.host_len, echo.path_len = len(host), len(path)
        echo.host[: len(host)], echo.path[: len(path)] = host, path
        self.at = LAB.shard()
        LAB.call(echo_begin, shard=self.at)
        self.stream = Stream(LAB, self.at)
        self.ws.state = WsState.OPEN

    @property
    def ws(self):
        return LAB.view(ShardContext, self.at).websocket

    def feed(self, data):
        self.stream.feed(data)
        LAB.call(echo_poll, shard=self.at)
        return client_frames(self.stream.take_sent())


def test_echo_begin_asks_for_the_target():
    client = EchoClient()
    request = bytes(client.ws.request[: client.ws.request_len])
    assert request.startswith(
        b"GET /runCase?case=1&agent=shardfw HTTP/1.1\r\nHost: 127.0.0.1:9001\r\n"
    )
    assert client.ws.flags == WsFlag.BINARY_ALLOWED


@pytest.mark.parametrize("opcode", [1, 2])
@pytest.mark.parametrize("size", [0, 1, 125, 4096])
def test_echo_poll_small_messages_come_back_whole(opcode, size):
    client = EchoClient()
    assert client.feed(server_frame(opcode, b"x" * size)) == [(0x80 | opcode, b"x" * size)]


def test_echo_poll_fragments_become_one_message():
    client = EchoClient()
    assert client.feed(server_frame(1, b"ab", fin=False)) == []
    assert client.feed(server_frame(9, b"p") + server_frame(0, b"cd")) == [
        (0x8A, b"p"), (0x81, b"abcd"),
    ]  # fmt: skip


def test_echo_poll_large_messages_leave_in_fragments_as_there_is_room():
    client, message = EchoClient(), bytes(n & 0xFF for n in range(ECHO_MESSAGE_MAX))
    stream, frames = server_frame(2, message), []
    for at in range(0, len(stream), 16_000):
        frames += client.feed(stream[at : at + 16_000])
    while LAB.g(ECHO).state == EchoState.SENDING:
        frames += client.feed(b"")
    assert b"".join(payload for _, payload in frames) == message
    assert [first for first, _ in frames] == [0x02, *[0x00] * 14, 0x80]
    assert LAB.g(ECHO).messages == 1


def test_echo_poll_too_long_message_is_closed_with_1009():
    client = EchoClient()
    message = server_frame(2, bytes(ECHO_MESSAGE_MAX + 1))
    frames = []
    for at in range(0, len(message), 16_000):
        frames += client.feed(message[at : at + 16_000])
    assert frames == [(0x88, b"\x03\xf1")]
    assert client.ws.state == WsState.CLOSING


def test_echo_poll_violation_is_closed_with_its_code():
    client = EchoClient()
    assert client.feed(server_frame(3)) == [(0x88, b"\x03\xea")]


def test_echo_poll_several_messages_at_once():
    client = EchoClient()
    assert client.feed(server_frame(1, b"a") + server_frame(2, b"b")) == [
        (0x81, b"a"),
        (0x82, b"b"),
    ]
