"""Which capabilities count."""

from emulator.effects import World, model
from emulator.models.pci import pci_read, pci_write
from firmware.layouts.nic import NIC


@model
def nic_capabilities(w: World) -> None:
    """Walk the list; virtio structures 1 to 4 are noted once, MSI-X is switched off."""
    nic = w.g(NIC)
    card = nic.pci_address
    if not pci_read(w, card, 4) >> 20 & 1:
        return
    following = pci_read(w, card, 0x34)
    for _ in range(48):
        at = following & 0xFC
        if at < 0x40:
            return
        head = pci_read(w, card, at)
        number, kind, following = head & 0xFF, head >> 24, head >> 8
        if number == 0x11:
            pci_write(w, card, at, head & 0x7FFF_FFFF)
        elif number == 0x09 and at <= 0xEC and 1 <= kind <= 4:
            row = nic.capabilities[kind]
            if row.length == 0:
                row.bar = pci_read(w, card, at + 4) & 0xFF
                row.offset = pci_read(w, card, at + 8)
                row.extra = pci_read(w, card, at + 16)
                row.length = pci_read(w, card, at + 12)
