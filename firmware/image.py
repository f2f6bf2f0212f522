"""Which routines and sections make an image, and how it is packed for each way to boot."""

from __future__ import annotations

from firmware.boot.entry import node_entry
from firmware.boot.multiboot import MULTIBOOT_HEADER, header, multiboot_entry
from firmware.boot.pxe import nbp_entry
from firmware.layouts.config import CONFIG
from firmware.limits import IMAGE_BASE, NBP_ADDRESS, PAGE
from toolchain.link import Image, Linker, SectionPlan

DIRECT_ADDRESS = 0x10_0000


def _plan(address: int, bits: int) -> tuple[SectionPlan, ...]:
    return (
        SectionPlan(".boot", address, executable=True, writable=True, bits=bits),
        SectionPlan(".text", IMAGE_BASE, executable=True),
        SectionPlan(".rodata", align=PAGE),
        SectionPlan(".data", align=PAGE, writable=True),
        SectionPlan(".bss", align=PAGE, writable=True),
    )


def pack(image: Image) -> bytes:
    """Return the file: .boot, then the 64-bit sections at the next page."""
    boot = image.section(".boot")
    end = -(-boot.end // PAGE) * PAGE
    packed = bytearray(boot.contents + bytes(end - boot.end))
    base = image.section(".text").address
    for name in (".text", ".rodata", ".data"):
        section = image.section(name)
        packed += bytes(end - boot.address + section.address - base - len(packed))
        packed += section.contents
    packed += bytes(-(boot.address + len(packed)) % PAGE)
    return bytes(packed)


def link_bios() -> tuple[Image, bytes]:
    """Return the image that a PXE boot ROM loads, and its file."""
    image = Linker((nbp_entry, node_entry), _plan(NBP_ADDRESS, 16), keep=(CONFIG,)).link()
    return image, pack(image)


def link_direct() -> tuple[Image, bytes]:
    """Return the image for a multiboot loader, and its file."""
    keep = (MULTIBOOT_HEADER, CONFIG)
    roots, plan = (multiboot_entry, node_entry), _plan(DIRECT_ADDRESS, 32)
    image = Linker(roots, plan, keep=keep).link()
    size = len(pack(image))
    contents = header(
        image.address(MULTIBOOT_HEADER),
        DIRECT_ADDRESS,
        DIRECT_ADDRESS + size,
        image.address(multiboot_entry),
    )
    image = Linker(roots, plan, {MULTIBOOT_HEADER.name: contents}, keep=keep).link()
    return image, pack(image)
