"""Incoming frames: parts of messages, control frames between them, every violation by its site."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware.layouts import websocket as layout
from firmware.layouts.crypto import DRBG
from firmware.layouts.shard import End, FailureFlag, ShardContext
from firmware.layouts.tcp import TcpState
from firmware.layouts.websocket import WsFlag, WsState
from firmware.limits import MESSAGE_BYTES_MAX, RING_BYTES
from firmware.websocket.connection import ws_start
from firmware.websocket.frames import ws_next
from tests.support.lab import Lab
from tests.support.stream import Stream, client_frames, server_frame

LAB = Lab(ws_next, ws_start)
CONT, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
FIN_ENDED = [TcpState.CLOSE_WAIT, TcpState.CLOSING, TcpState.LAST_ACK, TcpState.TIME_WAIT]


class Client:
    """One shard's WebSocket with its stream."""

    def __init__(self, *, state=WsState.OPEN, flags=0, head=0):
        LAB.reset()
        LAB.g(DRBG).available = 0
        self.shard = LAB.shard()
        self.stream = Stream(LAB, self.shard, head=head)
        self.ws.state, self.ws.flags = state, flags

    @property
    def context(self):
        return LAB.view(ShardContext, self.shard)

    @property
    def ws(self):
        return self.context.websocket

    def next(self):
        """Return (payload, part) or None."""
        out = LAB.call(ws_next, shard=self.shard).outputs
        if out["cf"]:
            return None
        payload = LAB.machine.read(out["rsi"], out["ecx"]) if out["ecx"] else b""
        return payload, out["edx"]

    def parts(self):
        found = []
        while (part := self.next()) is not None:
            found.append(part)
        return found

    def feed(self, *frames):
        self.stream.feed(b"".join(frames))
        return self.parts()

    def messages(self, data, cut):
        """Feed a stream in two pieces; return whole messages."""
        found, message = [], None
        for piece in (data[:cut], data[cut:]):
            self.stream.feed(piece)
            for payload, part in self.parts():
                if part & 1:
                    assert message is None
                    message = b""
                message += payload
                if part & 2:
                    found.append(message)
                    message = None
        assert message is None or self.ws.flags & WsFlag.MESSAGE
        return found


class TestMessages:
    def test_ws_next_one_frame_is_first_and_last(self):
        client = Client()
        assert client.feed(server_frame(TEXT, b'{"op":11}')) == [(b'{"op":11}', 3)]
        assert client.stream.ready == 0, "the part is freed by the next call"

    @pytest.mark.parametrize("size", [0, 1, 125, 126, 127, 4000, 16000])
    def test_ws_next_every_length_form(self, size):
        client = Client()
        assert client.feed(server_frame(TEXT, b"x" * size)) == [(b"x" * size, 3)]

    def test_ws_next_65536_bytes_come_in_parts(self):
        client, payload = Client(), b"y" * 65536
        stream, got = server_frame(TEXT, payload), b""
        for at in range(0, len(stream), 10_000):
            for part, _ in client.feed(stream[at : at + 10_000]):
                got += part
        assert got == payload
        assert not client.ws.flags & WsFlag.MESSAGE

    def test_ws_next_fragments_with_control_frames_between(self):
        client = Client()
        parts = client.feed(
            server_frame(TEXT, b"ab", fin=False),
            server_frame(PING, b"hi"),
            server_frame(CONT, b"", fin=False),
            server_frame(PONG, b"unasked"),
            server_frame(CONT, b"cd"),
        )
        assert parts == [(b"ab", 1), (b"cd", 2)]
        assert client_frames(client.stream.take_sent()) == [(0x8A, b"hi")]
        assert (client.ws.pings, client.ws.pongs) == (1, 1)

    def test_ws_next_empty_fragments(self):
        client = Client()
        parts = client.feed(
            server_frame(TEXT, fin=False), server_frame(CONT, fin=False), server_frame(CONT)
        )
        assert parts == [(b"", 3)]

    def test_ws_next_empty_last_fragment_is_told(self):
        client = Client()
        assert client.feed(server_frame(TEXT, b"ab", fin=False), server_frame(CONT)) == [
            (b"ab", 1), (b"", 2),
        ]  # fmt: skip

    def test_ws_next_every_cut_of_a_stream_gives_the_same_messages(self):
        data = (
            server_frame(TEXT, "é".encode(), fin=False)
            + server_frame(PING, b"p")
            + server_frame(CONT, "€uro".encode())
            + server_frame(TEXT, b"z" * 130)
        )
        for cut in range(len(data) + 1):
            assert Client().messages(data, cut) == ["é€uro".encode(), b"z" * 130]

    def test_ws_next_across_the_seam_of_the_ring(self):
        client = Client(head=RING_BYTES - 3)
        assert client.feed(server_frame(TEXT, b"seam" * 50)) == [(b"seam" * 50, 3)]

    def test_ws_next_binary_where_it_is_allowed(self):
        client = Client(flags=WsFlag.BINARY_ALLOWED)
        assert client.feed(server_frame(BINARY, b"\xff\xfe"), server_frame(TEXT, b"t")) == [
            (b"\xff\xfe", 3), (b"t", 3),
        ]  # fmt: skip
        assert client.ws.flags == WsFlag.BINARY_ALLOWED | WsFlag.TEXT, "the kind of the last one"

    def test_ws_next_idle_touches_nothing(self):
        client = Client(state=WsState.IDLE)
        assert client.feed(b"abc") == []
        assert client.stream.ready == 3


