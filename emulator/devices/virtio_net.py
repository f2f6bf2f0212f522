"""A virtio network card: legacy ports, modern windows, and both (virtio 1.2 sections 4.1, 5.1).

Everything that the driver may not do raises `DriverError`. The device works when it is told:
`immediate=True` serves a queue in the middle of the driver's notification, as hardware may;
otherwise `service()` does, so that a lockstep call sees no foreign store.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Protocol

from emulator.devices.pci import COMMAND_IO, COMMAND_MASTER, COMMAND_MEMORY, PciFunction
from emulator.devices.virtqueue import DeviceQueue, DriverError, Part
from firmware.limits import DMA_BYTES, WINDOW_DMA

if TYPE_CHECKING:
    from collections.abc import Callable

PCI_ADDRESS = 0x0018
DMA_PHYSICAL = 0x0120_0000
IO_BASE = 0xC000
IO_BYTES = 0x20
BAR_BASE = 0x70_0000_0000
"""Above 4 GB, where newer hosts put it (facts of real machines)."""
BAR_BYTES = 0x4000
COMMON, ISR, DEVICE, NOTIFY = 0x0000, 0x1000, 0x2000, 0x3000
NOTIFY_MULTIPLIER = 4
F_CSUM, F_GUEST_CSUM, F_MTU, F_MAC, F_MRG, F_STATUS, F_VERSION_1 = 0, 1, 3, 5, 15, 16, 32
F_ANY_LAYOUT = 27
"""Shown through the ports alone, as QEMU does: with VERSION_1 any layout is allowed."""
OFFERED = sum(
    1 << bit for bit in (F_CSUM, F_GUEST_CSUM, F_MTU, F_MAC, F_MRG, F_STATUS, 17, F_ANY_LAYOUT, 29)
)
S_ACKNOWLEDGE, S_DRIVER, S_DRIVER_OK, S_FEATURES_OK = 1, 2, 4, 8
RX, TX = 0, 1


class Backing(Protocol):
    """Where the node's virtual memory lies; a `Machine` is one."""

    def read(self, address: int, size: int) -> bytes:
        """Return bytes."""

    def write(self, address: int, contents: bytes) -> None:
        """Set bytes."""


class _GuestMemory:
    def __init__(self, machine: Backing, physical: int) -> None:
        self.machine, self.physical = machine, physical

    def _virtual(self, physical: int, size: int) -> int:
        if not self.physical <= physical <= self.physical + DMA_BYTES - size:
            raise DriverError(f"DMA of {size} bytes at {physical:#x} is outside the DMA window")
        return physical - self.physical + WINDOW_DMA

    def load(self, physical: int, size: int) -> bytes:
        return self.machine.read(self._virtual(physical, size), size)

    def save(self, physical: int, contents: bytes) -> None:
        self.machine.write(self._virtual(physical, len(contents)), contents)


