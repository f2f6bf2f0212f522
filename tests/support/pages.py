"""Page tables in the bench: a walk as the processor does it, and a machine with memory to give."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.memory import Region
from firmware.layouts.boot import BOOT, MemoryType
from firmware.layouts.memory import (
    ADDRESS_MASK,
    MEMORY,
    TABLE_PAGES,
    TABLE_PDPT,
    TABLE_WINDOWS,
    TABLES_USED_AT_BOOT,
    WINDOWS_BASE,
)
from firmware.limits import PAGE, WINDOW_MMIO, WINDOW_PAGE_TABLES

if TYPE_CHECKING:
    from tests.support.lab import Lab

TABLES_PHYSICAL = 0x7654_3000
MEGABYTE = 1 << 20


def tables_region() -> Region:
    """Return the memory behind WINDOW_PAGE_TABLES."""
    return Region("page tables", WINDOW_PAGE_TABLES, TABLE_PAGES * PAGE)


def set_map(lab: Lab, *entries: tuple[int, int, int]) -> None:
    """Give the node a memory map of (base, length, kind)."""
    boot = lab.g(BOOT)
    for n, (base, length, kind) in enumerate(entries):
        region = boot.regions[n]
        region.base, region.length, region.kind = base, length, kind
    boot.region_count, boot.tables = len(entries), TABLES_PHYSICAL


def ready(lab: Lab, *runs: tuple[int, int]) -> None:
    """Set the allocator up as `memory_init` does, with runs of (start, end); tables zeroed."""
    lab.machine.write(WINDOW_PAGE_TABLES, bytes(TABLE_PAGES * PAGE))
    memory = lab.g(MEMORY)
    memory.tables_physical, memory.tables_used = TABLES_PHYSICAL, TABLES_USED_AT_BOOT
    memory.mmio_next, memory.run_count = WINDOW_MMIO, len(runs)
    memory.dma_physical = memory.record = 0
    for n, (start, end) in enumerate(runs):
        memory.runs[n].next, memory.runs[n].end = start, end
    memory.free_pages = sum(end - start for start, end in runs) // PAGE


def walk(lab: Lab, virtual: int) -> int:
    """Return the page-table entry of an address, 0 when it is not mapped."""

    def entry(table: int, index: int) -> int:
        at = WINDOW_PAGE_TABLES + table * PAGE + 8 * index
        return int.from_bytes(lab.machine.read(at, 8), "little")

    directory = entry(TABLE_WINDOWS, (virtual - WINDOWS_BASE) >> 21)
    if not directory & 1:
        return 0
    table, rest = divmod((directory & ADDRESS_MASK) - TABLES_PHYSICAL, PAGE)
    assert rest == 0
    assert TABLE_PDPT < table < TABLE_PAGES
    return entry(table, virtual >> 12 & 511)


def usable(base: int, end: int) -> tuple[int, int, int]:
    """Return a usable entry of a memory map."""
    return base, end - base, MemoryType.USABLE


def reserved(base: int, end: int, kind: int = MemoryType.RESERVED) -> tuple[int, int, int]:
    """Return a reserved entry of a memory map."""
    return base, end - base, kind