VIOLATIONS = [
    (layout.RESERVED_BITS, server_frame(TEXT, b"x", rsv=4), 1002, 0),
    (layout.RESERVED_BITS, server_frame(PING, rsv=1), 1002, 0),
    (layout.MASKED, bytes([0x81, 0x80, 1, 2, 3, 4]), 1002, 0),
    *((layout.RESERVED_OPCODE, server_frame(n, b"x"), 1002, 0) for n in (3, 7, 11, 15)),
    (layout.CONTROL_FRAGMENTED, server_frame(PING, fin=False), 1002, 0),
    (layout.CONTROL_TOO_LONG, server_frame(PING, b"x" * 126), 1002, 0),
    (layout.NO_MESSAGE, server_frame(CONT, b"x"), 1002, 0),
    (layout.IN_MESSAGE, server_frame(TEXT, b"x", fin=False) + server_frame(TEXT, b"y"), 1002, 0),
    (layout.LENGTH_FORM, bytes([0x81, 126, 0, 125]) + b"x" * 125, 1002, 0),
    (layout.LENGTH_FORM, bytes([0x81, 127, 0, 0, 0, 0, 0, 0, 255, 255]), 1002, 0),
    (layout.LENGTH_FORM, bytes([0x81, 127, 128, 0, 0, 0, 0, 1, 0, 0]), 1002, 0),
    (
        layout.MESSAGE_TOO_LONG,
        bytes([0x81, 127]) + (MESSAGE_BYTES_MAX + 1).to_bytes(8, "big"),
        1009,
        FailureFlag.RESET_SESSION,
    ),
    (
        layout.MESSAGE_TOO_LONG,
        server_frame(TEXT, b"x", fin=False)
        + bytes([0x80, 127])
        + MESSAGE_BYTES_MAX.to_bytes(8, "big"),
        1009,
        FailureFlag.RESET_SESSION,
    ),
    (layout.TEXT_UTF8, server_frame(TEXT, b"a\xff"), 1007, FailureFlag.RESET_SESSION),
    (layout.TEXT_UTF8, server_frame(TEXT, b"\xe2\x82"), 1007, FailureFlag.RESET_SESSION),
    (layout.BINARY, server_frame(BINARY, b"x"), 1003, FailureFlag.FATAL | FailureFlag.CONFIG),
    (layout.CLOSE_LENGTH, server_frame(CLOSE, b"\x03"), 1002, 0),
    (layout.CLOSE_UTF8, server_frame(CLOSE, b"\x03\xe8\xff"), 1007, 0),
    (layout.CLOSE_UTF8, server_frame(CLOSE, b"\x03\xe8" + "é".encode()[:1]), 1007, 0),
]


