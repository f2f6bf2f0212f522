"""A virtio source of random bytes (virtio 1.2 section 5.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.devices.pci import CONFIG_ADDRESS
from emulator.devices.virtio import DMA_PHYSICAL, Backing, Place, VirtioFunction
from emulator.devices.virtqueue import DriverError

if TYPE_CHECKING:
    from collections.abc import Callable

PCI_ADDRESS = 0x0028
PLACE = Place(PCI_ADDRESS, 0xC040, 0x70_0001_0000)


def as_it_is(head: int, length: int) -> tuple[int, int]:
    """Report an answer honestly."""
    return head, length


class VirtioRng(VirtioFunction):
    """The source. On the bus it stands before the `PciBus` when it takes its time.

    Args:
        machine: where its DMA goes.
        source: gives up to so many random bytes.
        modern: device 1AF4:1044 with windows only, else 1AF4:1005 with ports.
        transitional: 1AF4:1005 with both.
        queue_size: entries.
        delay: accesses to the configuration address port from a question to its answer; 0 answers
            in the middle of the driver's notification.
        report: what the used ring says of an answer; others than `as_it_is` lie.
    """

    def __init__(
        self,
        machine: Backing,
        source: Callable[[int], bytes],
        *,
        modern: bool = False,
        transitional: bool = False,
        queue_size: int = 8,
        delay: int = 0,
        report: Callable[[int, int], tuple[int, int]] = as_it_is,
    ) -> None:
        self.source, self.delay, self.report = source, delay, report
        self.asked: list[int] = []
        self._left = 0
        super().__init__(
            machine,
            4,
            0x1005,
            PLACE,
            modern=modern,
            transitional=transitional,
            queue_sizes=(queue_size,),
            dma_physical=DMA_PHYSICAL,
            immediate=delay == 0,
            offered=0,
            has_config=False,
            class_code=0x00FF00,
        )

    def _notify(self, number: int) -> None:
        super()._notify(number)
        self._left = self.delay

    def port_out(self, port: int, size: int, value: int) -> bool:
        """Take writes to the legacy registers; count those that only pass by."""
        if port == CONFIG_ADDRESS and self._left:
            self._left -= 1
            if not self._left:
                self.service()
        return super().port_out(port, size, value)

    def service(self) -> None:
        """Fill the buffers that wait; a source that gives nothing leaves them waiting."""
        if not self.running:
            return
        queue = self.queues[0]
        for head, parts in queue.chains():
            if not all(part.writable for part in parts):
                raise DriverError("a buffer for random bytes that the device cannot write")
            room = sum(part.length for part in parts)
            self.asked.append(room)
            answer = rest = self.source(room)[:room]
            if not answer:
                return
            for part in parts:
                piece, rest = rest[: part.length], rest[part.length :]
                if piece:
                    self.memory.save(part.address, piece)
            queue.give_back(*self.report(head, len(answer)))
            if queue.wants_interrupt:
                self._interrupt(1)
