"""One TCP connection of a peer: RFC 9293 states, RFC 5961 checks, and hooks for misbehaviour."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from emulator.simulation.packet import ACK, FIN, RST, SYN, PacketError, Tcp, TcpOptions
from emulator.simulation.peers.tcp_core import ConnectionCore
from emulator.simulation.peers.tcp_types import (
    RECEIVING,
    State,
    distance,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

DEFAULT_MSS = 536
_AFTER_CLOSE = {State.ESTABLISHED: State.FIN_WAIT_1, State.CLOSE_WAIT: State.LAST_ACK}
_AFTER_FIN = {State.ESTABLISHED: State.CLOSE_WAIT, State.FIN_WAIT_2: State.TIME_WAIT}
_AFTER_FIN_ACKED = {
    State.FIN_WAIT_1: State.FIN_WAIT_2,
    State.CLOSING: State.TIME_WAIT,
    State.LAST_ACK: State.CLOSED,
}


class Connection(ConnectionCore):
    """A connection as an application sees it, and how it takes arriving segments."""

    # What an application calls.

    def send(self, data: bytes) -> None:
        """Queue bytes and send what the windows allow.

        Raises:
            ConnectionError: our side is closed already.
        """
        if self.sender.fin_at is not None or self.state in (State.CLOSED, State.TIME_WAIT):
            raise ConnectionError(f"{self}: send after close")
        self.sender.push(data)
        if not self._corked:
            self._output()

    @contextlib.contextmanager
    def corked(self) -> Iterator[None]:
        """Hold what is sent inside the block and send it in as few segments as possible."""
        self._corked = True
        try:
            yield
        finally:
            self._corked = False
            self._output()

    def close(self) -> None:
        """Send FIN after everything queued; the peer may go on sending."""
        if self.state in _AFTER_CLOSE:
            self.state = _AFTER_CLOSE[self.state]
            self.sender.finish()
            self._output()
        elif self.state is State.SYN_RECEIVED:
            self.sender.finish()
        elif self.state is State.SYN_SENT:
            self._end("closed")

    def abort(self, reason: str = "aborted") -> None:
        """Send RST and forget the connection."""
        if self.state not in (State.CLOSED, State.TIME_WAIT, State.SYN_SENT):
            self.inject(RST | ACK)
        self._end(reason)

    def vanish(self) -> None:
        """Forget the connection without a word, as a peer that lost power does."""
        self._end("vanished")

    def pause(self) -> None:
        """Stop reading; the window closes as bytes arrive."""
        self.paused = True

    def resume(self) -> None:
        """Read again; a window update goes out when it is worth one."""
        self.paused = False
        self._hand_over()
        if self.state in RECEIVING and self.receiver.would_open():
            self._send_ack()

    # Opening.

    def open_active(self) -> None:
        """Send a SYN."""
        self.state = State.SYN_SENT
        self._send_syn()

    def open_passive(self, syn: Tcp) -> None:
        """Answer a SYN that a listener accepted."""
        self.passive = True
        self.state = State.SYN_RECEIVED
        self._take_syn(syn)
        self._send_syn()

    def _take_syn(self, syn: Tcp) -> None:
        self.irs = syn.seq
        try:
            self.offered = TcpOptions.decode(syn.options)
        except PacketError:
            self.stats.unacceptable += 1
        config, offered = self.config, self.offered
        if config.scale is not None and offered.scale is not None:
            self._peer_scale, self._scaled = offered.scale, True
        self.sacks = self.sender.peer_sacks = config.sack and offered.sack_ok
        self.sender.start(min(offered.mss or DEFAULT_MSS, config.mss or 1460))
        self.sender.window = self.sender.max_window = syn.window
        self._window_seq = syn.seq

    # Arriving segments, RFC 9293 section 3.10.7.

    def receive(self, segment: Tcp) -> None:
        """Handle one segment for this connection."""
        self.stats.segments_in += 1
        if self.in_filter is not None:
            believed = self.in_filter(segment)
            if believed is None:
                return
            segment = believed
        self._probes = 0
        if self.config.keepalive_ns and self.state is State.ESTABLISHED:
            self._keepalive.set_after(self.config.keepalive_ns)
        if self.state is State.SYN_SENT:
            self._receive_syn_sent(segment)
        elif self.state is not State.CLOSED:
            self._receive_synchronized(segment)

    def _receive_syn_sent(self, segment: Tcp) -> None:
        if segment.flags & ACK and segment.ack != self.snd_nxt:
            if not segment.flags & RST:
                self.stack.reset_for(self.local, self.remote, segment)
            return
        if segment.flags & RST:
            if segment.flags & ACK:
                self._end("refused")
            return
        if not segment.flags & SYN:
            return
        self._take_syn(segment)
        if not segment.flags & ACK:
            self.state = State.SYN_RECEIVED
            self._tries = 0
            self._send_syn()
            return
        self.sender.acknowledge(1, self.stack.world.now_ns)
        self._ack_due = True
        self._established()
        self._output()
        self._flush_ack()

    def _receive_synchronized(self, segment: Tcp) -> None:
        receiver = self.receiver
        if segment.flags & SYN and self.state is State.SYN_RECEIVED and segment.seq == self.irs:
            if segment.flags & ACK:
                self._take_ack(segment)
            else:
                self._send_syn()
            return
        start = receiver.next + distance(segment.seq, self.rcv_nxt)
        if not self._acceptable(start, segment.length):
            self.stats.unacceptable += 1
            if not segment.flags & RST:
                closed_window = receiver.window == 0 and start == receiver.next
                if closed_window and segment.flags & ACK:
                    self._take_ack(segment)
                self._answer_bad(segment)
                if self.state is State.TIME_WAIT:
                    self._time_wait.set_after(self.config.time_wait_ns)
            return
        if segment.flags & RST:
            # RFC 5961 section 3.2: only an exact match resets.
            if start == receiver.next:
                self._end("closed" if self.state is State.TIME_WAIT else "reset")
            else:
                self._challenge(segment)
            return
        if segment.flags & SYN:
            self._challenge(segment)
            return
        if not segment.flags & ACK or not self._take_ack(segment):
            return
        if self.state in RECEIVING:
            self._take_text(start, segment)
        self._output()
        self._flush_ack()

    def _acceptable(self, start: int, length: int) -> bool:
        first, window = self.receiver.next, self.receiver.window
        if length == 0:
            return start == first if window == 0 else first <= start < first + window
        return window > 0 and start < first + window and start + length > first

    def _take_ack(self, segment: Tcp) -> bool:
        sender = self.sender
        ack = sender.una + distance(segment.ack, self.snd_una)
        if self.state is State.SYN_RECEIVED:
            if ack != 1:
                self.stack.reset_for(self.local, self.remote, segment)
                return False
            sender.acknowledge(1, self.stack.world.now_ns)
            sender.window = segment.window << self._peer_scale
            self._established()
        if ack > sender.next or ack < sender.una - sender.max_window:
            self._challenge(segment)
            return False
        news = False
        if self.sacks and segment.options:
            news = sender.selective(self._sack_offsets(segment))
        window = segment.window << self._peer_scale
        if ack > sender.una:
            sender.acknowledge(ack, self.stack.world.now_ns)
            self._tries = 0
            self._restart_timer()
            if self.on_progress is not None:
                self.on_progress()
        elif sender.flight and not segment.length and (news or window == sender.window):
            sender.duplicate()
        self._take_window(segment, window, ack)
        if sender.fin_at is not None and sender.una > sender.fin_at:
            self._fin_acknowledged()
        return self.state is not State.CLOSED

    def _sack_offsets(self, segment: Tcp) -> list[tuple[int, int]]:
        try:
            blocks = TcpOptions.decode(segment.options).sack
        except PacketError:
            self.stats.unacceptable += 1
            return []
        una, base = self.sender.una, self.snd_una
        return [(una + distance(a, base), una + distance(b, base)) for a, b in blocks]

    def _take_window(self, segment: Tcp, window: int, ack: int) -> None:
        newer = distance(segment.seq, self._window_seq)
        if newer > 0 or (newer == 0 and ack >= self._window_ack):
            opened = self.sender.window == 0 and window > 0
            self.sender.window = window
            self.sender.max_window = max(self.sender.max_window, window)
            self._window_seq, self._window_ack = segment.seq, ack
            if opened:
                self.sender.backoff = 0
                self._restart_timer()

    def _take_text(self, start: int, segment: Tcp) -> None:
        receiver = self.receiver
        if segment.flags & FIN:
            receiver.fin_at = start + len(segment.payload)
        if segment.payload:
            self._ack_due = True
            if start > receiver.next:
                self.stats.out_of_order += 1
            if receiver.add(start, segment.payload):
                self._hand_over()
        if receiver.fin_at == receiver.next and self.state in RECEIVING:
            self._peer_finished()

    def _hand_over(self) -> None:
        if self.paused or self.on_data is None or not self.receiver.unread:
            return
        data = self.receiver.take()
        self.stats.bytes_in += len(data)
        self.on_data(data)

    def _peer_finished(self) -> None:
        self.receiver.next += 1
        self.receiver.edge = max(self.receiver.edge, self.receiver.next)
        self._ack_due = True
        if self.state is State.FIN_WAIT_1:
            self.state = State.CLOSING
        else:
            self.state = _AFTER_FIN.get(self.state, self.state)
        if self.state is State.TIME_WAIT:
            self._enter_time_wait()
        if self.on_eof is not None:
            self.on_eof()

    def _fin_acknowledged(self) -> None:
        self.state = _AFTER_FIN_ACKED.get(self.state, self.state)
        if self.state is State.TIME_WAIT:
            self._enter_time_wait()
        elif self.state is State.CLOSED:
            self._end("closed")

    def _enter_time_wait(self) -> None:
        self._retransmit.stop()
        self._time_wait.set_after(self.config.time_wait_ns)

    def _established(self) -> None:
        self._tries = 0
        self._retransmit.stop()
        self.state = State.ESTABLISHED
        if self.config.keepalive_ns:
            self._keepalive.set_after(self.config.keepalive_ns)
        if self.on_open is not None:
            self.on_open()
        if self.sender.fin_at is not None and self.state is State.ESTABLISHED:
            self.state = State.FIN_WAIT_1
