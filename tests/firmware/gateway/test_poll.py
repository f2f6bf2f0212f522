"""Messages in parts, what is no message, close codes; all of it survives any cut."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware.gateway.poll import gateway_poll
from firmware.gateway.timers import gateway_tick
from firmware.layouts import json as json_layout
from firmware.layouts.gateway import GatewayState
from firmware.layouts.profile import ProfileId
from firmware.layouts.shard import End, FailureFlag
from firmware.layouts.websocket import BINARY, PEER_CLOSED, WsState
from firmware.limits import RING_BYTES
from tests.support.gateway_client import GatewayClient, ready_data
from tests.support.lab import Lab
from tests.support.stream import server_frame

LAB = Lab(gateway_poll, gateway_tick)
HELLO = json.dumps({"op": 10, "d": {"heartbeat_interval": 41250}}).encode()
READY = json.dumps({"t": "READY", "s": 1, "op": 0, "d": ready_data()}).encode()
EVENT = json.dumps(
    {"t": "X", "s": 2, "op": 0, "d": {"content": 'héllo \U0001f600 \\ "q"'}}
).encode()


def test_gateway_poll_conversation_at_many_cuts():
    data = server_frame(1, HELLO) + server_frame(1, READY) + server_frame(1, EVENT)
    for cut in range(0, len(data), 31):
        c = GatewayClient(LAB)
        c.raw(data[:cut])
        c.raw(data[cut:])
        assert c.gateway.state == GatewayState.READY
        assert c.shard.sequence == 2
        assert c.shard.bytes_received == len(HELLO + READY + EVENT)


def test_gateway_poll_fragments_with_a_ping_between():
    c = GatewayClient(LAB)
    c.raw(server_frame(1, HELLO[:9], fin=False), server_frame(9, b"p"), server_frame(0, HELLO[9:]))
    assert c.gateway.state == GatewayState.WAIT_READY


def test_gateway_poll_large_message_passes_through_a_small_ring():
    c = GatewayClient(LAB)
    c.receive(HELLO)
    body = ready_data(guilds=[{"id": str(n), "unavailable": True} for n in range(600)])
    text = json.dumps({"t": "READY", "s": 1, "op": 0, "d": body}).encode()
    assert len(text) > RING_BYTES
    stream = server_frame(1, text)
    for at in range(0, len(stream), 15_000):
        # Without the model, which takes its time for so many bytes.
        c.stream.feed(stream[at : at + 15_000])
        LAB.machine.call("gateway_poll", {"rbx": c.at})
    assert c.gateway.state == GatewayState.READY
    assert c.shard.bytes_received == len(HELLO) + len(text)


@pytest.mark.parametrize(
    ("text", "site"),
    [
        (b'{"op":0,"s":', json_layout.INCOMPLETE),
        (b"", json_layout.INCOMPLETE),
        (b"[]", json_layout.SYNTAX),
        (b'{"op":0}}', json_layout.SYNTAX),
        (b'{"op":0} x', json_layout.SYNTAX),
        (b'{"op":1,"op":1}', json_layout.DUPLICATE_KEY),
        (b'{"d":' + b"[" * 64, json_layout.TOO_DEEP),
    ],
)
def test_gateway_poll_what_is_no_envelope_is_an_anomaly(text, site):
    c = GatewayClient(LAB)
    c.receive(text)
    assert c.shard.last_error & 0xFFFF_0000 == site.code
    assert c.shard.failure == End.PROTOCOL
    assert c.shard.failure_flags == FailureFlag.RESET_SESSION
    assert c.shard.failure_close == 4000


def test_gateway_poll_binary_is_fatal():
    c = GatewayClient(LAB)
    c.raw(server_frame(2, b"\x78\x9c"))
    assert c.shard.last_error == BINARY.code
    assert c.shard.failure_flags == FailureFlag.FATAL | FailureFlag.CONFIG


# Fact sheet, section 2: 1 new session, 2 fatal, 4 wait, 8 reshard, 16 anomaly, 32 new session when
# a Resume was refused; all others 0.
WANTED = {
    ProfileId.DISCORD: {
        1013: 4, 4001: 16, 4002: 16, 4003: 17, 4004: 2, 4005: 16, 4007: 1, 4008: 4, 4009: 1,
        4010: 2, 4011: 10, 4012: 2, 4013: 2, 4014: 2,
    },
    ProfileId.FLUXER: {
        1013: 4, 4001: 2, 4002: 2, 4003: 2, 4004: 2, 4005: 2, 4007: 32, 4008: 4, 4010: 2,
        4011: 10, 4012: 2, 4013: 2, 4014: 2,
    },
}  # fmt: skip
CODES = [0, 1000, 1001, 1011, 1012, 1013, 3000, *range(4000, 4017), 4999]


@pytest.mark.parametrize("profile", list(ProfileId))
@pytest.mark.parametrize("code", CODES)
def test_gateway_poll_close_code_decides_what_comes_next(code, profile):
    c = GatewayClient(LAB)
    c.shard.profile = profile
    c.raw(server_frame(8, code.to_bytes(2, "big") if code else b""))
    context = c.shard
    assert (context.failure, context.failure_flags, context.failure_close) == (
        End.CLOSED, WANTED[profile].get(code, 0), 0,
    )  # fmt: skip
    assert context.peer_close == code
    assert context.last_error == PEER_CLOSED.code | code


def test_gateway_poll_messages_before_the_close_still_count():
    c = GatewayClient(LAB)
    c.raw(
        server_frame(1, HELLO), server_frame(1, b'{"op":9,"d":false}'), server_frame(8, b"\x0f\xa0")
    )
    assert c.shard.failure == End.INVALID_SESSION
    assert c.shard.peer_close == 4000


def test_gateway_poll_our_own_close_is_no_second_failure():
    c = GatewayClient(LAB)
    c.shard.failure = End.TIMEOUT
    c.shard.websocket.state = WsState.CLOSING
    c.raw(server_frame(8, b"\x03\xe8"))
    assert c.shard.websocket.state == WsState.CLOSED
    assert c.shard.failure == End.TIMEOUT


MESSAGES = st.one_of(
    st.sampled_from([HELLO, READY, EVENT, b'{"op":11}', b'{"op":1,"d":null}', b'{"op":7}', b"{}"]),
    st.builds(
        lambda op, s, t, d: json.dumps({"op": op, "s": s, "t": t, "d": d}).encode(),
        st.sampled_from([0, 1, 7, 9, 10, 11, 12]),
        st.one_of(st.none(), st.integers(0, 5), st.just(2**32)),
        st.sampled_from([None, "READY", "RESUMED", "MESSAGE_CREATE"]),
        st.sampled_from([None, True, False, {"heartbeat_interval": 5000}, ready_data(), [1]]),
    ),
)


@settings(max_examples=60, deadline=None)
@given(
    messages=st.lists(MESSAGES, max_size=6),
    resumable=st.booleans(),
    waits=st.lists(st.sampled_from([0, 100, 5_000, 41_250, 60_000]), max_size=6),
)
def test_gateway_any_conversation_matches_the_model(messages, resumable, waits):
    c = GatewayClient(LAB)
    if resumable:
        c.resumable(3)
    c.tick()
    for n, message in enumerate(messages):
        c.receive(message)
        c.tick()
        if n < len(waits):
            c.wait(waits[n])
            c.tick()
