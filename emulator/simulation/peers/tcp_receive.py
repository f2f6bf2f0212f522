"""The receiving half of the TCP peer: reassembly, the window that we offer, SACK blocks.

Positions are stream offsets that never wrap: 0 is the peer's SYN, 1 its first byte.
"""

from __future__ import annotations


class Receiver:
    """Bytes that arrived, in order and not.

    Args:
        capacity: unread bytes that we hold.
        scale: our window scale shift, 0 without the option.
        mss: segment size for silly-window avoidance (RFC 9293 section 3.8.6.2.2).
    """

    def __init__(self, capacity: int, scale: int, mss: int) -> None:
        self.capacity = capacity
        self.scale = scale
        self.mss = mss
        self.next = 1
        self.edge = 1
        self.unread = bytearray()
        self.fin_at: int | None = None
        self._parts: list[tuple[int, bytes]] = []
        self._latest = 0

    @property
    def window(self) -> int:
        """Bytes that may come beyond `next`, as far as we have told the peer."""
        return self.edge - self.next

    def advertise(self, *, scaled: bool = True) -> int:
        """Return the window field for a segment that leaves now; the edge never moves back."""
        wanted = self.next + max(0, self.capacity - len(self.unread))
        if wanted - self.edge >= min(self.capacity // 2, self.mss):
            self.edge = wanted
        shift = self.scale if scaled else 0
        # Rounded up, so that the edge that the peer computes does not move back.
        field = min(0xFFFF, -(-(self.edge - self.next) >> shift))
        self.edge = max(self.edge, self.next + (field << shift))
        return field

    def would_open(self) -> bool:
        """Say whether reading has opened the window enough to be worth a segment."""
        wanted = self.next + self.capacity - len(self.unread)
        return wanted - self.edge >= min(self.capacity // 2, self.mss)

    def add(self, offset: int, data: bytes) -> bool:
        """Take a piece of the stream; return True when it made bytes readable."""
        end = min(offset + len(data), self.edge)
        if offset < self.next:
            data = data[self.next - offset :]
            offset = self.next
        data = data[: max(0, end - offset)]
        if not data:
            return False
        if offset > self.next:
            self._store(offset, data)
            return False
        self.unread += data
        self.next += len(data)
        self._drain()
        return True

    def take(self) -> bytes:
        """Return everything readable and forget it."""
        data = bytes(self.unread)
        self.unread.clear()
        return data

    def blocks(self) -> list[tuple[int, int]]:
        """Return up to three SACK blocks, the one that grew last in front (RFC 2018)."""
        merged: list[tuple[int, int]] = []
        for offset, data in self._parts:
            if merged and merged[-1][1] == offset:
                merged[-1] = (merged[-1][0], offset + len(data))
            else:
                merged.append((offset, offset + len(data)))
        merged.sort(key=lambda block: not block[0] <= self._latest < block[1])
        return merged[:3]

    def _store(self, offset: int, data: bytes) -> None:
        self._latest = offset
        kept: list[tuple[int, bytes]] = []
        for known, part in self._parts:
            if known + len(part) <= offset or known >= offset + len(data):
                kept.append((known, part))
                continue
            # Overlap: one piece is made of both.
            if known < offset:
                data = part[: offset - known] + data
                offset = known
            if known + len(part) > offset + len(data):
                data += part[offset + len(data) - known :]
        kept.append((offset, data))
        kept.sort()
        self._parts = kept

    def _drain(self) -> None:
        while self._parts and self._parts[0][0] <= self.next:
            offset, data = self._parts.pop(0)
            fresh = data[self.next - offset :]
            self.unread += fresh
            self.next += len(fresh)
