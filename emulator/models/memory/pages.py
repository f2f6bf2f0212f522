"""Usable pages, and page tables."""

from collections.abc import Iterator

from emulator.effects import World, model
from firmware.layouts.boot import BOOT, MemoryType
from firmware.layouts.memory import (
    HIGHEST,
    LOWEST,
    MEMORY,
    READ_WRITE,
    RUNS_MAX,
    TABLE_PAGES,
    TABLE_WINDOWS,
    TABLES_USED_AT_BOOT,
    WINDOWS_BASE,
)
from firmware.limits import PAGE, WINDOW_MMIO, WINDOW_PAGE_TABLES

TABLE_BITS = 0b11
"""Present, writable; the entries below decide."""


def usable_runs(entries: list[tuple[int, int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the usable runs of a map of (base, length, kind): a set difference of page intervals."""
    usable, reserved = [], []
    for base, length, kind in entries:
        end = base + length
        if kind == MemoryType.USABLE:
            usable.append((-(-base // PAGE), min(end, HIGHEST) // PAGE))
        elif length:
            reserved.append((base // PAGE, -(-end // PAGE)))
    cuts = {LOWEST // PAGE, HIGHEST // PAGE}
    cuts |= {
        p for pair in (*usable, *reserved) for p in pair if LOWEST // PAGE < p < HIGHEST // PAGE
    }
    marks = sorted(cuts)
    start = None
    for low, high in zip(marks, [*marks[1:], None], strict=True):
        free = (
            high is not None
            and any(a <= low and high <= b for a, b in usable)
            and not any(a < high and low < b for a, b in reserved)
        )
        if free and start is None:
            start = low
        if not free and start is not None:
            yield start * PAGE, low * PAGE
            start = None


@model
def memory_init(w: World) -> None:
    """The first RUNS_MAX usable runs at or above 1 MB; nothing taken yet."""
    boot, memory = w.g(BOOT), w.g(MEMORY)
    entries = []
    for n in range(boot.region_count):
        region = boot.regions[n]
        entries.append((region.base, region.length, region.kind))
    memory.tables_physical = boot.tables
    memory.tables_used = TABLES_USED_AT_BOOT
    memory.mmio_next = WINDOW_MMIO
    runs = [run for _, run in zip(range(RUNS_MAX), usable_runs(entries), strict=False)]
    for n, (start, end) in enumerate(runs):
        memory.runs[n].next = start
        memory.runs[n].end = end
    memory.run_count = len(runs)
    pages = sum(end - start for start, end in runs) // PAGE
    memory.free_pages = pages
    memory.total_pages = pages


@model
def pages_take(w: World, pages: int) -> tuple[int, int]:
    """First fit, from the front of a run."""
    memory = w.g(MEMORY)
    for n in range(memory.run_count):
        run = memory.runs[n]
        address = run.next
        if run.end - address >= pages * PAGE:
            run.next += pages * PAGE
            memory.free_pages -= pages
            return address, 0
    return 0, 1


def _table(w: World, virtual: int) -> tuple[int, int]:
    """Return the address of the directory entry of a virtual address, and its contents."""
    at = WINDOW_PAGE_TABLES + TABLE_WINDOWS * PAGE + (virtual - WINDOWS_BASE) // (512 * PAGE) * 8
    return at, w.u64(at)


def _place(w: World, table: int, virtual: int) -> int:
    """Return the address of a page's entry in a table given by its directory entry."""
    offset = (table & -PAGE) - int(w.g(MEMORY).tables_physical)
    return WINDOW_PAGE_TABLES + offset + virtual // PAGE % 512 * 8


@model
def page_map(w: World, virtual: int, entry: int) -> int:
    """Write the entry, after making its table when there was none."""
    memory = w.g(MEMORY)
    at, table = _table(w, virtual)
    if not table:
        if memory.tables_used >= TABLE_PAGES:
            return 1
        table = memory.tables_physical + memory.tables_used * PAGE | TABLE_BITS
        memory.tables_used += 1
        w.write(at, table.to_bytes(8, "little"))
    w.write(_place(w, table, virtual), entry.to_bytes(8, "little"))
    return 0


@model
def page_entry(w: World, virtual: int) -> int:
    """Return the page's entry."""
    return w.u64(_place(w, _table(w, virtual)[1], virtual))


@model
def map_fresh(w: World, virtual: int, pages: int) -> int:
    """Page after page: take, map, zero."""
    for n in range(pages):
        physical, none = pages_take(w, 1)
        if none or page_map(w, virtual + n * PAGE, READ_WRITE | physical):
            return 1
        w.write(virtual + n * PAGE, bytes(PAGE))
    return 0
