"""A virtio network card: frames in and out (virtio 1.2 section 5.1)."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from emulator.devices.virtio import (
    DMA_PHYSICAL,
    F_ANY_LAYOUT,
    F_VERSION_1,
    Backing,
    Place,
    VirtioFunction,
)
from emulator.devices.virtqueue import DriverError, Part

if TYPE_CHECKING:
    from collections.abc import Callable

PCI_ADDRESS = 0x0018
IO_BASE = 0xC000
BAR_BASE = 0x70_0000_0000
"""Above 4 GB, where newer hosts put it (facts of real machines)."""
F_CSUM, F_GUEST_CSUM, F_MTU, F_MAC, F_MRG, F_STATUS = 0, 1, 3, 5, 15, 16
OFFERED = sum(
    1 << bit for bit in (F_CSUM, F_GUEST_CSUM, F_MTU, F_MAC, F_MRG, F_STATUS, 17, F_ANY_LAYOUT, 29)
)
RX, TX = 0, 1


class VirtioNet(VirtioFunction):
    """The card.

    Args:
        machine: where its DMA goes.
        mac: its Ethernet address, 6 bytes.
        modern: True for device 1AF4:1041 with windows only, False for 1AF4:1000 with ports.
        transitional: 1AF4:1000 with both.
        queue_size: entries per queue, or of the receive and of the transmit queue.
        dma_physical: physical address of the DMA window.
        immediate: serve a queue as soon as the driver notifies.
        offered: feature bits; VERSION_1 comes with windows.
        mtu: what it tells.
        irq: input of the interrupt controllers.
        bar_base: where its windows are.
    """

    def __init__(
        self,
        machine: Backing,
        mac: bytes,
        modern: bool = False,
        *,
        transitional: bool = False,
        queue_size: int | tuple[int, int] = 256,
        dma_physical: int = DMA_PHYSICAL,
        immediate: bool = False,
        offered: int = OFFERED,
        mtu: int = 1500,
        irq: int = 11,
        bar_base: int = BAR_BASE,
    ) -> None:
        self.mac, self.mtu = mac, mtu
        self.link_up = True
        self.transmitted: list[bytes] = []
        self.on_transmit: Callable[[bytes], None] | None = None
        self.dropped = 0
        self.header_flags = 0
        super().__init__(
            machine,
            1,
            0x1000,
            Place(PCI_ADDRESS, IO_BASE, bar_base, irq),
            modern=modern,
            transitional=transitional,
            queue_sizes=queue_size if isinstance(queue_size, tuple) else (queue_size,) * 2,
            dma_physical=dma_physical,
            immediate=immediate,
            offered=offered,
            has_config=True,
            class_code=0x020000,
        )

    def _device_config(self) -> bytes:
        return self.mac + struct.pack("<HHH", int(self.link_up), 1, self.mtu)

    @property
    def _header_apart(self) -> bool:
        """Whether a header must have a descriptor of its own (virtio 1.2 section 5.1.6.6)."""
        return not self.accepted & (1 << F_VERSION_1 | 1 << F_ANY_LAYOUT)

    @property
    def header_bytes(self) -> int:
        """12 with VERSION_1, else 10 (mergeable buffers are never accepted)."""
        return 12 if self.accepted >> F_VERSION_1 & 1 else 10

    def service(self) -> None:
        """Send what waits in the transmit queue."""
        queue = self.queues[TX]
        if not self.running:
            return
        sent = False
        for head, parts in queue.chains():
            self._send(parts)
            queue.give_back(head, 0)
            sent = True
        if sent and queue.wants_interrupt:
            self._interrupt(1)

    def _send(self, parts: list[Part]) -> None:
        if any(part.writable for part in parts):
            raise DriverError("a transmit chain has a part for the device to write")
        self._check_layout(parts)
        raw = b"".join(self.memory.load(part.address, part.length) for part in parts)
        header, frame = raw[: self.header_bytes], raw[self.header_bytes :]
        if any(header):
            raise DriverError(f"transmit header {header.hex()} asks for offloads")
        if not 60 <= len(frame) <= 1518:
            raise DriverError(f"a frame of {len(frame)} bytes; Ethernet has 60 to 1518")
        self.transmitted.append(frame)
        if self.on_transmit is not None:
            self.on_transmit(frame)

    def _check_layout(self, parts: list[Part]) -> None:
        if self._header_apart and parts[0].length != self.header_bytes:
            raise DriverError("a legacy header has a descriptor of its own (section 5.1.6.6)")

    def deliver(self, frame: bytes, *, flags: int | None = None) -> bool:
        """Put a frame into the receive queue; False when it is lost for want of a buffer."""
        queue = self.queues[RX]
        if not self.running or not self.link_up or not queue.waiting:
            self.dropped += 1
            return False
        head, parts = next(queue.chains())
        if not all(part.writable for part in parts):
            raise DriverError("a receive chain has a part that the device cannot write")
        self._check_layout(parts)
        chosen = self.header_flags if flags is None else flags
        header = bytes((chosen,)).ljust(self.header_bytes, b"\x00")
        if self.header_bytes == 12:
            header = header[:10] + b"\x01\x00"
        if sum(part.length for part in parts) < len(header) + len(frame):
            self.dropped += 1
            queue.give_back(head, 0)
            return False
        rest = header + frame
        for part in parts:
            piece, rest = rest[: part.length], rest[part.length :]
            if piece:
                self.memory.save(part.address, piece)
        queue.give_back(head, len(header) + len(frame))
        if queue.wants_interrupt:
            self._interrupt(1)
        return True

    def set_link(self, *, up: bool) -> None:
        """Plug or pull the cable."""
        if up != self.link_up:
            self.link_up = up
            self.generation = self.generation + 1 & 0xFF
            self._interrupt(2)
