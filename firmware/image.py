"""Which routines and sections make an image, and how it is packed for each way to boot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firmware.boot.entry import node_entry
from firmware.boot.multiboot import MULTIBOOT_HEADER, header, multiboot_entry
from firmware.boot.pxe import nbp_entry
from firmware.layouts.config import CONFIG
from firmware.layouts.fleet_config import FLEET_CONFIG
from firmware.layouts.trust import TRUST_STORE
from firmware.limits import BIOS_LIMIT_BYTES, IMAGE_BASE, NBP_ADDRESS, PAGE
from firmware.shard.tick import shards_tick
from toolchain.link import Image, Linker, LinkError, SectionPlan
from toolchain.link.flat import flat

if TYPE_CHECKING:
    from toolchain.asm import Routine
    from toolchain.layout import Data

DIRECT_ADDRESS = 0x10_0000
WINDOW_BYTES = 2 << 20
"""One page table maps the image (see firmware/boot/paging.py)."""


ALWAYS = (shards_tick,)
"""Emitted though the scheduler calls the one-shard tick: the sweep of all active shards (seed A)."""


def _plan(address: int, bits: int) -> tuple[SectionPlan, ...]:
    return (
        SectionPlan(".boot", address, executable=True, writable=True, bits=bits),
        SectionPlan(".text", IMAGE_BASE, executable=True),
        SectionPlan(".rodata", align=PAGE),
        SectionPlan(".data", align=PAGE, writable=True),
        SectionPlan(".bss", align=PAGE, writable=True),
        SectionPlan(".trust", align=PAGE),
    )


def pack(image: Image) -> bytes:
    """Return the file: .boot, then the 64-bit sections at the next page, the trust store last.

    Raises:
        LinkError: The 64-bit part is larger than one page table maps.
    """
    # A store that the file has room for is mapped, too: it comes in later, and is not looked at here.
    size = image.section(".trust").address + BIOS_LIMIT_BYTES - IMAGE_BASE
    if size > WINDOW_BYTES:
        raise LinkError(
            f"the image takes up to {size} bytes of address space; {WINDOW_BYTES} are mapped at boot",
            "make .bss smaller, or give the boot stage a second table",
        )
    return flat(image)


def _link(
    entry: Routine,
    plan: tuple[SectionPlan, ...],
    keep: tuple[Data, ...],
    replace: dict[str, Routine] | None,
    overrides: dict[str, bytes],
) -> Image:
    roots = (entry, node_entry, *ALWAYS)
    kept = (*keep, CONFIG, FLEET_CONFIG, TRUST_STORE)
    return Linker(roots, plan, overrides, kept, replace or {}).link()


def link_bios(
    replace: dict[str, Routine] | None = None, overrides: dict[str, bytes] | None = None
) -> tuple[Image, bytes]:
    """Return the image that a PXE boot ROM loads, and its file.

    Args:
        replace: Routines by name to link in place of others; for test images.
        overrides: Contents of data by symbol.
    """
    image = _link(nbp_entry, _plan(NBP_ADDRESS, 16), (), replace, overrides or {})
    return image, pack(image)


def link_direct(
    replace: dict[str, Routine] | None = None, overrides: dict[str, bytes] | None = None
) -> tuple[Image, bytes]:
    """Return the image for a multiboot loader, and its file.

    Args:
        replace: Routines by name to link in place of others; for test images.
        overrides: Contents of data by symbol.
    """
    keep, plan, contents = (MULTIBOOT_HEADER,), _plan(DIRECT_ADDRESS, 32), overrides or {}
    # The header holds addresses that only a first pass tells; the second changes no size.
    image = _link(multiboot_entry, plan, keep, replace, contents)
    at, entry = image.address(MULTIBOOT_HEADER), image.address(multiboot_entry)
    contents = contents | {MULTIBOOT_HEADER.name: header(at, DIRECT_ADDRESS, entry)}
    image = _link(multiboot_entry, plan, keep, replace, contents)
    return image, pack(image)
