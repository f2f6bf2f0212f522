"""The sending half of the TCP peer: what to send next, loss recovery, congestion, RTT.

Positions are stream offsets that never wrap: 0 is our SYN, 1 our first byte, then the FIN.
RFC 9293 (windows), 6298 (timer), 5681 and 6582 (congestion, NewReno), 2018 and 6675 (SACK).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from emulator.simulation.clock import NS_PER_MS

if TYPE_CHECKING:
    from emulator.simulation.peers.tcp_types import TcpConfig, TcpStats

DUPLICATES = 3
# RFC 6298 section 2: G, the clock granularity.
GRANULARITY_NS = NS_PER_MS
AFTER_SYN_LOSS_NS = 3_000 * NS_PER_MS


class Piece(NamedTuple):
    """One segment's worth of stream to send."""

    offset: int
    payload: bytes
    fin: bool
    again: bool


class Sender:
    """Bytes on their way to the peer.

    Args:
        config: sizes and times.
        stats: counters of the connection.
    """

    def __init__(self, config: TcpConfig, stats: TcpStats) -> None:
        self.config = config
        self.stats = stats
        self.mss = 536
        self.option_bytes = 0
        self._full = 536
        self.una = 0
        self.next = 1
        self.window = 0
        self.max_window = 0
        self.peer_sacks = False
        self.fin_at: int | None = None
        self.backoff = 0
        self.cwnd = 0
        self.ssthresh = 1 << 30
        self._data = bytearray()
        self._base = 1
        self._sacked: list[tuple[int, int]] = []
        self._again_at = 0
        self._lost_until = 0
        self._recover = 0
        self._recovering = False
        self._duplicates = 0
        self._srtt_ns = 0
        self._rttvar_ns = 0
        self._base_rto_ns = config.rto_initial_ns
        self._timed: tuple[int, int] | None = None
        self._syn_repeated = False

    def start(self, mss: int) -> None:
        """Set segment size and initial congestion window, once the handshake is known."""
        self.mss = min(mss, self.config.segment_size or mss)
        self._full = mss
        self.cwnd = self.config.initial_segments * self.mss

    @property
    def end(self) -> int:
        """The offset after the last byte that was handed to us, FIN not counted."""
        return self._base + len(self._data)

    @property
    def backlog(self) -> int:
        """Bytes handed to us and not acknowledged."""
        return len(self._data)

    @property
    def flight(self) -> int:
        """Sequence space sent and not acknowledged."""
        return self.next - self.una

    @property
    def waiting(self) -> bool:
        """True when there is something that was never sent."""
        return self.next < self.end or (self.fin_at is not None and self.next <= self.fin_at)

    @property
    def rto_ns(self) -> int:
        """The retransmission timeout now, backed off."""
        config = self.config
        base = min(max(self._base_rto_ns, config.rto_min_ns), config.rto_max_ns)
        return min(base << min(self.backoff, 16), config.rto_max_ns)

    @property
    def _room(self) -> int:
        """Payload of one segment: options take their share of the MSS, RFC 6691."""
        return min(self.mss, self._full - self.option_bytes)

    def push(self, data: bytes) -> None:
        """Append bytes to the stream."""
        self._data += data

    def finish(self) -> None:
        """End the stream: FIN follows the last byte."""
        if self.fin_at is None:
            self.fin_at = self.end

    def next_piece(self, now_ns: int) -> Piece | None:
        """Return what to send now, lost data first; None when window or congestion say wait."""
        pipe = self._pipe()
        piece = self._lost_piece(pipe) or self._new_piece(pipe)
        if piece is None:
            return None
        end = piece.offset + len(piece.payload) + piece.fin
        if piece.again:
            self.stats.retransmitted += 1
            self._timed = None
        elif self._timed is None:
            self._timed = (end, now_ns)
        self.next = max(self.next, end)
        return piece

    def probe(self) -> Piece | None:
        """Return one byte for a window that is closed, RFC 9293 section 3.8.6.1."""
        self.stats.probes += 1
        self.backoff += 1
        self._timed = None
        piece = self._cut(self.una, 1, again=self.next > self.una)
        if piece is not None:
            self.next = max(self.next, piece.offset + len(piece.payload) + piece.fin)
        return piece

    def timeout(self) -> None:
        """React to the retransmission timer: everything unacknowledged counts as lost."""
        self.stats.timeouts += 1
        if self.backoff == 0:
            self.ssthresh = max(self.flight // 2, 2 * self.mss)
        self.backoff += 1
        self.cwnd = self.mss
        # A receiver may discard what it has SACKed, RFC 2018 section 8.
        self._sacked.clear()
        self._again_at, self._lost_until = self.una, self.next
        self._recover, self._recovering = self.next, False
        self._duplicates = 0
        self._timed = None

    def syn_lost(self) -> None:
        """Note that a SYN or SYN-ACK had to be repeated."""
        self.backoff += 1
        self._syn_repeated = True
        self._timed = None

    def time_syn(self, now_ns: int) -> None:
        """Take the handshake as the first sample of the round trip."""
        self._timed = (1, now_ns)

    def acknowledge(self, ack: int, now_ns: int) -> None:
        """Advance to `ack`, which is beyond `una` and not beyond `next`."""
        advanced = ack - self.una
        self.una = ack
        self.backoff = 0
        if self._syn_repeated:
            # RFC 6298 rule 5.7, until a round trip without repetition says better.
            self._base_rto_ns = max(self._base_rto_ns, AFTER_SYN_LOSS_NS)
            self._syn_repeated = False
        if self._timed is not None and ack >= self._timed[0]:
            self._sample(now_ns - self._timed[1])
            self._timed = None
        gone = min(ack, self.end) - self._base
        if gone > 0:
            del self._data[:gone]
            self._base += gone
        self._sacked = [(max(a, ack), b) for a, b in self._sacked if b > ack]
        self._again_at = max(self._again_at, ack)
        self._duplicates = 0
        if self._recovering and ack < self._recover:
            # Partial acknowledgement: the next hole is lost too, RFC 6582 section 3.2 step 3.
            if not self._sacked:
                self._again_at, self._lost_until = ack, min(ack + self.mss, self.next)
            return
        if self._recovering:
            self._recovering = False
            self.cwnd = self.ssthresh
        elif self.cwnd < self.ssthresh:
            self.cwnd += min(advanced, self.mss)
        else:
            self.cwnd += max(1, self.mss * self.mss // self.cwnd)

    def duplicate(self) -> None:
        """Count a duplicate acknowledgement; the third one starts fast recovery."""
        self.stats.duplicate_acks += 1
        self._duplicates += 1
        if self._recovering:
            if not self.peer_sacks:
                self.cwnd += self.mss
            return
        # After a timeout, duplicates of the old flight must not start a second reduction.
        if self._duplicates < DUPLICATES or self.una < self._recover:
            return
        self.stats.fast_retransmits += 1
        self._recovering = True
        self._recover = self.next
        self.ssthresh = max(self.flight // 2, 2 * self.mss)
        self.cwnd = self.ssthresh
        self._again_at = self.una
        self._lost_until = min(self.una + self.mss, self.next)
        self._extend_lost()

    def selective(self, blocks: list[tuple[int, int]]) -> bool:
        """Record SACK blocks; return True when they said something new."""
        before = sum(b - a for a, b in self._sacked)
        every = sorted(self._sacked + [(a, b) for a, b in blocks if self.una < a < b <= self.next])
        merged: list[tuple[int, int]] = []
        for start, stop in every:
            if merged and start <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(stop, merged[-1][1]))
            else:
                merged.append((start, stop))
        self._sacked = merged
        if self._recovering:
            self._extend_lost()
        return sum(b - a for a, b in merged) > before

    def _extend_lost(self) -> None:
        if self._sacked:
            self._lost_until = max(self._lost_until, self._sacked[-1][0])

    def _pipe(self) -> int:
        """Estimate what is still in the network, RFC 6675 section 4."""
        sacked = sum(b - a for a, b in self._sacked)
        lost = 0
        at = max(self._again_at, self.una)
        if at < self._lost_until:
            lost = self._lost_until - at
            for a, b in self._sacked:
                lost -= max(0, min(b, self._lost_until) - max(a, at))
        return self.flight - sacked - lost

    def _lost_piece(self, pipe: int) -> Piece | None:
        at = max(self._again_at, self.una)
        limit = self._lost_until
        for start, stop in self._sacked:
            if start <= at < stop:
                at = stop
            elif at < start:
                limit = min(limit, start)
                break
        if at >= limit or (pipe + self.mss > self.cwnd and pipe > 0):
            self._again_at = max(self._again_at, min(at, self._lost_until))
            return None
        piece = self._cut(at, min(self._room, limit - at), again=True)
        if piece is not None:
            self._again_at = piece.offset + len(piece.payload) + piece.fin
        return piece

    def _new_piece(self, pipe: int) -> Piece | None:
        available = self.end - self.next
        room = self._room
        size = min(room, available, self.una + self.window - self.next)
        if size <= 0:
            if self.fin_at is not None and self.next == self.fin_at:
                return self._cut(self.next, 0, again=False)
            return None
        if size < min(room, available) and self.flight:
            # Sender's side of silly-window avoidance, RFC 9293 section 3.8.6.2.1.
            return None
        if pipe > 0 and pipe + size > self.cwnd:
            return None
        return self._cut(self.next, size, again=False)

    def _cut(self, offset: int, size: int, *, again: bool) -> Piece | None:
        start = offset - self._base
        payload = bytes(self._data[start : start + size])
        fin = self.fin_at is not None and offset + len(payload) == self.fin_at
        if not payload and not fin:
            return None
        return Piece(offset, payload, fin, again)

    def _sample(self, rtt_ns: int) -> None:
        """Fold one measured round trip in, RFC 6298 rules 2.2 and 2.3."""
        if self._srtt_ns == 0:
            self._srtt_ns, self._rttvar_ns = rtt_ns, rtt_ns // 2
        else:
            self._rttvar_ns += (abs(self._srtt_ns - rtt_ns) - self._rttvar_ns) // 4
            self._srtt_ns += (rtt_ns - self._srtt_ns) // 8
        self._base_rto_ns = self._srtt_ns + max(GRANULARITY_NS, 4 * self._rttvar_ns)
