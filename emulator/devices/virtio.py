"""A virtio function: legacy ports, modern windows, and both (virtio 1.2 section 4.1).

Everything that the driver may not do raises `DriverError`. The device works when it is told:
`immediate=True` serves a queue in the middle of the driver's notification, as hardware may;
otherwise `service()` does.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from emulator.devices.pci import COMMAND_IO, COMMAND_MASTER, COMMAND_MEMORY, PciFunction
from emulator.devices.virtqueue import DeviceQueue, DriverError
from firmware.limits import DMA_BYTES, WINDOW_DMA

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

DMA_PHYSICAL = 0x0120_0000
IO_BYTES = 0x20
BAR_BYTES = 0x4000
COMMON, ISR, DEVICE, NOTIFY = 0x0000, 0x1000, 0x2000, 0x3000
NOTIFY_MULTIPLIER = 4
F_VERSION_1 = 32
F_ANY_LAYOUT = 27
"""Shown through the ports alone, as QEMU does: with VERSION_1 any layout is allowed."""
S_ACKNOWLEDGE, S_DRIVER, S_DRIVER_OK, S_FEATURES_OK = 1, 2, 4, 8


class Backing(Protocol):
    """Where the node's virtual memory lies; a `Machine` is one."""

    def read(self, address: int, size: int) -> bytes:
        """Return bytes."""

    def write(self, address: int, contents: bytes) -> None:
        """Set bytes."""


class GuestMemory:
    """The DMA window by physical address; anything else is the driver's fault."""

    def __init__(self, machine: Backing, physical: int) -> None:
        self.machine, self.physical = machine, physical

    def _virtual(self, physical: int, size: int) -> int:
        if not self.physical <= physical <= self.physical + DMA_BYTES - size:
            raise DriverError(f"DMA of {size} bytes at {physical:#x} is outside the DMA window")
        return physical - self.physical + WINDOW_DMA

    def load(self, physical: int, size: int) -> bytes:
        """Return bytes."""
        return self.machine.read(self._virtual(physical, size), size)

    def save(self, physical: int, contents: bytes) -> None:
        """Set bytes."""
        self.machine.write(self._virtual(physical, len(contents)), contents)


@dataclass(frozen=True)
class Place:
    """Where firmware put a function.

    Attributes:
        address: bus << 8 | device << 3 | function.
        io_base: of its ports.
        bar_base: of its windows.
        irq: input of the interrupt controllers.
    """

    address: int
    io_base: int
    bar_base: int
    irq: int = 11


class VirtioFunction(PciFunction, ABC):
    """A function; put it into a `PciBus` for its configuration and into a `Bus` for its registers.

    Args:
        machine: where its DMA goes.
        kind: virtio's number of the device; 1 is a network card, 4 a source of entropy.
        transitional_id: its PCI device id when it has ports.
        place: where firmware put it.
        modern: windows only, no ports.
        transitional: ports and windows.
        queue_sizes: entries of each queue.
        dma_physical: physical address of the DMA window.
        immediate: serve a queue as soon as the driver notifies.
        offered: feature bits; VERSION_1 comes with windows.
        has_config: whether there is a structure of its own.
        class_code: class, subclass and interface of the PCI function.
    """

    def __init__(
        self,
        machine: Backing,
        kind: int,
        transitional_id: int,
        place: Place,
        *,
        modern: bool,
        transitional: bool,
        queue_sizes: Sequence[int],
        dma_physical: int,
        immediate: bool,
        offered: int,
        has_config: bool,
        class_code: int,
    ) -> None:
        device = 0x1040 + kind if modern else transitional_id
        super().__init__(place.address, 0x1AF4, device, class_code)
        self.immediate = immediate
        self.queue_sizes = tuple(queue_sizes)
        self.memory = GuestMemory(machine, dma_physical)
        self.has_windows = modern or transitional
        self.has_ports = not modern
        self.offered = offered | (1 << F_VERSION_1 if self.has_windows else 0)
        self.generation = 0
        self.on_interrupt: Callable[[], None] | None = None
        self.interrupts = 0
        self.notified: list[int] = []
        self.reset_reads = 0
        self.refuse_features = False
        self.poke(0x3C, 1, place.irq)
        self.poke(0x3D, 1, 1)
        self._registers_at(place, has_config=has_config)
        self.bar_base = place.bar_base
        self.queues = [DeviceQueue(self.memory, n, size) for n, size in enumerate(self.queue_sizes)]
        self._reset()

    def _registers_at(self, place: Place, *, has_config: bool) -> None:
        if self.has_ports:
            self.add_bar(0, place.io_base, IO_BYTES, io=True)
        # An MSI-X capability first, as real cards have it: the walk must pass over it.
        self.msix = self.add_capability(0x11, struct.pack("<HII", 2, 1, 0x801), b"\x00\xc0")
        if self.has_windows:
            self.add_bar(4, place.bar_base, BAR_BYTES, io=False, wide=True)
            structures = [(1, COMMON, 0x38), (3, ISR, 1)]
            structures += [(4, DEVICE, 12)] if has_config else []
            for kind, offset, size in structures:
                self.add_capability(9, struct.pack("<BBB3xII", 16, kind, 4, offset, size))
            self.add_capability(
                9, struct.pack("<BBB3xIII", 20, 2, 4, NOTIFY, 0x1000, NOTIFY_MULTIPLIER)
            )

    # -- what a device has of its own -------------------------------------------------------------
    @abstractmethod
    def service(self) -> None:
        """Serve what waits in the queues."""

    def _device_config(self) -> bytes:
        """Return the structure of its own."""
        return b""

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
    def running(self) -> bool:
        """Whether the driver said that it is ready and lets the device master the bus."""
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
            return int.from_bytes(self._device_config()[at - 20 : at - 20 + size], "little")
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
            return int.from_bytes(self._device_config()[at - DEVICE : at - DEVICE + size], "little")
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

    # -- working ----------------------------------------------------------------------------------
    def _notify(self, number: int) -> None:
        if not self.status & S_DRIVER_OK:
            raise DriverError(f"queue {number} was notified before DRIVER_OK")
        self.notified.append(number)
        if self.immediate:
            self.service()

    def _interrupt(self, bit: int) -> None:
        self.isr |= bit
        self.interrupts += 1
        if self.on_interrupt is not None:
            self.on_interrupt()
