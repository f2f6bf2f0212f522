"""What one TCP connection of a peer holds, what it sends, and its timers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.simulation.clock import Alarm
from emulator.simulation.packet import ACK, FIN, PSH, SYN, Tcp, TcpOptions
from emulator.simulation.peers.tcp_receive import Receiver
from emulator.simulation.peers.tcp_send import Piece, Sender
from emulator.simulation.peers.tcp_types import (
    SENDING,
    SEQ_MASK,
    State,
    TcpConfig,
    TcpStats,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from emulator.simulation.peers.tcp import TcpStack

    OutFilter = Callable[[Tcp], Iterable[Tcp]]
    InFilter = Callable[[Tcp], Tcp | None]


class ConnectionCore:
    """Both halves of one connection, its timers and hooks, and what the application hears.

    Callbacks: `on_open()`, `on_data(bytes)`, `on_eof()` when the peer's FIN was read,
    `on_progress()` when the peer acknowledged something, `on_close(reason)` once, when nothing
    more can happen.

    Hooks: `out_filter(segment)` returns the segments to send instead of one;
    `in_filter(segment)` returns the segment to believe, or None for "lost".
    """

    def __init__(
        self,
        stack: TcpStack,
        local: tuple[bytes, int],
        remote: tuple[bytes, int],
        config: TcpConfig,
        isn: int,
    ) -> None:
        self.stack = stack
        self.local, self.remote = local, remote
        self.config = config
        self.stats = TcpStats()
        self.state = State.CLOSED
        self.passive = False
        self.iss, self.irs = isn & SEQ_MASK, 0
        self.sender = Sender(config, self.stats)
        self.receiver = Receiver(config.receive_buffer, config.scale or 0, config.mss or 1460)
        self.offered = TcpOptions()
        self.sacks = False
        self.paused = False
        self.close_reason = ""
        self.on_open: Callable[[], None] | None = None
        self.on_data: Callable[[bytes], None] | None = None
        self.on_eof: Callable[[], None] | None = None
        self.on_close: Callable[[str], None] | None = None
        self.on_progress: Callable[[], None] | None = None
        self.out_filter: OutFilter | None = None
        self.in_filter: InFilter | None = None
        self._peer_scale = 0
        self._scaled = False
        self._ack_due = False
        self._corked = False
        self._window_seq, self._window_ack = 0, 0
        self._tries = 0
        self._probes = 0
        self._bad_answer_ns = -config.bad_ack_every_ns
        events = stack.world.events
        self._retransmit = Alarm(events, self._on_retransmit)
        self._delayed_ack = Alarm(events, self._send_ack)
        self._time_wait = Alarm(events, lambda: self._end("closed"))
        self._keepalive = Alarm(events, self._on_keepalive)

    def inject(
        self,
        flags: int,
        *,
        seq: int | None = None,
        ack: int | None = None,
        window: int | None = None,
        payload: bytes = b"",
        options: bytes = b"",
    ) -> None:
        """Send one segment that the state machine knows nothing about.

        What is left out is what a right segment would carry now. `out_filter` is not asked.
        """
        segment = self._segment(self.sender.next, flags, payload, options)
        if seq is not None:
            segment.seq = seq & SEQ_MASK
        if ack is not None:
            segment.ack = ack & SEQ_MASK
        if window is not None:
            segment.window = window
        self.stack.transmit(self.local[0], self.remote[0], segment)

    @property
    def snd_nxt(self) -> int:
        """SND.NXT as a sequence number."""
        return (self.iss + self.sender.next) & SEQ_MASK

    @property
    def snd_una(self) -> int:
        """SND.UNA as a sequence number."""
        return (self.iss + self.sender.una) & SEQ_MASK

    @property
    def rcv_nxt(self) -> int:
        """RCV.NXT as a sequence number."""
        return (self.irs + self.receiver.next) & SEQ_MASK

    def __str__(self) -> str:
        remote = ".".join(map(str, self.remote[0]))
        return f"tcp :{self.local[1]} <-> {remote}:{self.remote[1]} {self.state}"

    # Leaving segments.

    def _output(self) -> None:
        if self.state not in SENDING:
            return
        now_ns = self.stack.world.now_ns
        self.sender.option_bytes = len(self._sack_option())
        while True:
            piece = self.sender.next_piece(now_ns)
            if piece is None:
                break
            self._send_piece(piece)
        if not self._retransmit.running and (self.sender.flight or self.sender.waiting):
            self._retransmit.set_after(self.sender.rto_ns)

    def _send_piece(self, piece: Piece) -> None:
        last = piece.offset + len(piece.payload) == self.sender.end
        flags = ACK | (PSH if last and piece.payload else 0) | (FIN if piece.fin else 0)
        self.stats.bytes_out += len(piece.payload)
        self._emit(self._segment(piece.offset, flags, piece.payload, self._sack_option()))

    def _flush_ack(self) -> None:
        if not self._ack_due or self.state is State.CLOSED:
            return
        delay = self.config.delayed_ack_ns
        if delay and not self._delayed_ack.running and not self.receiver.blocks():
            self._delayed_ack.set_after(delay)
        else:
            self._send_ack()

    def _send_ack(self) -> None:
        if self.state is not State.CLOSED:
            self._emit(self._segment(self.sender.next, ACK, b"", self._sack_option()))

    def _challenge(self, segment: Tcp) -> None:
        self.stats.challenge_acks += 1
        self._answer_bad(segment)

    def _answer_bad(self, segment: Tcp) -> None:
        """Acknowledge an unacceptable segment; without data, not too often.

        Two sides that disagree about the numbers would otherwise answer each other for ever
        (RFC 5961 section 7).
        """
        now_ns = self.stack.world.now_ns
        if not segment.payload and now_ns < self._bad_answer_ns + self.config.bad_ack_every_ns:
            return
        if not segment.payload:
            self._bad_answer_ns = now_ns
        self._send_ack()

    def _sack_option(self) -> bytes:
        if not self.sacks:
            return b""
        blocks = self.receiver.blocks()
        if not blocks:
            return b""
        irs = self.irs
        spans = tuple(((irs + a) & SEQ_MASK, (irs + b) & SEQ_MASK) for a, b in blocks)
        return TcpOptions(sack=spans).encode()

    def _segment(
        self, offset: int, flags: int, payload: bytes, options: bytes, *, scaled: bool = True
    ) -> Tcp:
        window = self.receiver.advertise(scaled=scaled and self._scaled)
        ack = self.rcv_nxt if flags & ACK else 0
        seq = (self.iss + offset) & SEQ_MASK
        ports = self.local[1], self.remote[1]
        return Tcp(*ports, seq, ack, flags, window, payload, options)

    def _emit(self, segment: Tcp) -> None:
        self._ack_due = False
        self._delayed_ack.stop()
        out = [segment] if self.out_filter is None else self.out_filter(segment)
        for each in out:
            self.stats.segments_out += 1
            self.stack.transmit(self.local[0], self.remote[0], each)

    def _send_syn(self) -> None:
        config = self.config
        answering = self.state is State.SYN_RECEIVED
        options = TcpOptions(
            mss=config.mss,
            scale=config.scale if not answering or self._scaled else None,
            sack_ok=config.sack and (not answering or self.offered.sack_ok),
        ).encode()
        flags = SYN | ACK if answering else SYN
        if self._tries == 0:
            self.sender.time_syn(self.stack.world.now_ns)
        chosen = options if config.syn_options is None else config.syn_options
        self._emit(self._segment(0, flags, b"", chosen, scaled=False))
        self._retransmit.set_after(self.sender.rto_ns)

    # Timers.

    def _restart_timer(self) -> None:
        if self.sender.flight or self.sender.waiting:
            self._retransmit.set_after(self.sender.rto_ns)
        else:
            self._retransmit.stop()

    def _on_retransmit(self) -> None:
        sender = self.sender
        handshake = self.state in (State.SYN_SENT, State.SYN_RECEIVED)
        if not handshake and sender.window == 0 and (sender.flight or sender.waiting):
            piece = sender.probe()
            if piece is not None:
                self._send_piece(piece)
            self._retransmit.set_after(sender.rto_ns)
            return
        self._tries += 1
        if self._tries > (self.config.syn_retries if handshake else self.config.retries):
            self._end("timed out")
        elif handshake:
            sender.syn_lost()
            self._send_syn()
        elif sender.flight:
            sender.timeout()
            self._output()
            self._retransmit.set_after(sender.rto_ns)

    def _on_keepalive(self) -> None:
        """Probe with an old sequence number; `retries` probes without any answer end it."""
        if self.state is not State.ESTABLISHED:
            return
        self._probes += 1
        if self._probes > self.config.retries:
            self._end("timed out")
        else:
            self._emit(self._segment(self.sender.next - 1, ACK, b"", b""))
            self._keepalive.set_after(self.config.keepalive_ns)

    def _end(self, reason: str) -> None:
        if self.close_reason:
            return
        self.state = State.CLOSED
        self.close_reason = reason
        for alarm in (self._retransmit, self._delayed_ack, self._time_wait, self._keepalive):
            alarm.stop()
        self.stack.forget(self)
        if self.on_close is not None:
            self.on_close(reason)
