"""Named misbehaviours of a TCP peer, each one a filter for `out_filter` or a call on a connection.

Every one was a bug report against a small TCP: a peer that does this exists, and a node must
survive it (retransmission limits, RFC 9293 section 3.10.7, RFC 5961, RFC 1122 section 4.2).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.simulation.packet import ACK, FIN, RST, SYN, Tcp
from emulator.simulation.peers.tcp_types import SEQ_MASK

if TYPE_CHECKING:
    from collections.abc import Callable

    from emulator.simulation.peers.tcp import Connection, TcpStack

    Filter = Callable[[Tcp], list[Tcp]]

# Option bytes that no header should hold; for `TcpConfig.syn_options` or `inject(options=…)`.
BAD_OPTIONS: dict[str, bytes] = {
    "length zero": bytes.fromhex("01020000"),
    "length one": bytes.fromhex("02010000"),
    "past the header": bytes.fromhex("080a0000"),
    "only the kind": bytes.fromhex("01010102"),
    "mss of zero": bytes.fromhex("02040000"),
    "mss of one": bytes.fromhex("02040001"),
    "mss with three bytes": bytes.fromhex("02050102"),
    "scale of 255": bytes.fromhex("0303ff00"),
    "two mss": bytes.fromhex("020405b402040010"),
    "unknown kind": bytes.fromhex("fd0411220204 05b4"),
    "forty bytes of nop": b"\x01" * 40,
}

# What an attacker or a confused middlebox sends: flags, and the distance of SEQ from the right one.
STRAY_RESETS: dict[str, tuple[int, int]] = {
    "one too high": (RST, 1),
    "one too low": (RST, -1),
    "far above the window": (RST, 0x40000000),
    "far below the window": (RST, -0x40000000),
    "inside the window, with ACK": (RST | ACK, 100),
}


def withhold_acks(segment: Tcp) -> list[Tcp]:
    """Send data, never a pure acknowledgement."""
    bare = segment.flags & (SYN | FIN | RST | ACK) == ACK and not segment.payload
    return [] if bare else [segment]


def clamp_window(limit: int) -> Filter:
    """Never offer more than `limit` in the window field, also after having offered more."""

    def clamp(segment: Tcp) -> list[Tcp]:
        segment.window = min(segment.window, limit)
        return [segment]

    return clamp


def lose(count: int, condition: Callable[[Tcp], bool] = lambda _segment: True) -> Filter:
    """Lose the first `count` segments that meet a condition."""
    left = count

    def drop(segment: Tcp) -> list[Tcp]:
        nonlocal left
        if left and condition(segment):
            left -= 1
            return []
        return [segment]

    return drop


def wrong_syn_ack(offset: int, times: int = 1) -> Filter:
    """Acknowledge something else in the first SYN-ACKs, as for an older SYN."""
    left = times

    def spoil(segment: Tcp) -> list[Tcp]:
        nonlocal left
        if left and segment.flags & SYN:
            left -= 1
            segment.ack = (segment.ack + offset) & SEQ_MASK
        return [segment]

    return spoil


def backwards(count: int) -> Filter:
    """Send every `count` data segments in reverse order; a FIN lets go of what is held."""
    held: list[Tcp] = []

    def reverse(segment: Tcp) -> list[Tcp]:
        if not segment.payload and not segment.flags & (FIN | RST):
            return [segment]
        held.insert(0, segment)
        if len(held) < count and not segment.flags & (FIN | RST):
            return []
        out = held[:]
        held.clear()
        return out

    return reverse


def overlapping(width: int) -> Filter:
    """Let each data segment begin with the last `width` bytes of what came before it."""
    tail = b""
    expected = -1

    def widen(segment: Tcp) -> list[Tcp]:
        nonlocal tail, expected
        if not segment.payload:
            return [segment]
        before = tail if segment.seq == expected else b""
        tail = (before + segment.payload)[-width:]
        expected = (segment.seq + len(segment.payload)) & SEQ_MASK
        segment.seq = (segment.seq - len(before)) & SEQ_MASK
        segment.payload = before + segment.payload
        return [segment]

    return widen


def stray_reset(connection: Connection, name: str) -> None:
    """Send one of `STRAY_RESETS`, none of which may end the connection."""
    flags, distance = STRAY_RESETS[name]
    connection.inject(flags, seq=connection.snd_nxt + distance)


def stray_syn(connection: Connection) -> None:
    """Send a SYN inside the window of an established connection, RFC 5961 section 4."""
    connection.inject(SYN, seq=connection.snd_nxt + 100)


def keepalive_probe(connection: Connection, *, garbage: bool = False) -> None:
    """Send a keepalive probe, of the old kind with one garbage byte if asked (RFC 1122 4.2.3.6)."""
    payload = b"\x00" if garbage else b""
    connection.inject(ACK, seq=connection.snd_nxt - 1, payload=payload)


class HalfOpenPeer:
    """Answer SYNs as a host whose old connection is still ESTABLISHED, until it is reset.

    That is what a node meets that reboots and dials again from the same port: a challenge ACK
    with old numbers, which it must answer with RST (RFC 9293 section 3.5.1 figure 9).

    Args:
        stack: TCP of the host; its `in_filter` is taken.
        old_sequence: what the old connection would send next.
        old_acknowledgement: what it expects next.
    """

    def __init__(self, stack: TcpStack, old_sequence: int, old_acknowledgement: int) -> None:
        self.stack = stack
        self.sequence = old_sequence & SEQ_MASK
        self.acknowledgement = old_acknowledgement & SEQ_MASK
        self.challenges = 0
        self.reset = False
        self.address: tuple[bytes, bytes] = (b"", b"")
        stack.in_filter = self._filter

    def answer_from(self, local: bytes, remote: bytes) -> HalfOpenPeer:
        """Say between which addresses the old connection was."""
        self.address = (local, remote)
        return self

    def _filter(self, segment: Tcp) -> list[Tcp]:
        if self.reset:
            return [segment]
        if segment.flags & RST and segment.seq == self.acknowledgement:
            self.reset = True
            return []
        if segment.flags & SYN:
            self.challenges += 1
            ports = segment.dst_port, segment.src_port
            challenge = Tcp(*ports, self.sequence, self.acknowledgement, ACK, 1000)
            self.stack.transmit(*self.address, challenge)
        return []
