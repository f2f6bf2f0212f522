"""Device, DMA, workspace, record and fault-stack windows."""

import pytest

from emulator.memory import Region
from firmware.layouts.boot import MemoryType
from firmware.layouts.memory import MEMORY, RECORD_PHYSICAL, TABLE_PAGES, TABLE_PDPT, PageBit
from firmware.layouts.shard import ShardContext
from firmware.limits import (
    DMA_BYTES,
    FAULT_STACK_TOP,
    KEPT_PAGES,
    MMIO_BYTES,
    PAGE,
    RECORD_PAGE,
    RING_BYTES,
    WINDOW_DMA,
    WINDOW_MMIO,
    WINDOW_PAGE_TABLES,
    WORKSPACE_BASE,
    WORKSPACE_RING,
    WORKSPACE_STRIDE,
)
from firmware.memory import (
    dma_map,
    fault_stacks_map,
    low_unmap,
    mmio_map,
    record_map,
    workspace_map,
)
from tests.support.lab import Lab
from tests.support.pages import ready, reserved, set_map, tables_region, usable, walk

LAB = Lab(
    mmio_map, dma_map, workspace_map, record_map, fault_stacks_map, low_unmap,
    slots=3,
    extra=[
        tables_region(),
        Region("record", RECORD_PAGE, KEPT_PAGES * PAGE),
        Region("fault stacks", FAULT_STACK_TOP - 3 * PAGE, 3 * PAGE),
    ],
)  # fmt: skip
RW = PageBit.PRESENT | PageBit.WRITE | PageBit.NO_EXECUTE
ROOM = (0x10_0000, 0x80_0000)
KEPT_END = RECORD_PHYSICAL + KEPT_PAGES * PAGE


def test_mmio_map_is_uncached_and_may_lie_above_4_gb():
    ready(LAB)
    bits = RW | PageBit.NO_CACHE | PageBit.WRITE_THROUGH
    first = LAB.call(mmio_map, physical=0x70_0000_0000, pages=2).outputs["rax"]
    second = LAB.call(mmio_map, physical=0xFEE0_0000, pages=1).outputs["rax"]
    assert (first, second) == (WINDOW_MMIO, WINDOW_MMIO + 2 * PAGE)
    assert walk(LAB, first + PAGE) == 0x70_0000_1000 | bits
    assert walk(LAB, second) == 0xFEE0_0000 | bits


def test_mmio_map_full_window_refuses_and_keeps_the_rest():
    ready(LAB)
    memory = LAB.g(MEMORY)
    pages = MMIO_BYTES // PAGE
    assert LAB.call(mmio_map, physical=0, pages=pages + 1).outputs["rax"] == 0
    assert LAB.call(mmio_map, physical=0, pages=0xFFFF_FFFF).outputs["rax"] == 0
    assert memory.mmio_next == WINDOW_MMIO
    memory.mmio_next = WINDOW_MMIO + MMIO_BYTES - PAGE
    assert LAB.call(mmio_map, physical=0, pages=1).outputs["rax"] == WINDOW_MMIO + MMIO_BYTES - PAGE
    assert LAB.call(mmio_map, physical=0, pages=1).outputs["rax"] == 0


def test_mmio_map_without_tables_refuses():
    ready(LAB)
    LAB.g(MEMORY).tables_used = TABLE_PAGES
    assert LAB.call(mmio_map, physical=0, pages=1).outputs["rax"] == 0


def test_dma_map_is_contiguous_and_zero():
    ready(LAB, (0x10_0000, 0x11_0000), (0x20_0000, 0x40_0000))
    assert LAB.call(dma_map).outputs["cf"] == 0
    assert LAB.g(MEMORY).dma_physical == 0x20_0000
    assert LAB.machine.read(WINDOW_DMA, DMA_BYTES) == bytes(DMA_BYTES)
    for offset in range(0, DMA_BYTES, PAGE):
        assert walk(LAB, WINDOW_DMA + offset) == 0x20_0000 + offset | RW


def test_dma_map_refuses_without_a_run_or_a_table():
    ready(LAB, (0x10_0000, 0x1F_F000))
    assert LAB.call(dma_map).outputs["cf"] == 1
    ready(LAB, ROOM)
    LAB.g(MEMORY).tables_used = TABLE_PAGES
    assert LAB.call(dma_map).outputs["cf"] == 1


