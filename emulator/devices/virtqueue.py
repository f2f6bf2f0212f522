"""The device's side of a split virtqueue (virtio 1.2 section 2.7), strict about the driver."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

NEXT, WRITE, INDIRECT = 1, 2, 4
_MASK = 0xFFFF


class DriverError(AssertionError):
    """The driver broke a rule of the specification; the message says which."""


class Memory(Protocol):
    """Guest memory by physical address."""

    def load(self, physical: int, size: int) -> bytes:
        """Return bytes."""

    def save(self, physical: int, contents: bytes) -> None:
        """Set bytes."""


@dataclass
class Part:
    """One descriptor of a chain."""

    address: int
    length: int
    writable: bool


class DeviceQueue:
    """One queue as the device sees it.

    Args:
        memory: guest memory.
        number: of the queue, for messages.
        size: entries.
    """

    def __init__(self, memory: Memory, number: int, size: int) -> None:
        self.memory, self.number = memory, number
        self.reset(size)

    def reset(self, size: int) -> None:
        """Forget everything."""
        self.size = size
        self.enabled = False
        self.table = self.available = self.used = 0
        self.taken = self.returned = 0

    def start_legacy(self, page: int) -> None:
        """Place the three parts as the legacy layout does; page 0 stops the queue."""
        self.enabled = page != 0
        self.table = page << 12
        self.available = self.table + 16 * self.size
        self.used = -(-(self.available + 6 + 2 * self.size) // 4096) * 4096

    def _u16(self, address: int) -> int:
        return int.from_bytes(self.memory.load(address, 2), "little")

    @property
    def waiting(self) -> int:
        """Chains that the driver gave and the device did not take yet."""
        if not self.enabled:
            return 0
        count = (self._u16(self.available + 2) - self.taken) & _MASK
        if count > self.size:
            raise DriverError(
                f"queue {self.number}: {count} new entries in a ring of {self.size}; "
                "the index may move by one for each chain"
            )
        return count

    @property
    def wants_interrupt(self) -> bool:
        """Whether the driver asked to be woken."""
        return not self._u16(self.available) & 1

    def set_no_notify(self, *, on: bool) -> None:
        """Ask the driver not to notify."""
        self.memory.save(self.used, int(on).to_bytes(2, "little"))

    def chains(self) -> Iterator[tuple[int, list[Part]]]:
        """Take the chains that wait, one by one."""
        while self.waiting:
            slot = self.taken % self.size
            head = self._u16(self.available + 4 + 2 * slot)
            self.taken = self.taken + 1 & _MASK
            yield head, self._walk(head)

    def _walk(self, head: int) -> list[Part]:
        parts: list[Part] = []
        at: int | None = head
        while at is not None:
            if at >= self.size:
                raise DriverError(f"queue {self.number}: descriptor {at} of {self.size}")
            if len(parts) == self.size:
                raise DriverError(f"queue {self.number}: the chain at {head} never ends")
            raw = self.memory.load(self.table + 16 * at, 16)
            address, length, flags, following = struct.unpack("<QIHH", raw)
            if flags & ~(NEXT | WRITE):
                raise DriverError(f"queue {self.number}: descriptor {at} has flags {flags:#x}")
            if parts and parts[-1].writable and not flags & WRITE:
                raise DriverError(f"queue {self.number}: readable part after a writable one")
            parts.append(Part(address, length, bool(flags & WRITE)))
            at = following if flags & NEXT else None
        return parts

    def give_back(self, head: int, written: int) -> None:
        """Return a chain to the driver."""
        slot = self.returned % self.size
        self.memory.save(self.used + 4 + 8 * slot, struct.pack("<II", head, written))
        self.returned = self.returned + 1 & _MASK
        self.memory.save(self.used + 2, self.returned.to_bytes(2, "little"))
