"""A bench for the NIC: its routines, a virtio card, and the bus between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from emulator.devices.bus import Bus
from emulator.devices.pci import PciBus
from emulator.devices.virtio_net import DMA_PHYSICAL, PCI_ADDRESS, VirtioNet
from emulator.environment import Environment
from firmware.layouts.memory import MEMORY
from firmware.layouts.nic import NIC, NicState
from firmware.layouts.node import NETWORK
from firmware.limits import MMIO_BYTES, PAGE, WINDOW_MMIO

if TYPE_CHECKING:
    from emulator.lockstep import Result
    from tests.support.lab import Lab
    from toolchain.asm import Routine

MAC = bytes.fromhex("525400123456")


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
        self.pages: dict[int, int] = {}
        self.bus = Bus([self.pci, self.card], self._physical)

    def _physical(self, address: int) -> int:
        """What the page tables say of the MMIO window, as `mmio_map` filled it in order."""
        if not WINDOW_MMIO <= address < WINDOW_MMIO + MMIO_BYTES:
            return address
        page = self.pages.get(address // PAGE)
        return address if page is None else page * PAGE + address % PAGE

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


__all__ = ["DMA_PHYSICAL", "MAC", "MEMORY", "PCI_ADDRESS", "NicBench", "NicState"]
