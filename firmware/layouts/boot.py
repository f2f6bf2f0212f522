"""What the boot program hands to 64-bit code, and the structures that it hands it in."""

from __future__ import annotations

import enum

from toolchain.asm.operands import Region
from toolchain.layout import Global, Struct, array, be32, bytes_, enum8, u8, u16, u32, u64

BOOT_INFO_ADDRESS = 0x1000
"""Physical address of the boot program's BootInfo; 64-bit code copies it before low memory goes."""
REGIONS_MAX = 96
ACK_MAX = 1500
"""A DHCPACK fits in one Ethernet frame."""


class BootPath(enum.IntEnum):
    """How the image came into memory."""

    NONE = 0
    BIOS_PXE = 1
    DIRECT = 2


class MemoryType(enum.IntEnum):
    """Types of a memory region; every other value is reserved too."""

    USABLE = 1
    RESERVED = 2
    OURS = 0x5346
    """In use by the image, the page tables or the crash record."""


class MemoryRegion(Struct):
    """One entry of the memory map as INT 15h E820 gives it (ACPI 6.5, 15.1)."""

    SIZE = 0x18
    base = u64(0x00, "physical address")
    length = u64(0x08, "bytes")
    kind = u32(0x10, "MemoryType; anything but USABLE is reserved")
    attributes = u32(0x14, "bit 0 clear = the entry is to be ignored")


class BootInfo(Struct):
    """Facts of the boot, the same for every boot path."""

    SIZE = 0xF40
    entry_tsc = u64(0x00, "TSC at the first instruction")
    path = enum8(0x08, BootPath, "how the image came into memory")
    nic_known = u8(0x09, "1 = nic_function is the function that was booted from")
    ack_length = u16(0x0A, "bytes of ack; 0 = none")
    nic_function = u32(0x0C, "bus << 8 | device << 3 | function")
    nic_identity = u32(0x10, "device id << 16 | vendor id as the boot ROM tells it")
    region_count = u32(0x14, "entries of regions")
    tables = u32(0x18, "physical address of the page tables")
    image = u32(0x1C, "physical address of the 64-bit part of the image")
    pxe_status = u16(0x20, "status of the last PXE call that failed; 0 = none")
    mac = bytes_(0x24, 6, "address that the boot ROM used; zero = not known", align=2)
    rng_function = u32(0x2C, "virtio-rng, as nic_function; 0 = none: that is the host bridge")
    regions = array(0x40, MemoryRegion, REGIONS_MAX, "memory map, unsorted")
    ack = bytes_(0x940, ACK_MAX, "the cached DHCPACK, from its op byte on", align=4)


BOOT = Global("boot", BootInfo, "facts of the boot")
LOW_BOOT = Region("the boot program's BootInfo", "at BOOT_INFO_ADDRESS, below 1 MB, until copied")


class BootPacket(Struct):
    """The parts of a DHCP message that the boot needs (RFC 2131, 2)."""

    SIZE = 0xEC
    hardware_length = u8(0x02, "bytes of chaddr")
    your_address = be32(0x10, "yiaddr")
    hardware = bytes_(0x1C, 16, "chaddr", align=4)
