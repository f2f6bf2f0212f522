"""Which capabilities count."""

from emulator.effects import World, model
from emulator.models.pci import pci_read, pci_write
from firmware.layouts.nic import Capability


@model
def virtio_capabilities(w: World, function: int, rows: int) -> None:
    """Walk the list; virtio structures 1 to 4 are noted once, MSI-X is switched off."""
    if not pci_read(w, function, 4) >> 20 & 1:
        return
    following = pci_read(w, function, 0x34)
    for _ in range(48):
        at = following & 0xFC
        if at < 0x40:
            return
        head = pci_read(w, function, at)
        number, kind, following = head & 0xFF, head >> 24, head >> 8
        if number == 0x11:
            pci_write(w, function, at, head & 0x7FFF_FFFF)
        elif number == 0x09 and at <= 0xEC and 1 <= kind <= 4:
            row = w.view(Capability, rows + kind * Capability.SIZE)
            if row.length == 0:
                row.bar = pci_read(w, function, at + 4) & 0xFF
                row.offset = pci_read(w, function, at + 8)
                row.extra = pci_read(w, function, at + 16)
                row.length = pci_read(w, function, at + 12)
