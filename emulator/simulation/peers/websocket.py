"""The WebSocket server of a peer: wsproto over the TCP peer, and every way to break the rules.

wsproto judges what the client sends and writes what a right server sends. Whatever a right
server would not send goes out through `raw` and `frame`.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import h11
from wsproto import ConnectionType, WSConnection
from wsproto.connection import ConnectionState
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Event,
    Ping,
    Pong,
    RejectConnection,
    RejectData,
    Request,
    TextMessage,
)
from wsproto.utilities import RemoteProtocolError

from emulator.simulation.clock import NS_PER_S, Alarm
from emulator.simulation.peers.tls import TlsConnection

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from emulator.simulation.peers.tcp import Connection, TcpConfig, TcpStack

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def frame(
    opcode: int,
    payload: bytes = b"",
    *,
    fin: bool = True,
    rsv: int = 0,
    mask: bytes | None = None,
    length_bytes: int | None = None,
) -> bytes:
    """Return one frame of RFC 6455 section 5.2, a wrong one if asked.

    Args:
        opcode: 0 to 15.
        payload: unmasked.
        fin: the final-fragment bit.
        rsv: the three reserved bits, 0 to 7.
        mask: four bytes to mask with, which a server must not do.
        length_bytes: 2 or 8 forces a longer length field than needed; None takes the shortest.
    """
    size = len(payload)
    if length_bytes is None:
        length_bytes = 0 if size < 126 else 2 if size <= 0xFFFF else 8
    marker = {0: size, 2: 126, 8: 127}[length_bytes]
    extended = b"" if length_bytes == 0 else size.to_bytes(length_bytes, "big")
    if mask is not None:
        payload = bytes(byte ^ mask[i & 3] for i, byte in enumerate(payload))
    head = bytes((fin << 7 | rsv << 4 | opcode, (mask is not None) << 7 | marker))
    return head + extended + (mask or b"") + payload


def accept_value(key: str) -> str:
    """Return the Sec-WebSocket-Accept for a key, RFC 6455 section 4.2.2."""
    digest = hashlib.sha1(key.encode() + _GUID, usedforsecurity=False).digest()
    return base64.b64encode(digest).decode()


@dataclass(frozen=True, slots=True)
class Upgrade:
    """The request that asked for a WebSocket; header names are lower case."""

    target: str
    host: str
    headers: dict[str, str]

    def response(
        self, *extra: str, accept: str | None = None, status: str = "101 Switching"
    ) -> bytes:
        """Return a 101 response written by hand, with a false accept value or more headers."""
        value = (
            accept_value(self.headers.get("sec-websocket-key", "")) if accept is None else accept
        )
        lines = [
            f"HTTP/1.1 {status}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            f"Sec-WebSocket-Accept: {value}",
            *extra,
        ]
        return "\r\n".join([*lines, "", ""]).encode()


@dataclass(slots=True)
class WebSocketPolicy:
    """How a server behaves; times in nanoseconds.

    Args:
        silent: never answer the upgrade request.
        status: refuse the upgrade with this HTTP status; 0 accepts.
        headers: headers of a refusal, such as Retry-After.
        delay_ns: wait before the answer to an upgrade.
        response: bytes to answer an upgrade with instead; frames work afterwards.
        answers_close: echo a close frame and end the TCP connection, as RFC 6455 says.
        close_delay_ns: wait before that echo.
        answers_ping: echo a ping.
        close_timeout_ns: wait this long for the client's echo, then end the TCP connection.
        coalesce: put the 101 response and what `on_open` sends into one segment.
    """

    silent: bool = False
    status: int = 0
    headers: tuple[tuple[str, str], ...] = ()
    delay_ns: int = 0
    response: Callable[[Upgrade], bytes] | None = None
    answers_close: bool = True
    close_delay_ns: int = 0
    answers_ping: bool = True
    close_timeout_ns: int = 10 * NS_PER_S
    coalesce: bool = False


class WebSocketPeer:
    """The server's end of one connection.

    `on_get(request)` answers a GET that asks for no upgrade with bytes, after which the connection
    ends, or with None for silence; without it wsproto judges such a request.

    Callbacks: `on_open()` after the upgrade was accepted, `on_message(str or bytes)`,
    `on_lost(code)` once, with the client's close code or None when there was none.
    """

    def __init__(self, tcp: Connection | TlsConnection, policy: WebSocketPolicy) -> None:
        self.tcp = tcp
        self.policy = policy
        self.upgrade: Upgrade | None = None
        self.open = False
        self.violation = ""
        self.close_code: int | None = None
        self.pings: list[bytes] = []
        self.pongs: list[bytes] = []
        self.on_open: Callable[[], None] | None = None
        self.on_message: Callable[[str | bytes], None] | None = None
        self.on_lost: Callable[[int | None], None] | None = None
        self.on_get: Callable[[Upgrade], bytes | None] | None = None
        self._head: bytes | None = b""
        self._ws = WSConnection(ConnectionType.SERVER)
        self._parts: list[str | bytes] = []
        self._closing = False
        self._lost = False
        self._events = tcp.stack.world.events
        self._timeout = Alarm(self._events, tcp.close)
        tcp.on_data = self._receive
        tcp.on_eof = self._end_of_stream
        tcp.on_close = lambda _reason: self._report_lost()

    # What a right server sends.

    def send(self, data: str | bytes) -> None:
        """Send one message in one frame."""
        self._emit(TextMessage(data) if isinstance(data, str) else BytesMessage(data))

    def ping(self, payload: bytes = b"") -> None:
        """Send a ping; the answer appears in `pongs`."""
        self._emit(Ping(payload))

    def close(self, code: int = 1000, reason: str = "") -> None:
        """Start the close handshake; the TCP connection ends after the client's echo."""
        if not self._closing:
            self._closing = True
            self._emit(CloseConnection(code, reason or None))
            self._timeout.set_after(self.policy.close_timeout_ns)

    def abort(self) -> None:
        """Reset the TCP connection."""
        self.tcp.abort()

    # What only a test sends.

    def raw(self, data: bytes) -> None:
        """Put bytes into the stream as they are."""
        self.tcp.send(data)

    def frame(self, opcode: int, payload: bytes = b"", **how: bool | int | bytes | None) -> None:
        """Send one frame of `frame(...)`."""
        self.tcp.send(frame(opcode, payload, **how))  # type: ignore[arg-type]  # checked by frame()

    def fragments(self, data: bytes, sizes: list[int], *, between: bytes = b"") -> None:
        """Send one text message in fragments of the given sizes, the rest in the last one.

        Args:
            data: the whole message.
            sizes: payload bytes of the fragments but the last.
            between: bytes put between every two fragments, such as `frame(PING, b"x")`.
        """
        opcode = TEXT
        for size in sizes:
            self.tcp.send(frame(opcode, data[:size], fin=False))
            if between:
                self.tcp.send(between)
            data, opcode = data[size:], CONTINUATION
        self.tcp.send(frame(opcode, data))

    # Inside.

    def _emit(self, event: Event) -> None:
        if self.tcp.close_reason or self.tcp.sender.fin_at is not None:
            return
        self.tcp.send(self._ws.send(event))

    def _receive(self, data: bytes) -> None:
        if self.violation or self._is_plain(data):
            return
        if self._head:
            data, self._head = self._head, None
        try:
            self._ws.receive_data(data)
            for event in self._ws.events():
                self._handle(event)
        except RemoteProtocolError as error:
            self._violated(error)

    def _is_plain(self, data: bytes) -> bool:
        """Gather the first request while `on_get` is set; answer it when it asks for no upgrade."""
        if self.on_get is None or self._head is None:
            return False
        if self.upgrade is not None:
            return True  # its one answer is given
        self._head += data
        if b"\r\n\r\n" not in self._head:
            return True
        request = _plain_request(self._head)
        if request is None:
            return False
        self.upgrade = request
        answer = self.on_get(request)
        if answer is not None:
            self.tcp.send(answer)
            self.tcp.close()
        return True

    def _violated(self, error: RemoteProtocolError) -> None:
        self.violation = str(error) or "unnamed violation"
        hint = error.event_hint
        if isinstance(hint, CloseConnection) and not self._closing:
            self._closing = True
            self._emit(hint)
        elif isinstance(hint, RejectConnection):
            self._emit(hint)
        self.tcp.close()

    def _handle(self, event: Event) -> None:
        if isinstance(event, Request):
            headers = {name.decode().lower(): value.decode() for name, value in _headers(event)}
            self.upgrade = Upgrade(event.target, event.host, headers)
            if not self.policy.silent:
                self._events.after(self.policy.delay_ns, self._answer)
        elif isinstance(event, (TextMessage, BytesMessage)):
            self._take_part(event)
        elif isinstance(event, Ping):
            self.pings.append(bytes(event.payload))
            if self.policy.answers_ping:
                self._emit(event.response())
        elif isinstance(event, Pong):
            self.pongs.append(bytes(event.payload))
        elif isinstance(event, CloseConnection):
            self._take_close(event)

    def _answer(self) -> None:
        policy, upgrade = self.policy, self.upgrade
        if upgrade is None or self.tcp.close_reason:
            return
        if policy.status:
            headers = [(name.encode(), value.encode()) for name, value in policy.headers]
            headers.append((b"content-length", b"0"))
            self._emit(RejectConnection(policy.status, headers, has_body=True))
            self._emit(RejectData(b""))
            self.tcp.close()
            return
        with self.tcp.corked() if policy.coalesce else contextlib.nullcontext():
            right = self._ws.send(AcceptConnection())
            self.tcp.send(right if policy.response is None else policy.response(upgrade))
            self.open = True
            if self.on_open is not None:
                self.on_open()

    def _take_part(self, event: TextMessage | BytesMessage) -> None:
        self._parts.append(event.data if isinstance(event.data, str) else bytes(event.data))
        if not event.message_finished:
            return
        parts, self._parts = self._parts, []
        whole = "".join(parts) if isinstance(parts[0], str) else b"".join(parts)  # type: ignore[arg-type]  # parts of one message are alike
        if self.on_message is not None:
            self.on_message(whole)

    def _take_close(self, event: CloseConnection) -> None:
        if self._ws.state in (ConnectionState.OPEN, ConnectionState.LOCAL_CLOSING):
            # wsproto reports what it could not parse as a close frame that it suggests to send.
            self._violated(RemoteProtocolError(event.reason or "", event_hint=event))
            return
        self.close_code = event.code
        self._timeout.stop()
        if self._closing:
            self.tcp.close()
        elif self.policy.answers_close:
            self._closing = True
            self._events.after(self.policy.close_delay_ns, lambda: self._echo_close(event))
        self._report_lost()

    def _echo_close(self, event: CloseConnection) -> None:
        self._emit(event.response())
        self.tcp.close()

    def _end_of_stream(self) -> None:
        self.tcp.close()
        self._report_lost()

    def _report_lost(self) -> None:
        self._timeout.stop()
        self.open = False
        if not self._lost:
            self._lost = True
            if self.on_lost is not None:
                self.on_lost(self.close_code)