@pytest.mark.parametrize(
    ("site", "frame", "close", "flags"), VIOLATIONS, ids=lambda v: getattr(v, "name", None)
)
def test_ws_next_violation_fails_with_site_and_close_code(site, frame, close, flags):
    client = Client()
    client.feed(frame)
    context = client.context
    assert context.last_error & 0xFFFF_0000 == site.code
    assert (context.failure, context.failure_close) == (End.PROTOCOL, close)
    assert context.failure_flags == flags
    assert context.websocket.error == context.last_error
    assert context.websocket.state == WsState.OPEN, "the close code can still be sent"
    assert client.feed(server_frame(TEXT, b"later")) == []
    assert client.stream.ready == 0, "what follows a violation is dropped"


def test_ws_next_reserved_opcode_is_in_the_error():
    client = Client()
    client.feed(server_frame(5))
    assert client.context.last_error & 0xFFFF == 5


def test_ws_next_largest_message_is_accepted():
    client = Client()
    client.feed(bytes([0x81, 127]) + MESSAGE_BYTES_MAX.to_bytes(8, "big"))
    assert client.ws.frame_left == MESSAGE_BYTES_MAX
    assert client.context.failure == End.NONE


class TestClose:
    @pytest.mark.parametrize(
        "code", [1000, 1001, 1002, 1003, 1007, 1011, 1012, 1014, 3000, 3999, 4000, 4999]
    )
    def test_ws_next_valid_code_is_echoed(self, code):
        client = Client()
        client.feed(server_frame(CLOSE, code.to_bytes(2, "big") + b"why"))
        assert client.ws.state == WsState.CLOSED
        assert client.context.peer_close == code
        assert client.ws.close_reason_len == 3
        assert client_frames(client.stream.take_sent()) == [(0x88, code.to_bytes(2, "big"))]
        assert client.context.failure == End.NONE, "what a code means is the Gateway's business"

    @pytest.mark.parametrize(
        "code", [0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535]
    )
    def test_ws_next_invalid_code_is_a_violation(self, code):
        client = Client()
        client.feed(server_frame(CLOSE, code.to_bytes(2, "big")))
        assert client.context.last_error == layout.CLOSE_CODE.code | code
        assert client.context.failure_close == 1002

    def test_ws_next_empty_close_is_echoed_empty(self):
        client = Client()
        client.feed(server_frame(CLOSE))
        assert client_frames(client.stream.take_sent()) == [(0x88, b"")]
        assert client.context.peer_close == 0

    def test_ws_next_answer_to_our_close_is_not_answered(self):
        client = Client(state=WsState.CLOSING)
        client.feed(server_frame(PING, b"x"), server_frame(CLOSE, b"\x03\xe8"))
        assert client.ws.state == WsState.CLOSED
        assert client.stream.take_sent() == b""

    def test_ws_next_close_between_fragments(self):
        client = Client()
        assert client.feed(server_frame(TEXT, b"a", fin=False), server_frame(CLOSE)) == [(b"a", 1)]
        assert client.ws.state == WsState.CLOSED

    def test_ws_next_after_close_everything_is_dropped(self):
        client = Client()
        assert client.feed(server_frame(CLOSE), server_frame(TEXT, b"late")) == []
        assert client.stream.ready == 0

    @pytest.mark.parametrize("opcode", [CLOSE, PING])
    def test_ws_next_waits_with_the_frame_until_there_is_room_for_the_answer(self, opcode):
        client = Client()
        client.stream.fill(left=5)
        frame = server_frame(opcode, b"\x03\xe8")
        assert client.feed(frame) == []
        assert client.stream.ready == len(frame)
        assert client.ws.state == WsState.OPEN
        client.stream.take_sent()
        assert client.parts() == []
        assert len(client_frames(client.stream.take_sent())) == 1
        assert client.stream.ready == 0