def test_workspace_map_ten_pages_ring_twice_guards_between():
    ready(LAB, ROOM)
    LAB.reset()
    ready(LAB, ROOM)
    got = LAB.call(workspace_map, slot=2).outputs
    base = WORKSPACE_BASE + 2 * WORKSPACE_STRIDE
    assert (got["rax"], got["cf"]) == (base + 0x1000 + 2 * 64, 0)
    shard = LAB.view(ShardContext, got["rax"])
    assert (shard.tx_base, shard.ring_base, shard.slot) == (base + 0x5000, base + 0x8000, 2)
    pages = [offset for offset in range(0, WORKSPACE_STRIDE, PAGE) if walk(LAB, base + offset)]
    assert pages == [0x1000, 0x2000, 0x3000, 0x5000, 0x6000, *range(0x8000, 0x12000, PAGE)]
    for offset in range(0, RING_BYTES, PAGE):
        ring = base + WORKSPACE_RING + offset
        assert walk(LAB, ring) == walk(LAB, ring + RING_BYTES) != 0
    physical = {walk(LAB, base + offset) for offset in pages}
    assert len(physical) == 10


@pytest.mark.parametrize("pages", [2, 4, 9])
def test_workspace_map_out_of_memory_refuses(pages):
    ready(LAB, (0x10_0000, 0x10_0000 + pages * PAGE))
    got = LAB.call(workspace_map, slot=0).outputs
    assert (got["rax"], got["cf"]) == (0, 1)


def test_workspace_map_slot_whose_mirror_needs_a_missing_table_refuses():
    # Slot 0 is 120 KB into its 2 MB, so the mirror shares the table: no way to run out there.
    ready(LAB, ROOM)
    LAB.g(MEMORY).tables_used = TABLE_PAGES - 1
    assert LAB.call(workspace_map, slot=1).outputs["cf"] == 0


@pytest.mark.parametrize(
    ("entries", "kept"),
    [
        ((usable(0x10_0000, 0x80_0000),), True),
        ((usable(RECORD_PHYSICAL, KEPT_END),), True),
        ((reserved(RECORD_PHYSICAL, KEPT_END, MemoryType.OURS), usable(0, 2**32)), True),
        ((usable(0, 2**32), reserved(RECORD_PHYSICAL - PAGE, RECORD_PHYSICAL)), True),
        ((usable(0, 2**32), reserved(KEPT_END, KEPT_END + PAGE)), True),
        ((usable(0, 2**32), reserved(KEPT_END - 1, KEPT_END)), False),
        ((usable(0, 2**32), reserved(0, RECORD_PHYSICAL + 1)), False),
        ((usable(0, 2**32), (0, 2**64 - 1, 2)), False),
        ((usable(0, 2**32), (PAGE, 2**64 - 1, 2)), False),
        ((usable(0, 2**32), (2**63, PAGE, 2)), True),
        ((usable(RECORD_PHYSICAL + 1, 2**32),), False),
        ((usable(0, KEPT_END - 1),), False),
        ((), False),
    ],
)  # fmt: skip
def test_record_map_uses_its_own_page_when_that_is_memory(entries, kept):
    ready(LAB, ROOM)
    set_map(LAB, *entries)
    assert LAB.call(record_map).outputs["cf"] == 0
    assert LAB.g(MEMORY).record == (RECORD_PAGE if kept else 0)
    for offset in (0, (KEPT_PAGES - 1) * PAGE):
        assert (
            walk(LAB, RECORD_PAGE + offset) == (RECORD_PHYSICAL if kept else ROOM[0]) + offset | RW
        )


def test_record_map_without_a_table_refuses():
    ready(LAB, ROOM)
    set_map(LAB, usable(0, 2**32))
    LAB.g(MEMORY).tables_used = TABLE_PAGES
    assert LAB.call(record_map).outputs["cf"] == 1


def test_fault_stacks_map_has_guards():
    ready(LAB, ROOM)
    assert LAB.call(fault_stacks_map).outputs["cf"] == 0
    mapped = [n for n in range(6) if walk(LAB, FAULT_STACK_TOP - n * PAGE)]
    assert mapped == [1, 3]
    ready(LAB)
    assert LAB.call(fault_stacks_map).outputs["cf"] == 1


def test_low_unmap_removes_the_first_gigabyte():
    ready(LAB)
    at = WINDOW_PAGE_TABLES + TABLE_PDPT * PAGE
    LAB.machine.write(at, (0x1234_5003).to_bytes(8, "little") * 2)
    LAB.call(low_unmap)
    assert LAB.machine.read(at, 16) == bytes(8) + (0x1234_5003).to_bytes(8, "little")
