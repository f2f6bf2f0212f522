"""What the 16- and 32-bit stages share: segments, the way to name low memory, failing."""

from firmware.layouts.boot import BOOT_INFO_ADDRESS, LOW_BOOT, BootInfo
from firmware.limits import NBP_ADDRESS
from toolchain.asm import Mem8, Mem16, Mem32, mem8, mem16, mem32
from toolchain.asm.registers import EAX, EBP, EBX, ECX, EDI, EDX, ESI, Convention
from toolchain.layout import Data
from toolchain.layout.fields import Field

SELECTOR_CODE32, SELECTOR_DATA, SELECTOR_CODE64 = 0x08, 0x10, 0x18
DESCRIPTORS = (0, 0x00CF_9A00_0000_FFFF, 0x00CF_9200_0000_FFFF, 0x00AF_9A00_0000_FFFF)
"""Null, flat 32-bit code, flat data, 64-bit code (Intel SDM volume 3, 3.4.5)."""
LOW_STACK = NBP_ADDRESS
"""The stack of the 32-bit stage grows down from here."""
EVERYTHING = Convention((EAX, EBX, ECX, EDX, ESI, EDI, EBP))
"""What a call of firmware may change."""

BOOT_GDT = Data(
    "boot_gdt",
    8 * len(DESCRIPTORS),
    b"".join(d.to_bytes(8, "little") for d in DESCRIPTORS),
    section=".boot",
    doc="descriptors until the node has its own",
)
BOOT_GDTR = Data("boot_gdtr", 6, bytes(6), section=".boot", doc="limit and address of boot_gdt")


def low8(field: Field, extra: int = 0) -> Mem8[int]:
    """Return a byte of the boot program's BootInfo."""
    return mem8(None, BOOT_INFO_ADDRESS + field.offset + extra, ref=LOW_BOOT)


def low16(field: Field, extra: int = 0) -> Mem16[int]:
    """Return a word of the boot program's BootInfo."""
    return mem16(None, BOOT_INFO_ADDRESS + field.offset + extra, ref=LOW_BOOT)


def low32(field: Field, extra: int = 0) -> Mem32[int]:
    """Return a doubleword of the boot program's BootInfo."""
    return mem32(None, BOOT_INFO_ADDRESS + field.offset + extra, ref=LOW_BOOT)


REGIONS = BOOT_INFO_ADDRESS + BootInfo.regions.offset
"""Physical address of the memory map."""
__all__ = [
    "BOOT_GDT", "BOOT_GDTR", "EVERYTHING", "LOW_STACK", "REGIONS", "SELECTOR_CODE32",
    "SELECTOR_CODE64", "SELECTOR_DATA", "low8", "low16", "low32",
]  # fmt: skip
