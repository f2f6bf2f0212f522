"""A bench for virtio-rng: the driver's routines, a device, and the bus between them."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from emulator.devices.bus import Bus
from emulator.devices.pci import PciBus
from emulator.devices.virtio import DMA_PHYSICAL
from emulator.devices.virtio_rng import PCI_ADDRESS, VirtioRng
from emulator.environment import Environment
from firmware.layouts.boot import BOOT
from firmware.layouts.entropy import SAMPLE_BYTES
from firmware.layouts.memory import ADDRESS_MASK, MEMORY
from firmware.layouts.rng import RNG, RNG_BUFFER, RNG_QUEUE, Rng
from firmware.limits import MMIO_BYTES, PAGE, WINDOW_MMIO
from tests.support.pages import ready, walk

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.lab import Lab

KINDS: dict[str, dict[str, Any]] = {
    "legacy": {},
    "modern": {"modern": True},
    "transitional": {"transitional": True},
}


def bytes_of(seed: int = 1) -> Callable[[int], bytes]:
    """Return a healthy source of bytes."""
    return random.Random(seed).randbytes


class RngBench:
    """A machine with a virtio-rng; the DMA window is as boot leaves it.

    Args:
        lab: linked routines; its memory is put back.
        source: of the device; None takes a healthy one.
        options: of the device.
    """

    def __init__(
        self, lab: Lab, source: Callable[[int], bytes] | None = None, **options: Any
    ) -> None:
        lab.reset()
        self.lab = lab
        self.device = VirtioRng(lab.machine, source or bytes_of(), **options)
        self.pci = PciBus([self.device])
        self.bus = Bus([self.device, self.pci], self._physical)
        ready(lab, (0x0200_0000, 0x0300_0000))
        lab.g(MEMORY).dma_physical = DMA_PHYSICAL
        lab.g(BOOT).rng_function = PCI_ADDRESS
        lab.machine.write(lab.image.address(RNG), bytes(Rng.SIZE))
        lab.machine.write(RNG_QUEUE, bytes(RNG_BUFFER + SAMPLE_BYTES - RNG_QUEUE))
        self.now, self.step = 0xFFFF_FFFF_FFF0_0000, 1000

    def _physical(self, address: int) -> int:
        """Return what the page tables say of the MMIO window."""
        if not WINDOW_MMIO <= address < WINDOW_MMIO + MMIO_BYTES:
            return address
        return (walk(self.lab, address) & ADDRESS_MASK) + address % PAGE

    def environment(self, **more: Any) -> Environment:
        """Return an environment whose ports and windows are the device's; time goes by in steps."""
        return self.bus.connect(Environment(tsc=self._tsc, **more))

    def _tsc(self) -> int:
        self.now += self.step
        return self.now
