"""A bench for the NIC: its routines, a virtio card, and the bus between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from emulator.devices.bus import Bus
from emulator.devices.pci import PciBus
from emulator.devices.virtio import DMA_PHYSICAL
from emulator.devices.virtio_net import PCI_ADDRESS, VirtioNet
from emulator.environment import Environment
from firmware.layouts.memory import ADDRESS_MASK
from firmware.layouts.nic import NIC, NicState
from firmware.layouts.node import NETWORK
from firmware.limits import MMIO_BYTES, PAGE, WINDOW_MMIO
from tests.support.lab import Lab
from tests.support.pages import ready, tables_region, walk

if TYPE_CHECKING:
    from emulator.lockstep import Result
    from toolchain.asm import Routine

MAC = bytes.fromhex("525400123456")


def windows_lab(*routines: Routine) -> Lab:
    """Return a lab with page tables and device windows, for modern cards."""
    lab = Lab(*routines, slots=0, extra=[tables_region()])
    lab.machine.map_mmio(WINDOW_MMIO, MMIO_BYTES)
    return lab


class NicBench:
    """A machine with a card.

    Args:
        lab: linked routines; its memory is put back.
        options: of the card.
    """

    def __init__(self, lab: Lab, **options: Any) -> None:
        lab.reset()
        self.lab = lab
        self.card = VirtioNet(lab.machine, MAC, **options)
        self.pci = PciBus([self.card])
        self.bus = Bus([self.pci, self.card], self._physical)
        if "memory" in lab.image.symbols:
            ready(lab, (0x0200_0000, 0x0300_0000))

    def _physical(self, address: int) -> int:
        """Return what the page tables say of the MMIO window."""
        if not WINDOW_MMIO <= address < WINDOW_MMIO + MMIO_BYTES:
            return address
        return (walk(self.lab, address) & ADDRESS_MASK) + address % PAGE

    def environment(self) -> Environment:
        """Return an environment whose ports and windows are the card's."""
        return self.bus.connect(Environment())

    def call(self, routine: Routine, /, **inputs: int) -> Result:
        """Call in lockstep with the card attached."""
        return self.lab.call(routine, self.environment(), **inputs)

    def run(self, name: str, /, **registers: int) -> dict[str, Any]:
        """Run a routine freely with the card attached; return its registers."""
        self.lab.machine.environment = self.environment()
        return self.lab.machine.call(name, registers)

    @property
    def nic(self) -> Any:
        return self.lab.g(NIC)

    @property
    def network(self) -> Any:
        return self.lab.g(NETWORK)


__all__ = ["DMA_PHYSICAL", "MAC", "PCI_ADDRESS", "NicBench", "NicState", "windows_lab"]
