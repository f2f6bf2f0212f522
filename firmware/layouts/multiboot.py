"""The Multiboot 1 structures that the direct boot uses (Multiboot specification 0.6.96, chapter 3)."""

from __future__ import annotations

from toolchain.asm.operands import Region
from toolchain.layout import Struct, u32

HEADER_MAGIC, LOADER_MAGIC = 0x1BAD_B002, 0x2BAD_B002
HEADER_FLAGS = 1 << 16 | 1 << 1
"""The header gives addresses (no ELF); the loader must give memory information."""
FLAG_MEMORY_MAP = 1 << 6
HEADER_BYTES = 32


class MultibootInfo(Struct):
    """The parts of the loader's information that are read."""

    SIZE = 0x34
    flags = u32(0x00, "which fields are valid")
    map_length = u32(0x2C, "bytes of the memory map")
    map_address = u32(0x30, "physical address of the memory map")


MAP = Region("the loader's memory map", "entries of a size that each one tells")
MAP_BASE, MAP_LENGTH, MAP_KIND = 4, 12, 20
"""Offsets in an entry; the quadwords are not aligned."""
