from __future__ import annotations

import pytest
from websockets.exceptions import InvalidHandshake, InvalidStatus
from websockets.frames import Opcode

from emulator.simulation.clock import NS_PER_S
from emulator.simulation.peers.websocket import (
    BINARY,
    CONTINUATION,
    PING,
    TEXT,
    Upgrade,
    WebSocketPolicy,
    WebSocketServer,
    accept_value,
    frame,
)


class Session:
    """A server with one policy and one client that has dialled it."""

    def __init__(self, pair, client_of, policy: WebSocketPolicy | None = None) -> None:
        self.messages: list[str | bytes] = []
        self.lost: list[int | None] = []
        self.server = WebSocketServer(pair.peer.tcp, 80, self._accept, policy or WebSocketPolicy())
        self.client = client_of(pair, target="/?v=10")
        self.client.run()
        self.peer = self.server.peers[0]

    def _accept(self, peer) -> None:
        peer.on_message = self.messages.append
        peer.on_lost = self.lost.append


@pytest.fixture
def session(pair, client_of) -> Session:
    return Session(pair, client_of)


@pytest.fixture
def session_with(pair, client_of):
    def make(**policy) -> Session:
        return Session(pair, client_of, WebSocketPolicy(**policy))

    return make


def test_accept_value_is_the_one_of_rfc_6455_section_1_3():
    assert accept_value("dGhlIHNhbXBsZSBub25jZQ==") == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="


class TestUpgrade:
    def test_the_client_is_accepted_and_its_request_kept(self, session):
        assert session.client.response.status_code == 101
        assert session.client.protocol.handshake_exc is None
        assert session.peer.open
        assert session.peer.upgrade.target == "/?v=10"
        assert session.peer.upgrade.host == "peer"
        assert session.peer.upgrade.headers["user-agent"] == "reference"

    def test_a_refusal_carries_status_and_headers(self, session_with):
        session = session_with(status=503, headers=(("Retry-After", "30"),))
        assert isinstance(session.client.protocol.handshake_exc, InvalidStatus)
        assert session.client.response.status_code == 503
        assert session.client.response.headers["Retry-After"] == "30"
        assert session.client.tcp.close_reason or session.client.eof

    def test_a_silent_server_keeps_the_tcp_connection(self, session_with):
        session = session_with(silent=True)
        session.client.run(60)
        assert session.client.response.status_code == 0
        assert session.client.tcp.state == "ESTABLISHED"

    def test_a_slow_server_answers_late(self, session_with):
        session = session_with(delay_ns=5 * NS_PER_S)
        assert session.client.response.status_code == 0
        session.client.run(5)
        assert session.client.response.status_code == 101

    def test_a_false_accept_value_is_noticed_by_a_right_client(self, session_with):
        session = session_with(response=lambda upgrade: upgrade.response(accept="bm90IGl0"))
        assert isinstance(session.client.protocol.handshake_exc, InvalidHandshake)
        assert "Sec-WebSocket-Accept" in str(session.client.protocol.handshake_exc)

    def test_a_hand_written_response_may_have_more_headers_and_frames_behind_it(self, session_with):
        session = session_with(
            response=lambda upgrade: upgrade.response("X-More: 1") + frame(TEXT, b"early")
        )
        assert session.client.response.headers["X-More"] == "1"
        assert session.client.texts == ["early"]

    @pytest.mark.parametrize("coalesce", [True, False])
    def test_the_first_message_may_share_a_segment_with_the_response(
        self, pair, client_of, coalesce
    ):
        def accept(peer) -> None:
            peer.on_open = lambda: peer.send("hello")

        WebSocketServer(pair.peer.tcp, 80, accept, WebSocketPolicy(coalesce=coalesce))
        pair.node.tcp.log = []
        client = client_of(pair)
        client.run()
        assert client.texts == ["hello"]
        bearing = [s for _, way, s in pair.node.tcp.log if way == "in" and s.payload]
        assert len(bearing) == (1 if coalesce else 2)

    def test_a_request_that_is_no_upgrade_is_refused(self, pair):
        server = WebSocketServer(pair.peer.tcp, 80, lambda _peer: None)
        answer = bytearray()
        tcp = pair.node.tcp.connect(pair.node.address, pair.peer.address, 80)
        tcp.on_data = answer.extend
        tcp.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        pair.world.run_for(NS_PER_S)
        assert answer.startswith(b"HTTP/1.1 4")
        assert len(server.violations) == 1

    def test_an_upgrade_remembers_lower_case_names(self):
        upgrade = Upgrade("/", "x", {"sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ=="})
        assert b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" in upgrade.response()