class VirtioNet(PciFunction):
    """The card; put it into a `PciBus` for its configuration and into a `Bus` for its registers.

    Args:
        machine: where its DMA goes.
        mac: its Ethernet address, 6 bytes.
        modern: True for device 1AF4:1041 with windows only, False for 1AF4:1000 with ports.
        transitional: 1AF4:1000 with both.
        queue_size: entries per queue, or of the receive and of the transmit queue.
        dma_physical: physical address of the DMA window.
        immediate: serve a queue as soon as the driver notifies.
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
        super().__init__(PCI_ADDRESS, 0x1AF4, 0x1041 if modern else 0x1000)
        self.mac, self.mtu, self.immediate = mac, mtu, immediate
        self.queue_sizes = queue_size if isinstance(queue_size, tuple) else (queue_size,) * 2
        self.memory = _GuestMemory(machine, dma_physical)
        self.has_windows = modern or transitional
        self.has_ports = not modern
        self.offered = offered | (1 << F_VERSION_1 if self.has_windows else 0)
        self.link_up = True
        self.generation = 0
        self.transmitted: list[bytes] = []
        self.on_transmit: Callable[[bytes], None] | None = None
        self.on_interrupt: Callable[[], None] | None = None
        self.dropped = 0
        self.interrupts = 0
        self.notified: list[int] = []
        self.header_flags = 0
        self.reset_reads = 0
        self.refuse_features = False
        self.poke(0x3C, 1, irq)
        self.poke(0x3D, 1, 1)
        self._registers_at(bar_base)
        self.bar_base = bar_base
        self.queues = [DeviceQueue(self.memory, n, self.queue_sizes[n]) for n in (RX, TX)]
        self._reset()

    def _registers_at(self, bar_base: int) -> None:
        if self.has_ports:
            self.add_bar(0, IO_BASE, IO_BYTES, io=True)
        # An MSI-X capability first, as real cards have it: the walk must pass over it.
        self.msix = self.add_capability(0x11, struct.pack("<HII", 2, 1, 0x801), b"\x00\xc0")
        if self.has_windows:
            self.add_bar(4, bar_base, BAR_BYTES, io=False, wide=True)
            for kind, offset, size in ((1, COMMON, 0x38), (3, ISR, 1), (4, DEVICE, 12)):
                self.add_capability(9, struct.pack("<BBB3xII", 16, kind, 4, offset, size))
            self.add_capability(
                9, struct.pack("<BBB3xIII", 20, 2, 4, NOTIFY, 0x1000, NOTIFY_MULTIPLIER)
            )

    # -- driver-visible state ---------------------------------------------------------------------
    def _reset(self) -> None:
        self.status = 0
        self.accepted = 0
        self.isr = 0
        self.select = self.device_half = self.driver_half = 0
        self._reset_left = self.reset_reads
        for queue in self.queues:
            queue.reset(self.queue_sizes[queue.number])

    @property
    def _offered_to_windows(self) -> int:
        return self.offered & ~(1 << F_ANY_LAYOUT)

    @property
    def _header_apart(self) -> bool:
        """Whether a header must have a descriptor of its own (virtio 1.2 section 5.1.6.6)."""
        return not self.accepted & (1 << F_VERSION_1 | 1 << F_ANY_LAYOUT)

    @property
    def header_bytes(self) -> int:
        """12 with VERSION_1, else 10 (mergeable buffers are never accepted)."""
        return 12 if self.accepted >> F_VERSION_1 & 1 else 10

    @property
    def running(self) -> bool:
        """Whether the driver said that it is ready and lets the card master the bus."""
        return bool(self.status & S_DRIVER_OK and self.command & COMMAND_MASTER)

    def _read_status(self) -> int:
        if self.status == 0 and self._reset_left:
            self._reset_left -= 1
            return S_ACKNOWLEDGE
        return self.status

    def _write_status(self, value: int) -> None:
        if value == 0:
            self._reset()
            return
        lost = self.status & ~value
        if lost:
            raise DriverError(f"status bits {lost:#x} were taken back without a reset")
        if value & S_FEATURES_OK and self.refuse_features:
            value &= ~S_FEATURES_OK
        settled = value & S_FEATURES_OK or not self.accepted >> F_VERSION_1 & 1
        if value & S_DRIVER_OK and not settled:
            raise DriverError("DRIVER_OK without FEATURES_OK")
        self.status = value

    def _accept(self, half: int, value: int) -> None:
        if self.status & (S_DRIVER_OK | S_FEATURES_OK):
            raise DriverError("features were written after they were settled")
        shift = 32 * half
        self.accepted = self.accepted & ~(0xFFFF_FFFF << shift) | value << shift
        if self.accepted & ~self.offered:
            raise DriverError(f"features {self.accepted & ~self.offered:#x} were never offered")

    @property
    def _queue(self) -> DeviceQueue | None:
        return self.queues[self.select] if self.select < len(self.queues) else None

    def _net_config(self) -> bytes:
        return self.mac + struct.pack("<HHH", int(self.link_up), 1, self.mtu)

    # -- ports ------------------------------------------------------------------------------------
    def _port(self, port: int, size: int) -> int | None:
        base = self.peek(0x10, 4) & ~3
        inside = base <= port and port + size <= base + IO_BYTES
        mine = self.has_ports and inside and self.command & COMMAND_IO
        return port - base if mine else None

    def port_in(self, port: int, size: int) -> int | None:
        """Answer the legacy registers."""
        at = self._port(port, size)
        if at is None:
            return None
        if at >= 20:
            return int.from_bytes(self._net_config()[at - 20 : at - 20 + size], "little")
        queue = self._queue
        match at, size:
            case 0, 4:
                return self.offered & 0xFFFF_FFFF
            case 8, 4:
                return queue.table >> 12 if queue is not None else 0
            case 12, 2:
                return queue.size if queue is not None else 0
            case 18, 1:
                return self._read_status()
            case 19, 1:
                return self._take_isr()
        raise DriverError(f"{size}-byte read of legacy register {at}")

    def _take_isr(self) -> int:
        value, self.isr = self.isr, 0
        return value

    def port_out(self, port: int, size: int, value: int) -> bool:
        """Take writes to the legacy registers."""
        at = self._port(port, size)
        if at is None:
            return False
        match at, size:
            case 4, 4:
                self._accept(0, value)
            case 8, 4:
                if self._queue is None:
                    raise DriverError(f"queue {self.select} does not exist")
                self._queue.start_legacy(value)
            case 14, 2:
                self.select = value
            case 16, 2:
                self._notify(value)
            case 18, 1:
                self._write_status(value)
            case _:
                raise DriverError(f"{size}-byte write to legacy register {at}")
        return True

    # -- windows ----------------------------------------------------------------------------------
    def _window(self, physical: int, size: int) -> int | None:
        base = self.peek(0x20, 8) & ~15
        inside = base <= physical and physical + size <= base + BAR_BYTES
        return physical - base if self.has_windows and inside and (
            self.command & COMMAND_MEMORY
        ) else None  # fmt: skip

    def mmio_read(self, physical: int, size: int) -> int | None:
        """Answer the modern registers."""
        at = self._window(physical, size)
        if at is None:
            return None
        if at >= NOTIFY:
            return 0
        if at >= DEVICE:
            return int.from_bytes(self._net_config()[at - DEVICE : at - DEVICE + size], "little")
        if at >= ISR:
            return self._take_isr()
        queue = self._queue
        fields: dict[tuple[int, int], int] = {
            (0x04, 4): self._offered_to_windows >> 32 * self.device_half & 0xFFFF_FFFF,
            (0x12, 2): len(self.queues),
            (0x14, 1): -1,
            (0x15, 1): self.generation,
            (0x18, 2): queue.size if queue is not None else 0,
            (0x1C, 2): int(queue.enabled) if queue is not None else 0,
            (0x1E, 2): self.select,
        }
        if (at, size) not in fields:
            raise DriverError(f"{size}-byte read of common register {at:#x}")
        value = fields[at, size]
        return self._read_status() if value < 0 else value

    def mmio_write(self, physical: int, size: int, value: int) -> bool:
        """Take writes to the modern registers."""
        at = self._window(physical, size)
        if at is None:
            return False
        if at >= NOTIFY:
            if size != 2 or at != NOTIFY + NOTIFY_MULTIPLIER * value:
                raise DriverError(f"notification of queue {value} at {at:#x}")
            self._notify(value)
            return True
        match at, size:
            case 0x00, 4:
                self.device_half = value
            case 0x08, 4:
                self.driver_half = value
            case 0x0C, 4:
                self._accept(self.driver_half, value)
            case 0x14, 1:
                self._write_status(value)
            case 0x16, 2:
                self.select = value
            case _:
                self._write_queue(at, size, value)
        return True

    def _write_queue(self, at: int, size: int, value: int) -> None:
        queue = self._queue
        if queue is None:
            raise DriverError(f"queue {self.select} does not exist")
        if queue.enabled:
            raise DriverError(f"queue {self.select} was changed after it was enabled")
        if (at, size) == (0x18, 2):
            most = self.queue_sizes[self.select]
            if value & (value - 1) or not 0 < value <= most:
                raise DriverError(f"queue size {value}, at most {most}, a power of two")
            queue.size = value
        elif (at, size) == (0x1C, 2):
            queue.enabled = value == 1
        elif size == 4 and 0x20 <= at < 0x38:
            name = ("table", "available", "used")[(at - 0x20) // 8]
            shift = 8 * (at % 8)
            old = getattr(queue, name) & ~(0xFFFF_FFFF << shift)
            setattr(queue, name, old | value << shift)
        else:
            raise DriverError(f"{size}-byte write to common register {at:#x}")

    # -- frames -----------------------------------------------------------------------------------
    def _notify(self, number: int) -> None:
        if not self.status & S_DRIVER_OK:
            raise DriverError(f"queue {number} was notified before DRIVER_OK")
        self.notified.append(number)
        if self.immediate:
            self.service()

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

    def _interrupt(self, bit: int) -> None:
        self.isr |= bit
        self.interrupts += 1
        if self.on_interrupt is not None:
            self.on_interrupt()
