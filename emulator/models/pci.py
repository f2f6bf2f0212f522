"""PCI configuration space."""

from emulator.effects import World, model
from firmware.layouts import pci
from firmware.layouts.pci import PciRegister


@model
def pci_read(w: World, function: int, offset: int) -> int:
    """Configuration mechanism #1: the address, then the data."""
    address = 1 << 31 | (function & 0xFFFF) << 8 | offset & 0xFC
    w.port_out(0xCF8, address, 4)
    return w.port_in(0xCFC, 4)


@model
def pci_write(w: World, function: int, offset: int, value: int) -> None:
    """Configuration mechanism #1: the address, then the data."""
    w.port_out(0xCF8, 1 << 31 | (function & 0xFFFF) << 8 | offset & 0xFC, 4)
    w.port_out(0xCFC, value, 4)


def _select(w: World, function: int, offset: int) -> int:
    """Select a register; return the port of the part at `offset`."""
    w.port_out(0xCF8, 1 << 31 | (function & 0xFFFF) << 8 | offset & 0xFC, 4)
    return 0xCFC + offset % 4


@model
def pci_read16(w: World, function: int, offset: int) -> int:
    """A word at its own port."""
    return w.port_in(_select(w, function, offset), 2)


@model
def pci_read8(w: World, function: int, offset: int) -> int:
    """A byte at its own port."""
    return w.port_in(_select(w, function, offset))


@model
def pci_write16(w: World, function: int, offset: int, value: int) -> None:
    """A word at its own port."""
    w.port_out(_select(w, function, offset), value, 2)


@model
def pci_write8(w: World, function: int, offset: int, value: int) -> None:
    """A byte at its own port."""
    w.port_out(_select(w, function, offset), value)


@model
def pci_command(w: World, function: int, set_bits: int, clear_bits: int) -> None:
    """Clear, then set; the status half gets zeros, which change nothing."""
    old = pci_read(w, function, PciRegister.COMMAND)
    new = (old & ~clear_bits | set_bits) & 0xFFFF
    pci_write(w, function, PciRegister.COMMAND, new)


@model
def pci_bar(w: World, function: int, number: int) -> tuple[int, int | None, int]:
    """I/O, 32-bit or 64-bit memory; zero means that nothing was assigned."""
    if number > 5:
        return 0, None, 1
    low = pci_read(w, function, PciRegister.BAR0 + 4 * number)
    if low & 1:
        base, kind = low & 0xFFFC, pci.BAR_IO
    elif low & 4:
        if number == 5:
            return 0, None, 1
        high = pci_read(w, function, PciRegister.BAR0 + 4 * number + 4)
        base, kind = high << 32 | low & ~15, pci.BAR_64
    else:
        base, kind = low & ~15, 0
    return (base, kind, 0) if base else (0, None, 1)


@model
def pci_find(w: World, first: int, second: int, limit: int) -> tuple[int, int]:
    """By bus, device, function; functions above 0 only of a multi-function device.

    A bridge tells the farthest bus behind it, which is looked at too.
    """
    device, end = 0, limit
    while 8 * device < end:
        count = number = 0
        while number <= count:
            function = device << 3 | number
            identity = pci_read(w, function, PciRegister.IDENTITY)
            if identity in (first, second):
                return function, 0
            if identity != 0xFFFF_FFFF:
                header = pci_read(w, function, PciRegister.HEADER)
                if header >> 16 & 0x7F == 1:
                    farthest = pci_read(w, function, PciRegister.BUSES) >> 16 & 0xFF
                    end = max(end, (farthest + 1) * 256)
                if header & pci.MULTI_FUNCTION:
                    count = 7
            number += 1
        device += 1
    return pci.NO_FUNCTION, 1
