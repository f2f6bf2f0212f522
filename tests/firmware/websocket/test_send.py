"""Outgoing frames: header forms, masking, room, and our close frame."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware.layouts.crypto import DRBG
from firmware.layouts.shard import ShardContext
from firmware.layouts.websocket import WsState
from firmware.limits import TX_BYTES
from firmware.websocket.close import ws_close
from firmware.websocket.send import ws_begin, ws_finish
from tests.support.lab import Lab
from tests.support.stream import Stream, client_frames

LAB = Lab(ws_begin, ws_finish, ws_close)


def opened(state=WsState.OPEN):
    LAB.reset()
    LAB.g(DRBG).available = 0
    shard = LAB.shard()
    LAB.view(ShardContext, shard).websocket.state = state
    return shard, Stream(LAB, shard)


def send(shard, payload, first=0x81):
    out = LAB.call(ws_begin, shard=shard, length=len(payload)).outputs
    assert not out["cf"]
    LAB.machine.write(out["rdi"], payload)
    LAB.call(ws_finish, shard=shard, length=len(payload), first=first)


@pytest.mark.parametrize("size", [0, 1, 3, 4, 15, 16, 17, 125, 126, 127, 4096, TX_BYTES - 8])
def test_ws_finish_every_size_is_masked_and_in_shortest_form(size):
    shard, stream = opened()
    payload = bytes(n * 7 & 0xFF for n in range(size))
    send(shard, payload)
    raw = stream.take_sent()
    assert client_frames(raw) == [(0x81, payload)]
    if size >= 16:
        assert payload[:16] not in raw


@settings(max_examples=30, deadline=None)
@given(st.lists(st.binary(max_size=40), max_size=4))
def test_ws_finish_frames_follow_each_other(payloads):
    shard, stream = opened()
    for payload in payloads:
        send(shard, payload, 0x8A)
    assert client_frames(stream.take_sent()) == [(0x8A, p) for p in payloads]


def test_ws_finish_masks_differ():
    shard, stream = opened()
    for _ in range(2):
        send(shard, bytes(4))
    raw = stream.take_sent()
    assert raw[2:6] != raw[12:16]


def test_ws_begin_and_finish_64_bit_length():
    """No transmit buffer is that large; the form is checked against the model alone."""
    shard, _ = opened()
    assert LAB.call(ws_begin, shard=shard, length=65536).outputs["cf"] == 1
    ws = LAB.view(ShardContext, shard).websocket
    assert ws.tx_header == 14
    ws.tx_frame = LAB.machine.alloc(65536 + 14)
    LAB.call(ws_finish, shard=shard, length=65536, first=0x82)
    assert LAB.machine.read(ws.tx_frame, 10) == b"\x82\xff" + (65536).to_bytes(8, "big")


@pytest.mark.parametrize(("size", "left"), [(0, 5), (125, 130), (126, 133)])
def test_ws_begin_without_room_reserves_nothing(size, left):
    shard, stream = opened()
    stream.fill(left)
    end = stream.tcp.tx_end
    assert LAB.call(ws_begin, shard=shard, length=size).outputs["cf"] == 1
    assert stream.tcp.tx_end == end
    stream.fill(left + 1)
    assert LAB.call(ws_begin, shard=shard, length=size).outputs["cf"] == 0


@pytest.mark.parametrize(("code", "body"), [(4000, b"\x0f\xa0"), (1000, b"\x03\xe8"), (0, b"")])
def test_ws_close_sends_the_code_once(code, body):
    shard, stream = opened()
    LAB.call(ws_close, shard=shard, code=code)
    assert LAB.view(ShardContext, shard).websocket.state == WsState.CLOSING
    LAB.call(ws_close, shard=shard, code=code)
    assert client_frames(stream.take_sent()) == [(0x88, body)]


@pytest.mark.parametrize("state", [s for s in WsState if s is not WsState.OPEN])
def test_ws_close_in_other_states_sends_nothing(state):
    shard, stream = opened(state)
    LAB.call(ws_close, shard=shard, code=1000)
    assert stream.take_sent() == b""
    assert LAB.view(ShardContext, shard).websocket.state == state


def test_ws_close_without_room_stays_open():
    shard, stream = opened()
    stream.fill(left=7)
    LAB.call(ws_close, shard=shard, code=1000)
    assert LAB.view(ShardContext, shard).websocket.state == WsState.OPEN
