"""One client connection, without any I/O.

The transport calls :meth:`Connection.receive` for every message and
:meth:`Connection.lost` when the connection has ended, and carries out the actions in
order. Close and Abort are always the last action of a connection.
"""

import json
from collections import deque
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

from pxe.gateway.actions import Abort, Action, Close, HangUp, Send, Wire
from pxe.gateway.compression import ZlibStream
from pxe.gateway.liveness import AskingPatience, DeadlinePatience, Patience, Verdict
from pxe.gateway.protocol import Opcode, is_sendable_close_code

if TYPE_CHECKING:
    from pxe.gateway.core import Gateway
    from pxe.gateway.session import Session


class Connection:
    """State of one connection between the upgrade and its end.

    Made by :meth:`pxe.gateway.core.Gateway.open` only.

    Attributes:
        number: Counts from 1 in the order of opening.
        host: What the client dialled (its Host header), for READY's resume URL.
        address: The client's IP address, or empty when the driver does not know it.
        peer: Address and port of the client, or empty when the driver does not know them.
        shard: Shard id from Identify or Resume on, at a door from the connect on; else None.
        session: The session that it carries, or None.
        closing: Whether Close or Abort has been asked for; later input is ignored.
        aborted: Whether Abort has been asked for; a transport may act before its queue is empty.
        stalled: Whether the connection plays dead.
        ended: Whether the transport is gone.
    """

    def __init__(
        self,
        gateway: "Gateway",
        number: int,
        host: str,
        address: str,
        shard: int | None = None,
        peer: str = "",
    ) -> None:
        self.number = number
        self.host = host
        self.address = address
        self.peer = peer
        self.shard = shard
        self.session: Session | None = None
        self.closing = False
        self.stalled = False
        self.aborted = False
        self.ended = False
        self._gateway = gateway
        self._actions: deque[Action] = deque()
        self._queued_bytes = 0
        self._inbox: list[str | bytes] = []
        self._sent_at: deque[int] = deque()
        options = gateway.options
        self._patience: Patience = (
            AskingPatience(options.heartbeat_interval_ms)
            if options.profile.beats_are_asked
            else DeadlinePatience(options.heartbeat_patience_ms)
        )
        self._stream: ZlibStream | None = None

    # What the transport calls.

    def receive(self, payload: str | bytes) -> list[Action]:
        """Take one message of the client.

        Args:
            payload: Text, or the bytes of a binary message, which may hold JSON too.

        Returns:
            What this connection has to do now; other connections may have work as
            well, see :meth:`pxe.gateway.core.Gateway.take_dirty`.
        """
        self.feed(payload)
        return self.drain()

    def feed(self, payload: str | bytes) -> None:
        """Take one message of the client; the actions stay queued."""
        self._gateway.heard(self)
        if self.stalled:
            self._inbox.append(payload)
        elif not self.closing:
            self._handle(payload)

    def poll(self, now_ms: int) -> list[Action]:
        """Act on this connection's timer.

        Args:
            now_ms: Time of the gateway's clock.
        """
        self.run_timer(now_ms)
        return self.drain()

    def run_timer(self, now_ms: int) -> None:
        """Ask a client that has been silent, or close it; the actions stay queued."""
        deadline = self.next_deadline()
        if deadline is None or now_ms < deadline:
            return
        verdict = self._patience.judge(now_ms)
        if verdict is Verdict.ASK:
            self.send_control(Opcode.HEARTBEAT)
        elif verdict is Verdict.CLOSE:
            self.close(4009)

    def next_deadline(self) -> int | None:
        """Return the time in ms at which :meth:`poll` has something to do, or None."""
        return None if self.stalled else self._patience.deadline

    def drain(self) -> list[Action]:
        """Take the actions that have not been taken; none while stalled."""
        if self.stalled or not self._actions:
            return []
        actions = list(self._actions)
        self._actions.clear()
        self._queued_bytes = 0
        return actions

    def lost(self, code: int | None = None) -> None:
        """Note that the transport has ended.

        Args:
            code: Close code that the client sent, or None without a close frame.
        """
        if self.ended:
            return
        self.ended = True
        self.stalled = False
        self._actions.clear()
        if not self.closing:
            self.closing = True
            self._patience.deadline = None
            self._gateway.client_closed(self, code)
        self._gateway.forget(self)

    # What the gateway calls.

    def start(self, target: str, user_agent: str | None) -> None:
        """Judge the upgrade request and say Hello.

        Args:
            target: Path and query of the request.
            user_agent: The User-Agent header; without one the client is turned away.
        """
        profile = self._gateway.options.profile
        query = parse_qs(urlsplit(target).query)
        compress = query.get("compress", [None])[-1]
        if not user_agent and self._gateway.options.require_user_agent:
            self.close(4002, "User-Agent header is missing")
        elif query.get("v") != [profile.version]:
            self.close(4012)
        elif query.get("encoding") != [profile.encoding]:
            self.close(4012, f"Invalid encoding: use encoding={profile.encoding}")
        elif compress is not None and compress not in (profile.compressions or {compress}):
            known = ", ".join(sorted(profile.compressions or ()))
            self.close(4012, f"Unknown compression: use {known} or none")
        else:
            self._stream = (
                ZlibStream() if compress == "zlib-stream" and profile.compressions else None
            )
            if not self._gateway.triggered("connect", self):
                interval = self._gateway.options.heartbeat_interval_ms
                body = {"heartbeat_interval": interval, "_trace": ["shardfw-gateway"]}
                self.send_control(Opcode.HELLO, body)
                self._restart_beat_timer()

    def send(self, text: str) -> None:
        """Queue one message; a client that takes nothing for long is dropped."""
        if self.closing:
            return
        data = text if self._stream is None else self._stream.compress(text)
        self._queued_bytes += len(data)
        self._queue(Send(data))
        if self._queued_bytes > self._gateway.options.max_queued_bytes:
            self._gateway.tell("slow_client", self, queued_bytes=self._queued_bytes)
            self.abort()

    def send_control(self, op: Opcode, body: object = None) -> None:
        """Queue a message that is no dispatch."""
        self.send(self._gateway.envelopes.control(op, body))

    def close(self, code: int, reason: str | None = None) -> None:
        """Queue a close frame and end the session's use of this connection.

        Args:
            code: Close code; 1005 sends a frame with an empty body.
            reason: Text for the client; None takes the profile's own.

        Raises:
            ValueError: RFC 6455 forbids the code in a close frame.
        """
        if not is_sendable_close_code(code):
            msg = f"close code {code} cannot be sent: give 1000-1003, 1005, 1007-1014 or 3000-4999"
            raise ValueError(msg)
        if self.closing:
            return
        rule = self._gateway.options.profile.close_rule(code)
        text = reason if reason is not None else rule.reason
        self._queue(Close(code, text))
        self._finish()
        self._gateway.server_closed(self, str(code), keeps_session=rule.keeps_session)

    def abort(self) -> None:
        """Drop the connection with a reset; what was queued is lost."""
        if self.closing:
            return
        self._actions.clear()
        self.aborted = True
        self._queue(Abort())
        self._finish()
        self._gateway.server_closed(self, "abort", keeps_session=True)

    def hang_up(self) -> None:
        """End the stream after what was queued, without a close frame."""
        if self.closing:
            return
        self._queue(HangUp())
        self._finish()
        self._gateway.server_closed(self, "hang_up", keeps_session=True)

    def send_bytes(self, data: bytes, *, one_by_one: bool = False) -> None:
        """Queue bytes that no WebSocket layer looks at."""
        if not self.closing:
            self._queue(Wire(data, one_by_one))

    def stall(self) -> None:
        """Go silent: nothing is sent, nothing is answered, the connection stays."""
        self.stalled = True

    def release(self) -> None:
        """End a stall: answer what came meanwhile and send what was held back."""
        self.stalled = False
        self._restart_beat_timer()
        inbox, self._inbox = self._inbox, []
        for payload in inbox:
            if not self.closing:
                self._handle(payload)
        self._gateway.mark_dirty(self)

    # Inside.

    def _finish(self) -> None:
        self.closing = True
        self.stalled = False
        self._patience.deadline = None

    def _queue(self, action: Action) -> None:
        self._actions.append(action)
        self._gateway.mark_dirty(self)

    def _restart_beat_timer(self) -> None:
        if not self.closing:
            self._patience.restart(self._gateway.clock.now_ms())

    def _handle(self, payload: str | bytes) -> None:
        profile = self._gateway.options.profile
        raw = payload.encode() if isinstance(payload, str) else payload
        if len(raw) > profile.max_payload_bytes:
            self.close(4002, f"Payload exceeds {profile.max_payload_bytes} bytes")
        elif self._is_over_send_limit():
            self.close(4008)
        else:
            self._handle_message(raw)

    def _is_over_send_limit(self) -> bool:
        profile = self._gateway.options.profile
        now = self._gateway.clock.now_ms()
        self._sent_at.append(now)
        while self._sent_at[0] <= now - profile.send_window_ms:
            self._sent_at.popleft()
        return len(self._sent_at) > profile.send_limit

    def _handle_message(self, raw: bytes) -> None:
        try:
            message = json.loads(raw.decode(), parse_constant=_refuse_constant)
        except (ValueError, RecursionError):
            self.close(4002)
            return
        if not isinstance(message, dict):
            self.close(4002, "A payload is a JSON object")
            return
        number = message.get("op")
        rules = self._gateway.options.profile.client_ops
        if isinstance(number, bool) or not isinstance(number, int) or number not in rules:
            self.close(4001)
            return
        op = Opcode(number)
        rule, body = rules[op], message.get("d")
        if rule.needs_session and self.session is None:
            self.close(4003)
        elif "d" not in message or isinstance(body, bool) or not isinstance(body, rule.body):
            code = rule.wrong_code if "d" in message else rule.absent_code
            self.close(code, f"d of opcode {number} has the wrong type")
        elif isinstance(body, dict):
            self._gateway.command(self, op, body)
        else:
            self._restart_beat_timer()
            if self._gateway.beat(self, body if isinstance(body, int) else None):
                self.send_control(Opcode.HEARTBEAT_ACK)


def _refuse_constant(name: str) -> None:
    msg = f"{name} is not JSON"
    raise ValueError(msg)
