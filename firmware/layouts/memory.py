"""Physical pages, page tables, windows of the node's virtual memory."""

from __future__ import annotations

import enum

from toolchain.asm.operands import Region
from toolchain.layout import Global, Struct, array, ptr, u32, u64

RUNS_MAX = 32
"""Runs of usable memory that are kept; the rest is left alone."""
TABLE_PAGES = 32
"""Page-table pages, one run, set aside by the boot program."""
# The first ones are laid out by the boot program.
TABLE_PML4, TABLE_PDPT, TABLE_LOW, TABLE_WINDOWS, TABLE_IMAGE, TABLE_TABLES, TABLE_STACKS = range(7)
TABLES_USED_AT_BOOT = 7
LOWEST = 0x10_0000
"""No page below is ever handed out: BIOS data, and what the boot ROM left running."""
HIGHEST = 1 << 46
"""Memory above is left alone."""
RECORD_PHYSICAL = 0x20_0000
"""The kept pages, the crash record first: fixed, so that the next boot finds them."""
WINDOWS_BASE = 0x4000_0000
"""TABLE_WINDOWS maps the gigabyte from here."""


class PageBit(enum.IntFlag):
    """Bits of a page-table entry (Intel SDM volume 3, table 4-20)."""

    PRESENT = 1 << 0
    WRITE = 1 << 1
    WRITE_THROUGH = 1 << 3
    NO_CACHE = 1 << 4
    LARGE = 1 << 7
    NO_EXECUTE = 1 << 63


READ_WRITE = PageBit.PRESENT | PageBit.WRITE | PageBit.NO_EXECUTE
DEVICE = READ_WRITE | PageBit.NO_CACHE | PageBit.WRITE_THROUGH
ADDRESS_MASK = 0x000F_FFFF_FFFF_F000


class Run(Struct):
    """Usable pages in a row; pages are taken from the front."""

    SIZE = 0x10
    next = u64(0x00, "physical address of the first free page")
    end = u64(0x08, "physical address after the last page")


class Memory(Struct):
    """The page allocator and the windows."""

    SIZE = 0x240
    run_count = u32(0x00, "rows of runs")
    tables_used = u32(0x04, "pages of the table run in use")
    tables_physical = u64(0x08, "physical address of the table run")
    free_pages = u64(0x10, "pages that are still in runs")
    total_pages = u64(0x18, "pages that were in runs at boot")
    dma_physical = u64(0x20, "physical address of WINDOW_DMA; 0 before it is mapped")
    mmio_next = ptr(0x28, "next free address of WINDOW_MMIO")
    record = ptr(0x30, "RECORD_PAGE when the page keeps its contents over a warm reset; 0 = not")
    runs = array(0x40, Run, RUNS_MAX, "usable memory, ascending")


MEMORY = Global("memory", Memory, "the page allocator and the windows")
TABLES = Region("the page tables", "TABLE_PAGES pages at WINDOW_PAGE_TABLES")
FRESH = Region("a page just mapped", "zeroed before anybody else sees it")
