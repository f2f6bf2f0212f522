"""A stream of JetStream: one log that a majority agrees on, and what each server has of it.

All that was ever committed is kept, so that a server cut off can still show what was true when it was.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from emulator.simulation.clock import NS_PER_S
from emulator.simulation.nats.protocol import header_value, to_json
from emulator.simulation.nats.subjects import matches

if TYPE_CHECKING:
    from collections.abc import Iterator

EXPECTED = "Nats-Expected-Last-Subject-Sequence"
MSG_ID = "Nats-Msg-Id"
WRONG_SEQUENCE, WRONG_SEQUENCE_NOW, DUPLICATE_NOW = 10071, 10164, 10158


@dataclass(frozen=True, slots=True)
class StreamConfig:
    """What an operator made it with.

    Attributes:
        name: of the stream.
        subjects: patterns that it takes.
        memory: whether it is lost with the power of a server; then that server learns it anew.
        per_subject: messages kept of each subject; 0 keeps all.
        max_age_ns: how long messages are kept; 0 for ever.
        duplicate_window_ns: how long message ids are remembered.
        allow_direct: whether every server answers DIRECT.GET.
        max_msg_size: largest body with header; 0 sets no bound.
    """

    name: str
    subjects: tuple[str, ...]
    memory: bool = False
    per_subject: int = 0
    max_age_ns: int = 0
    duplicate_window_ns: int = 120 * NS_PER_S
    allow_direct: bool = False
    max_msg_size: int = 0

    def takes(self, subject: str) -> bool:
        """Say whether a published subject is stored here."""
        return any(matches(pattern, subject) for pattern in self.subjects)


@dataclass(frozen=True, slots=True)
class Message:
    """One committed message."""

    seq: int
    subject: str
    header: bytes | None
    body: bytes
    at_ns: int


@dataclass(slots=True, eq=False)
class Proposal:
    """A message that the leader took and a majority has not confirmed.

    Attributes:
        subject: of it.
        header: block, or None.
        body: payload.
        reply: where its answer goes; empty when nobody waits for one.
    """

    subject: str
    header: bytes | None
    body: bytes
    reply: str

    @property
    def compares(self) -> bool:
        """Say whether it is a compare-and-swap."""
        return header_value(self.header, EXPECTED) is not None


@dataclass(slots=True)
class Stream:
    """The agreed log.

    Attributes:
        config: what it was made with.
        log: every committed message, in order.
        pending: what the leader took and nobody confirmed yet, in order.
    """

    config: StreamConfig
    log: list[Message] = field(default_factory=list)
    pending: list[Proposal] = field(default_factory=list)
    _ids: dict[str, tuple[int, int]] = field(default_factory=dict)
    _by_subject: dict[str, list[int]] = field(default_factory=dict)

    @property
    def last_seq(self) -> int:
        """Sequence of the newest message."""
        return len(self.log)

    def refusal(self, proposal: Proposal, now_ns: int, *, clustered: bool) -> bytes | None:
        """Return what the leader answers at once instead of taking a message, or None.

        Args:
            proposal: what it is asked to take.
            now_ns: virtual time.
            clustered: whether proposals wait for others; a single server has none in flight.
        """
        ident = header_value(proposal.header, MSG_ID)
        expected = header_value(proposal.header, EXPECTED)
        in_flight = self.pending if clustered else []
        name = self.config.name
        if expected is not None:
            if any(p.subject == proposal.subject for p in in_flight):
                return refused(name, WRONG_SEQUENCE_NOW, "wrong last sequence")
            last = self.last_of(proposal.subject)
            # A text that is no number counts as none of the sequences.
            if not expected.isdecimal() or int(expected) != last:
                return refused(name, WRONG_SEQUENCE, f"wrong last sequence: {last}")
        if ident:
            known = self._ids.get(ident)
            if known is not None and known[1] > now_ns:
                return f'{{"stream":"{name}","seq":{known[0]},"duplicate": true}}'.encode()
            if any(header_value(p.header, MSG_ID) == ident for p in in_flight):
                return refused(name, DUPLICATE_NOW, "duplicate message id is in process", 409)
        size = len(proposal.header or b"") + len(proposal.body)
        if self.config.max_msg_size and size > self.config.max_msg_size:
            return refused(name, 10054, "message size exceeds maximum allowed")
        return None

    def commit(self, proposal: Proposal, now_ns: int) -> Message:
        """Append a message to the log."""
        message = Message(
            self.last_seq + 1, proposal.subject, proposal.header, proposal.body, now_ns
        )
        self.log.append(message)
        self._by_subject.setdefault(message.subject, []).append(message.seq)
        ident = header_value(proposal.header, MSG_ID)
        if ident:
            self._ids[ident] = (message.seq, now_ns + self.config.duplicate_window_ns)
        return message

    def ack(self, message: Message) -> bytes:
        """Write the PubAck of a message."""
        return f'{{"stream":"{self.config.name}","seq":{message.seq}}}'.encode()

    # -- what a server that has the log up to `upto` shows ----------------------------------------
    def last_of(self, subject: str, upto: int | None = None) -> int:
        """Return the newest sequence of a literal subject; 0 when there is none."""
        seqs = self._by_subject.get(subject, ())
        place = len(seqs) if upto is None else bisect_right(seqs, upto)
        return seqs[place - 1] if place else 0

    def newest(self, pattern: str, upto: int) -> list[int]:
        """Return the newest sequence of every subject under a pattern, in order."""
        found = (self.last_of(s, upto) for s in self._by_subject if matches(pattern, s))
        return sorted(seq for seq in found if seq)

    def kept(self, seq: int, upto: int, now_ns: int) -> Message | None:
        """Return a message unless it is newer than `upto`, too old, or one too many."""
        if not 0 < seq <= min(upto, self.last_seq):
            return None
        message = self.log[seq - 1]
        if self.config.max_age_ns and now_ns - message.at_ns >= self.config.max_age_ns:
            return None
        if self.config.per_subject:
            seqs = self._by_subject[message.subject]
            place = bisect_right(seqs, upto)
            if seq not in seqs[max(0, place - self.config.per_subject) : place]:
                return None
        return message

    def under(self, pattern: str, start: int, upto: int, now_ns: int) -> Iterator[Message]:
        """Give the kept messages under a pattern from a sequence on."""
        for seq in range(start, upto + 1):
            message = self.kept(seq, upto, now_ns)
            if message is not None and matches(pattern, message.subject):
                yield message


def refused(name: str, err_code: int, text: str, code: int = 400) -> bytes:
    """Write the answer to a message that is not taken."""
    error = {"code": code, "err_code": err_code, "description": text}
    return to_json({"error": error, "stream": name, "seq": 0})
