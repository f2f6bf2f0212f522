"""The PXE 2.1 structures that the boot program reads (PXE specification 2.1, chapters 3 and 4)."""

from __future__ import annotations

from toolchain.asm.operands import Region
from toolchain.layout import Struct, u16

# PXENV+ at ES:BX; it and !PXE are packed structs that lie wherever the boot ROM put them.
PXENV = Region("PXENV+", "at ES:BX on entry (PXE 2.1, 4.4.5.1)")
PXENV_SIGNATURE, PXENV_SIGNATURE_END = b"PXEN", b"V+"
PXENV_VERSION, PXENV_ENTRY, PXENV_PXE = 0x06, 0x0A, 0x28
PXENV_VERSION_WITH_PXE = 0x0201
BANG_PXE = Region("!PXE", "the structure that PXENV+ names (PXE 2.1, 4.4.5.2)")
BANG_PXE_SIGNATURE, BANG_PXE_ENTRY = b"!PXE", 0x10

GET_CACHED_INFO, UNDI_GET_NIC_TYPE = 0x71, 0x12
UNDI_SHUTDOWN, UNLOAD_STACK, STOP_UNDI = 0x05, 0x70, 0x15
PACKET_DHCP_ACK = 2
NIC_TYPE_PNP = 1
BLOCK_BYTES = 64


class CachedInfo(Struct):
    """Parameters of PXENV_GET_CACHED_INFO (3.3.6)."""

    SIZE = 0x0C
    status = u16(0x00, "0 = done")
    packet = u16(0x02, "which packet")
    size = u16(0x04, "bytes")
    offset = u16(0x06, "where the ROM keeps it: offset")
    segment = u16(0x08, "where the ROM keeps it: segment")
    limit = u16(0x0A, "room in the ROM's buffer")


NIC_TYPE, NIC_IDENTITY, NIC_FUNCTION = 0x02, 0x03, 0x0B
"""Offsets in the parameters of PXENV_UNDI_GET_NIC_TYPE (3.6.15), which are packed."""
