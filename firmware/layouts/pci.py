"""PCI configuration space: ports, registers, bits."""

from __future__ import annotations

import enum

ADDRESS_PORT, DATA_PORT = 0xCF8, 0xCFC


class PciRegister(enum.IntEnum):
    """Offsets of the registers that the node uses (PCI Local Bus 3.0, 6.1)."""

    IDENTITY = 0x00
    COMMAND = 0x04
    CLASS = 0x08
    HEADER = 0x0C
    BAR0 = 0x10
    BUSES = 0x18
    """Of a bridge: the buses before, behind and farthest behind it, a byte each."""
    INTERRUPT = 0x3C


class PciCommand(enum.IntFlag):
    """Bits of the command register."""

    IO = 1 << 0
    MEMORY = 1 << 1
    BUS_MASTER = 1 << 2
    NO_INTX = 1 << 10


MULTI_FUNCTION = 1 << 23
"""In the dword at HEADER: the device has more functions than 0."""
HEADER_TYPE, HEADER_BRIDGE = 0x7F << 16, 1 << 16
"""In the same dword: the function is a bridge to another bus."""
BUS_FUNCTIONS = 32 * 8
BAR_IO, BAR_64 = 1 << 0, 1 << 2
BARS = 6
FUNCTIONS = 256 * BUS_FUNCTIONS
NO_FUNCTION = 0xFFFF_FFFF
VIRTIO_NET_TRANSITIONAL, VIRTIO_NET_MODERN = 0x1000_1AF4, 0x1041_1AF4
VIRTIO_RNG_TRANSITIONAL, VIRTIO_RNG_MODERN = 0x1005_1AF4, 0x1044_1AF4
I6300ESB = 0x25AB_8086