class TestEndOfStream:
    @pytest.mark.parametrize("state", FIN_ENDED)
    @pytest.mark.parametrize(
        "start", [b"", b"\x81", b"\x89\x05abc", b"\x81\x05abc", b"\x81\x7f\0\0", b"\x81\x7e\0"]
    )
    def test_ws_next_without_a_close_frame_is_a_failure(self, state, start):
        client = Client()
        client.stream.feed(start)
        client.stream.tcp.state = state
        client.parts()
        assert client.context.last_error == layout.END_OF_STREAM.code
        assert client.context.failure == End.NETWORK

    def test_ws_next_during_the_handshake_is_a_failure(self):
        client = Client(state=WsState.HANDSHAKE)
        client.stream.feed(b"HTTP/1.1")
        client.stream.tcp.state = TcpState.CLOSE_WAIT
        assert client.parts() == []
        assert client.ws.state == WsState.FAILED
        assert client.context.last_error == layout.END_OF_STREAM.code

    @pytest.mark.parametrize("state", [TcpState.ESTABLISHED, TcpState.FAILED])
    def test_ws_next_open_or_failed_transport_is_not_judged_here(self, state):
        client = Client()
        client.stream.tcp.state = state
        client.parts()
        assert client.context.failure == End.NONE

    @pytest.mark.parametrize("error", [0, layout.RESERVED_BITS.code])
    def test_ws_next_after_our_close_frame_is_fine(self, error):
        client = Client(state=WsState.CLOSING)
        client.ws.error = error
        client.stream.tcp.state = TcpState.CLOSE_WAIT
        client.parts()
        assert client.ws.state == WsState.CLOSED
        assert client.context.failure == End.NONE

    def test_ws_next_after_the_close_handshake_nothing_changes(self):
        client = Client(state=WsState.CLOSED)
        client.stream.tcp.state = TcpState.CLOSE_WAIT
        client.parts()
        assert client.ws.state == WsState.CLOSED


class TestHandshake:
    HEAD = (
        b"HTTP/1.1 101 S\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Accept: " + b"A" * 28 + b"\r\n\r\n"
    )

    def test_ws_next_head_and_first_frame_in_one_segment(self):
        client = Client(state=WsState.HANDSHAKE)
        client.ws.accept[:] = b"A" * 28
        assert client.feed(self.HEAD + server_frame(TEXT, b"hello")) == [(b"hello", 3)]

    def test_ws_next_waits_for_the_head(self):
        client = Client(state=WsState.HANDSHAKE)
        client.ws.accept[:] = b"A" * 28
        assert client.feed(self.HEAD[:40]) == []
        assert client.ws.state == WsState.HANDSHAKE
        assert client.feed(self.HEAD[40:]) == []
        assert client.ws.state == WsState.OPEN

    def test_ws_next_wrong_head_fails_for_good(self):
        client = Client(state=WsState.HANDSHAKE)
        assert client.feed(b"HTTP/1.1 404 No\r\n\r\n") == []
        assert client.ws.state == WsState.FAILED
        assert client.feed(b"more") == []
        assert client.stream.ready == 0

    def test_ws_start_sends_the_request(self):
        client = Client(state=WsState.IDLE)
        client.ws.request[:7] = b"GET / x"
        client.ws.request_len = 7
        assert LAB.call(ws_start, shard=client.shard).outputs["cf"] == 0
        assert client.ws.state == WsState.HANDSHAKE
        assert client.stream.take_sent() == b"GET / x"

    def test_ws_start_without_room_changes_nothing(self):
        client = Client(state=WsState.IDLE)
        client.ws.request_len = 100
        client.stream.fill(left=99)
        assert LAB.call(ws_start, shard=client.shard).outputs["cf"] == 1
        assert client.ws.state == WsState.IDLE


FRAMES = st.one_of(
    st.builds(
        server_frame,
        st.sampled_from([CONT, TEXT, BINARY, CLOSE, PING, PONG, 3, 11]),
        st.one_of(st.binary(max_size=20), st.text(max_size=8).map(str.encode), st.just(b"x" * 200)),
        fin=st.booleans(),
        rsv=st.sampled_from([0, 0, 0, 0, 1]),
    ),
    st.binary(max_size=6),
)


@settings(max_examples=80, deadline=None)
@given(
    data=st.lists(FRAMES, max_size=6).map(b"".join),
    cut=st.integers(0, 60),
    flags=st.sampled_from([0, WsFlag.BINARY_ALLOWED]),
    head=st.sampled_from([0, RING_BYTES - 40]),
)
def test_ws_next_any_stream_matches_the_model(data, cut, flags, head):
    client = Client(flags=flags, head=head)
    client.messages(data, cut)
