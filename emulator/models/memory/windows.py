"""What the windows of the node's virtual memory hold."""

from emulator.effects import World, model
from emulator.models.memory.pages import map_fresh, page_entry, page_map, pages_take
from firmware import limits
from firmware.layouts.boot import BOOT, MemoryType
from firmware.layouts.memory import DEVICE, MEMORY, READ_WRITE, RECORD_PHYSICAL, TABLE_PDPT
from firmware.layouts.shard import ShardContext
from firmware.limits import PAGE


@model
def mmio_map(w: World, physical: int, pages: int) -> int:
    """The next addresses of the window, uncached; 0 when they do not fit."""
    memory = w.g(MEMORY)
    start = int(memory.mmio_next)
    end = start + pages * PAGE
    if end > limits.WINDOW_MMIO + limits.MMIO_BYTES:
        return 0
    memory.mmio_next = end
    for n in range(pages):
        if page_map(w, start + n * PAGE, DEVICE | physical + n * PAGE):
            return 0
    return start


@model
def dma_map(w: World) -> int:
    """Contiguous pages behind the whole window, zeroed."""
    physical, none = pages_take(w, limits.DMA_BYTES // PAGE)
    if none:
        return 1
    w.g(MEMORY).dma_physical = physical
    for offset in range(0, limits.DMA_BYTES, PAGE):
        if page_map(w, limits.WINDOW_DMA + offset, READ_WRITE | physical + offset):
            return 1
    w.write(limits.WINDOW_DMA, bytes(limits.DMA_BYTES))
    return 0


@model
def map_twice(w: World, virtual: int, pages: int) -> int:
    """Fresh pages, and the same entries again behind them."""
    if map_fresh(w, virtual, pages):
        return 1
    for page in range(virtual, virtual + pages * PAGE, PAGE):
        page_map(w, page + pages * PAGE, page_entry(w, page))
    return 0


@model
def workspace_map(w: World, slot: int) -> tuple[int, int]:
    """Ten pages; the ring's five appear twice in a row; the head starts at the slot's colour."""
    base = limits.WORKSPACE_BASE + slot * limits.WORKSPACE_STRIDE
    state, tx, ring = (
        base + offset
        for offset in (limits.WORKSPACE_STATE, limits.WORKSPACE_TX, limits.WORKSPACE_RING)
    )
    for part, size in (
        (state, limits.WORKSPACE_STATE_BYTES),
        (tx, limits.TX_BYTES),
    ):
        if map_fresh(w, part, size // PAGE):
            return 0, 1
    if map_twice(w, ring, limits.RING_BYTES // PAGE):
        return 0, 1
    address = state + slot % limits.WORKSPACE_COLOURS * 64
    shard = w.view(ShardContext, address)
    shard.tx_base, shard.ring_base, shard.slot = tx, ring, slot
    return address, 0


@model
def record_map(w: World) -> int:
    """The fixed pages when they are memory and nobody else's; else any, without a memory."""
    boot, memory = w.g(BOOT), w.g(MEMORY)
    here = range(RECORD_PHYSICAL, RECORD_PHYSICAL + limits.KEPT_PAGES * PAGE)
    inside = foreign = False
    for n in range(boot.region_count):
        region = boot.regions[n]
        first, end = region.base, min(region.base + region.length, 2**64 - 1)
        if region.kind == MemoryType.USABLE:
            inside |= first <= here.start and here.stop <= end
        elif region.kind != MemoryType.OURS:
            foreign |= first < here.stop and here.start < end
    if inside and not foreign:
        memory.record = limits.RECORD_PAGE
        pages = range(0, limits.KEPT_PAGES * PAGE, PAGE)
        return int(
            any(
                page_map(w, limits.RECORD_PAGE + at, READ_WRITE | RECORD_PHYSICAL + at)
                for at in pages
            )
        )
    memory.record = 0
    return map_fresh(w, limits.RECORD_PAGE, limits.KEPT_PAGES)


@model
def fault_stacks_map(w: World) -> int:
    """One page for #DF, one for NMI, an unmapped page between."""
    if map_fresh(w, limits.FAULT_STACK_TOP - PAGE, 1):
        return 1
    return map_fresh(w, limits.FAULT_STACK_TOP - 3 * PAGE, 1)


@model
def low_unmap(w: World) -> None:
    """The first gigabyte is gone from the page tables."""
    w.write(limits.WINDOW_PAGE_TABLES + TABLE_PDPT * PAGE, bytes(8))