def _plain_request(head: bytes) -> Upgrade | None:
    """Return the GET request of a head, None when it asks for an upgrade or is none."""
    parser = h11.Connection(h11.SERVER)
    parser.receive_data(head)
    try:
        event = parser.next_event()
    except h11.RemoteProtocolError:
        return None
    if not isinstance(event, h11.Request) or event.method != b"GET":
        return None
    headers = {bytes(name).decode(): bytes(value).decode() for name, value in event.headers}
    if "upgrade" in headers:
        return None
    return Upgrade(bytes(event.target).decode(), headers.get("host", ""), headers)


def _headers(request: Request) -> list[tuple[bytes, bytes]]:
    return [(bytes(name), bytes(value)) for name, value in request.extra_headers]


@dataclass(slots=True)
class WebSocketServer:
    """Listen on a port and hand out connections.

    Args:
        stack: TCP of the host.
        port: TCP port.
        accept: called with each connection when its TCP connection is made; sets callbacks.
        policy: behaviour of connections made from now on; replace it to script the next ones.
        config: TCP settings.
        address: only this address of the host; None means all.
        tls: what connections are wrapped with; None leaves them plain.
    """

    stack: TcpStack
    port: int
    accept: Callable[[WebSocketPeer], None]
    policy: WebSocketPolicy = field(default_factory=WebSocketPolicy)
    config: TcpConfig | None = None
    address: bytes | None = None
    tls: ssl.SSLContext | None = None
    peers: list[WebSocketPeer] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Start listening."""
        self.stack.listen(self.port, self._accept, self.config, address=self.address)

    @property
    def violations(self) -> list[str]:
        """What clients did wrong, in order."""
        return [peer.violation for peer in self.peers if peer.violation]

    def close(self) -> None:
        """Stop listening; connections live on."""
        self.stack.close_port(self.port, self.address)

    def _accept(self, tcp: Connection) -> None:
        stream = tcp if self.tls is None else TlsConnection(tcp, self.tls)
        peer = WebSocketPeer(stream, self.policy)
        self.peers.append(peer)
        self.accept(peer)