class TestMessages:
    def test_messages_go_both_ways(self, session):
        session.client.send("hello")
        session.peer.send("text")
        session.peer.send(b"binary")
        session.client.run()
        assert session.messages == ["hello"]
        assert [(f.opcode, bytes(f.data)) for f in session.client.frames] == [
            (Opcode.TEXT, b"text"),
            (Opcode.BINARY, b"binary"),
        ]

    @pytest.mark.parametrize("size", [0, 125, 126, 65_535, 65_536, 300_000])
    def test_every_length_form_crosses_in_both_directions(self, session, size):
        session.peer.send("x" * size)
        session.client.send("y" * size)
        session.client.run(5)
        assert session.client.texts == ["x" * size]
        assert session.messages == ["y" * size]

    def test_client_fragments_are_joined(self, session):
        session.client.protocol.send_text(b"ab", fin=False)
        session.client.protocol.send_ping(b"between")
        session.client.protocol.send_continuation(b"cd", fin=True)
        session.client.push()
        session.client.run()
        assert session.messages == ["abcd"]
        assert session.peer.pings == [b"between"]
        assert session.client.frames[-1].opcode is Opcode.PONG

    def test_server_fragments_with_a_ping_between(self, session):
        session.peer.fragments(b"abcdef", [1, 0, 2], between=frame(PING, b"p"))
        session.client.run()
        assert session.client.texts == ["abcdef"]
        assert session.peer.pongs == [b"p"] * 3

    def test_pings_may_go_unanswered(self, session_with):
        session = session_with(answers_ping=False)
        session.client.protocol.send_ping(b"x")
        session.client.push()
        session.client.run()
        assert session.peer.pings == [b"x"]
        assert session.client.frames == []

    def test_a_stream_in_segments_of_one_byte_is_understood(self, session):
        session.peer.tcp.sender.mss = 1
        session.peer.send("slow")
        session.client.run()
        assert session.client.texts == ["slow"]
        assert session.peer.tcp.stats.segments_out > 6


BAD_FRAMES = {
    "reserved bit": frame(TEXT, b"{}", rsv=4),
    "masked": frame(TEXT, b"{}", mask=b"\x01\x02\x03\x04"),
    "reserved opcode": frame(3, b""),
    "continuation of nothing": frame(CONTINUATION, b"x"),
    "text inside text": frame(TEXT, b"a", fin=False) + frame(TEXT, b"b"),
    "fragmented ping": frame(PING, b"", fin=False),
    "long ping": frame(PING, bytes(126)),
    "length above 2**63": frame(BINARY, b"x", length_bytes=8)[:2] + b"\xff" * 8,
}


def test_a_length_may_be_written_longer_than_needed():
    assert frame(BINARY, b"x", length_bytes=2) == b"\x82\x7e\x00\x01x"


@pytest.mark.parametrize("name", BAD_FRAMES)
def test_a_broken_frame_reaches_the_client_as_it_is(session, name):
    session.peer.raw(BAD_FRAMES[name])
    session.client.run()
    assert session.client.protocol.parser_exc is not None
    assert session.peer.close_code == (1009 if "2**63" in name else 1002)


class TestClosing:
    def test_the_server_closes_and_the_client_echoes(self, session):
        session.peer.close(4004, "Authentication failed")
        session.client.run()
        assert (session.client.protocol.close_code, session.client.protocol.close_reason) == (
            4004,
            "Authentication failed",
        )
        assert session.lost == [4004]
        assert session.peer.tcp.state in ("TIME-WAIT", "CLOSED")

    def test_the_client_closes_and_the_server_echoes(self, session):
        session.client.protocol.send_close(4000, "bye")
        session.client.push()
        session.client.run()
        assert session.lost == [4000]
        assert session.client.protocol.close_code == 4000
        assert session.client.eof

    def test_a_server_that_never_echoes_leaves_the_connection_open(self, session_with):
        session = session_with(answers_close=False)
        session.client.protocol.send_close(1000)
        session.client.push()
        session.client.run(60)
        assert session.lost == [1000]
        assert not session.client.eof
        assert session.client.tcp.state == "ESTABLISHED"

    def test_a_late_echo_comes_late(self, session_with):
        session = session_with(close_delay_ns=3 * NS_PER_S)
        session.client.protocol.send_close(1000)
        session.client.push()
        session.client.run(2)
        assert not session.client.eof
        session.client.run(2)
        assert session.client.eof

    def test_a_client_that_never_echoes_is_cut_after_the_timeout(self, session_with):
        session = session_with(close_timeout_ns=5 * NS_PER_S)
        session.client.tcp.on_data = None
        session.peer.close(1001)
        session.client.run(4)
        assert not session.client.eof
        session.client.run(2)
        assert session.client.eof

    def test_a_reset_and_a_bare_fin_are_lost_without_a_code(self, session):
        session.client.tcp.close()
        session.client.run()
        assert session.lost == [None]

    def test_abort_resets(self, session):
        session.peer.abort()
        session.client.run()
        assert session.client.tcp.close_reason == "reset"
        assert session.lost == [None]

    @pytest.mark.parametrize(
        ("bad", "text"),
        [(frame(TEXT, b"x"), "mask"), (frame(TEXT, b"\xff", mask=bytes(4)), "UTF-8")],
    )
    def test_a_violation_by_the_client_is_judged_and_named(self, session, bad, text):
        session.client.tcp.send(bad)
        session.client.run()
        assert len(session.server.violations) == 1
        assert text.lower() in session.server.violations[0].lower()
        assert session.client.protocol.close_code in (1002, 1007)
