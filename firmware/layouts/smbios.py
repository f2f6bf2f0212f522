"""What the machine's own firmware says of it (SMBIOS, DMTF DSP0134): UUID and serial number."""

from __future__ import annotations

import enum

from toolchain.asm import Region
from toolchain.layout import Global, Struct, bytes_, enum8, u8, u16

SMBIOS_AREA, SMBIOS_AREA_BYTES = 0xF_0000, 0x1_0000
"""Where an entry point may lie, on 16 bytes (DSP0134 5.2)."""
ENTRY_BYTES = 32
"""What is looked at of an entry point; either form is shorter."""
TABLE_BYTES_MAX = 0xFFFF
"""Of a longer table, which a 64-bit entry point may have, the start is looked at."""
STRUCTURE_HEAD_BYTES = 4
SYSTEM_INFORMATION, END_OF_TABLE = 1, 127
SYSTEM_SERIAL, SYSTEM_UUID = 7, 8
UUID_BYTES = 16
SYSTEM_BYTES_MIN = SYSTEM_UUID + UUID_BYTES
"""Structures of SMBIOS 2.0 are shorter and have no UUID (7.2)."""
UUID_LITTLE_ENDIAN_VERSION = 2 << 8 | 6
"""From this version on the first three fields of a UUID are little-endian (7.2.1)."""
SERIAL_MAX = 64

SMBIOS_ENTRY = Region("the SMBIOS area", "SMBIOS_AREA_BYTES, mapped by mmio_map")
SMBIOS_TABLE = Region("the SMBIOS structure table", "as long as its entry point says")


class SmbiosEntry(enum.IntEnum):
    """Which entry point was found."""

    NONE = 0
    BITS32 = 1
    BITS64 = 2


class Smbios(Struct):
    """The machine's identity. Whoever controls the machine can forge it."""

    SIZE = 0x60
    uuid = bytes_(0x00, UUID_BYTES, "in the order in which it is written; zeros = not known")
    serial = bytes_(0x10, SERIAL_MAX, "printable ASCII without spaces; `_` stands for the rest")
    serial_len = u8(0x50, "bytes; 0 = not known")
    entry = enum8(0x51, SmbiosEntry, "which entry point was found")
    version = u16(0x52, "major << 8 | minor")


SMBIOS = Global("smbios", Smbios, "what the machine says it is", align=64)
