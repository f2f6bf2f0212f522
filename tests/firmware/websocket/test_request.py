"""The upgrade request: text, key and expected answer, and which host it names."""

import base64
import hashlib

import pytest

from firmware.layouts.config import CONFIG, HOST_MAX, PATH_MAX, USER_AGENT, USER_AGENT_MAX
from firmware.layouts.crypto import DRBG
from firmware.layouts.shard import ShardContext, ShardFlag
from firmware.layouts.websocket import REQUEST_MAX
from firmware.websocket.request import ws_build_request, ws_write_request
from tests.support.lab import Lab

LAB = Lab(ws_build_request, ws_write_request)


def configured(host=b"10.0.2.2", port=8080, path=b"/?v=10&encoding=json", agent=USER_AGENT):
    LAB.reset()
    LAB.g(DRBG).seeded = 1
    LAB.g(DRBG).available = 0
    config = LAB.g(CONFIG)
    config.gateway_host[: len(host)] = host
    config.gateway_host_len, config.gateway_port = len(host), port
    config.gateway_path[: len(path)] = path
    config.gateway_path_len = len(path)
    config.user_agent[: len(agent)] = agent
    config.user_agent_len = len(agent)
    return LAB.shard()


def request_of(shard):
    ws = LAB.view(ShardContext, shard).websocket
    return bytes(ws.request[: ws.request_len])


def with_session(shard, *, valid=1, flags=ShardFlag.SEQ_VALID, host=b"resume.example"):
    context = LAB.view(ShardContext, shard)
    context.session_ptr = context.session.address_
    context.flags = flags
    session = context.session
    session.valid, session.resume_host_len, session.resume_port = valid, len(host), 9000
    session.resume_host[: len(host)] = host


def test_ws_build_request_text_line_by_line():
    shard = configured()
    LAB.call(ws_build_request, shard=shard)
    lines = request_of(shard).split(b"\r\n")
    key = lines[6].removeprefix(b"Sec-WebSocket-Key: ")
    assert lines == [
        b"GET /?v=10&encoding=json HTTP/1.1",
        b"Host: 10.0.2.2:8080",
        b"Upgrade: websocket",
        b"Connection: Upgrade",
        b"Sec-WebSocket-Version: 13",
        b"User-Agent: DiscordBot (shardfw, 0.1)",
        b"Sec-WebSocket-Key: " + key,
        b"",
        b"",
    ]
    assert len(base64.b64decode(key)) == 16
    guid = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
    answer = base64.b64encode(hashlib.sha1(key + guid, usedforsecurity=False).digest())
    assert bytes(LAB.view(ShardContext, shard).websocket.accept) == answer


@pytest.mark.parametrize(
    ("secure", "port", "host"),
    [
        (0, 80, b"gateway.example"),
        (1, 443, b"gateway.example"),
        (0, 443, b"gateway.example:443"),
        (1, 80, b"gateway.example:80"),
    ],
)
def test_ws_build_request_leaves_out_the_port_that_its_scheme_has(secure, port, host):
    shard = configured(host=b"gateway.example", port=port)
    LAB.g(CONFIG).gateway_secure = secure
    LAB.call(ws_build_request, shard=shard)
    assert b"\r\nHost: " + host + b"\r\n" in request_of(shard)


@pytest.mark.parametrize("agent", [b"x", b"DiscordBot (https://bot.example, 1.0) plus"])
def test_ws_build_request_says_what_the_node_calls_itself(agent):
    shard = configured(agent=agent)
    LAB.call(ws_build_request, shard=shard)
    assert b"\r\nUser-Agent: " + agent + b"\r\nSec-WebSocket-Key: " in request_of(shard)


def test_ws_build_request_draws_a_new_key_each_time():
    shard = configured()
    LAB.call(ws_build_request, shard=shard)
    one = request_of(shard)
    LAB.call(ws_build_request, shard=shard)
    assert request_of(shard) != one


def test_ws_build_request_longest_names_fit():
    shard = configured(b"h" * HOST_MAX, 65535, b"/" * PATH_MAX, b"a" * USER_AGENT_MAX)
    LAB.call(ws_build_request, shard=shard)
    assert len(request_of(shard)) == REQUEST_MAX


@pytest.mark.parametrize(
    ("session", "named"),
    [
        ({}, b"resume.example:9000"),
        ({"valid": 0}, b"10.0.2.2:8080"),
        ({"flags": 0}, b"10.0.2.2:8080"),
        ({"host": b""}, b"10.0.2.2:8080"),
    ],
)
def test_ws_build_request_names_the_host_that_is_dialled(session, named):
    shard = configured()
    with_session(shard, **session)
    LAB.call(ws_build_request, shard=shard)
    assert b"\r\nHost: " + named + b"\r\n" in request_of(shard)
