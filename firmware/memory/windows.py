"""What the windows of the node's virtual memory hold."""

from firmware.layouts.boot import BootInfo, MemoryRegion, MemoryType
from firmware.layouts.memory import (
    DEVICE,
    FRESH,
    MEMORY,
    READ_WRITE,
    RECORD_PHYSICAL,
    TABLE_PDPT,
    TABLES,
    Memory,
)
from firmware.layouts.shard import ShardContext
from firmware.limits import (
    DMA_BYTES,
    FAULT_STACK_TOP,
    KEPT_PAGES,
    MMIO_BYTES,
    PAGE,
    RECORD_PAGE,
    RING_BYTES,
    TX_BYTES,
    WINDOW_DMA,
    WINDOW_MMIO,
    WINDOW_PAGE_TABLES,
    WORKSPACE_BASE,
    WORKSPACE_COLOURS,
    WORKSPACE_RING,
    WORKSPACE_STATE,
    WORKSPACE_STATE_BYTES,
    WORKSPACE_STRIDE,
    WORKSPACE_TX,
)
from firmware.memory.pages import map_entries, map_fresh, page_entry, page_map, pages_take
from toolchain.asm import (
    AE,
    CF,
    CR3,
    EAX,
    EBP,
    EBX,
    ECX,
    EDI,
    EDX,
    ESI,
    R8,
    R8D,
    R9,
    R10,
    R12,
    R12B,
    R12D,
    RAX,
    RBP,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    A,
    Asm,
    B,
    C,
    In,
    Out,
    Reg32,
    Reg64,
    Z,
    mem64,
    routine,
)


@routine(
    inputs=[
        In(RDI, int, "physical address, page-aligned; may lie above 4 GB"),
        In(ESI, int, "pages"),
    ],
    outputs=[Out(RAX, "virtual address; 0 = the window is full")],
    clobbers=[RCX, RDX, RSI, RDI, R8, R9],
    reads=[Memory.mmio_next],
    writes=[Memory.mmio_next],
    calls=[page_map],
    saves=[RBX, RBP],
    source="Intel SDM volume 3, 11.5.1 (memory types)",
)
def mmio_map(a: Asm, physical: Reg64, pages: Reg32) -> None:
    """Map a device's registers, not cached."""
    full = a.label("full")
    a.mov(RBX, MEMORY.it.mmio_next)
    a.mov(R8D, pages)
    a.shl(R8, 12)
    a.lea(R9, mem64(R8, index=RBX, ref=TABLES))
    a.cmp(R9, WINDOW_MMIO + MMIO_BYTES)
    a.j(A, full)
    a.mov(RBP, DEVICE)
    a.or_(RBP, physical)
    a.mov(MEMORY.it.mmio_next, R9)
    a.mov(R8, RBX)
    with a.loop() as each:
        a.cmp(R8, R9)
        a.leave(Z, each)
        a.mov(RDI, R8)
        a.mov(RSI, RBP)
        a.call(page_map)
        a.j(C, full)
        a.add(RBP, PAGE)
        a.add(R8, PAGE)
        a.jmp(each.top)
    a.mov(RAX, RBX)
    a.ret()
    a.place(full)
    a.xor(EAX, EAX)
    a.ret()


@routine(
    outputs=[Out(CF, "1 = no run is long enough")],
    clobbers=[RAX, RCX, RDX, RSI, RDI, R8, R9, R10],
    writes=[Memory.dma_physical, FRESH],
    calls=[pages_take, page_map],
    saves=[RBX, RBP],
    source="firmware/docs/boot.md#windows",
)
def dma_map(a: Asm) -> None:
    """Map WINDOW_DMA onto contiguous zeroed pages."""
    out = a.label("out")
    a.mov(ECX, DMA_BYTES // PAGE)
    a.call(pages_take)
    a.j(C, out)
    a.mov(MEMORY.it.dma_physical, RAX)
    a.mov(RBX, READ_WRITE)
    a.or_(RBX, RAX)
    a.mov(EBP, WINDOW_DMA)
    with a.loop() as each:
        a.mov(RDI, RBP)
        a.mov(RSI, RBX)
        a.call(page_map)
        a.j(C, out)
        a.add(RBX, PAGE)
        a.add(RBP, PAGE)
        a.cmp(RBP, WINDOW_DMA + DMA_BYTES)
        a.again(B, each)
    a.mov(EDI, WINDOW_DMA)
    a.mov(ECX, DMA_BYTES // 8)
    a.xor(EAX, EAX)
    a.rep_stosq()
    a.clc()
    a.place(out)
    a.ret()


@routine(
    inputs=[
        In(RDI, int, "virtual address in a window; twice as much does not cross 2 MB"),
        In(ESI, int, "pages, at least 1"),
    ],
    outputs=[Out(CF, "1 = no memory left")],
    clobbers=[RAX, RCX, RDX, RSI, RDI, R8, R9, R10],
    calls=[map_fresh, page_entry, page_map],
    saves=[RBX, RBP, R12],
    source="firmware/docs/boot.md#workspaces",
)
def map_twice(a: Asm, virtual: Reg64, pages: Reg32) -> None:
    """Map zeroed pages twice in a row, so that a run that begins in them goes on at their start."""
    out = a.label("out")
    a.mov(RBX, virtual)
    a.mov(R12D, pages)
    a.shl(R12, 12)
    a.call(map_fresh)
    a.j(C, out)
    a.lea(RBP, mem64(RBX, index=R12, ref=TABLES))
    with a.loop() as each:
        a.mov(RDI, RBX)
        a.call(page_entry)
        a.lea(RDI, mem64(RBX, index=R12, ref=TABLES))
        a.mov(RSI, RAX)
        a.call(page_map)  # cannot fail: the table is there
        a.add(RBX, PAGE)
        a.cmp(RBX, RBP)
        a.again(B, each)
    a.clc()
    a.place(out)
    a.ret()


@routine(
    inputs=[In(EDI, int, "slot, below SHARDS_MAX")],
    outputs=[Out(RAX, "ShardContext; 0 = no memory left"), Out(CF, "1 = no memory left")],
    clobbers=[RCX, RDX, RSI, RDI, R8, R9, R10],
    writes=[ShardContext.tx_base, ShardContext.ring_base, ShardContext.slot],
    calls=[map_fresh, map_twice],
    saves=[RBX, R12],
    source="firmware/docs/boot.md#workspaces",
)
def workspace_map(a: Asm, slot: Reg32) -> None:
    """Map the ten pages of a shard, the ring twice in a row, guard pages between; place its head."""
    out = a.label("out")
    shard = ShardContext.at(RAX)
    a.mov(R12D, slot)
    a.imul(EBX, slot, WORKSPACE_STRIDE)
    a.add(EBX, WORKSPACE_BASE)
    for offset, size in (
        (WORKSPACE_STATE, WORKSPACE_STATE_BYTES),
        (WORKSPACE_TX, TX_BYTES),
    ):  # fmt: skip - two parts, unrolled
        a.lea(EDI, mem64(RBX, offset, ref=TABLES))
        a.mov(ESI, size // PAGE)
        a.call(map_fresh)
        a.j(C, out)
    a.lea(EDI, mem64(RBX, WORKSPACE_RING, ref=TABLES))
    a.mov(ESI, RING_BYTES // PAGE)
    a.call(map_twice)
    a.j(C, out)
    # Heads start a cache line apart, so that the hot lines of all shards do not share one set.
    a.mov(EAX, R12D)
    a.and_(EAX, WORKSPACE_COLOURS - 1)
    a.shl(EAX, 6)
    a.lea(EAX, mem64(RBX, WORKSPACE_STATE, index=RAX, ref=TABLES))
    a.lea(ECX, mem64(RBX, WORKSPACE_TX, ref=TABLES))
    a.mov(shard.tx_base, RCX)
    a.lea(ECX, mem64(RBX, WORKSPACE_RING, ref=TABLES))
    a.mov(shard.ring_base, RCX)
    a.mov(shard.slot, R12B)
    a.clc()
    a.ret()
    a.place(out)
    a.xor(EAX, EAX)
    a.stc()
    a.ret()


@routine(
    clobbers=[RAX, RCX, RDX, RSI, RDI, R8, R9, R10],
    outputs=[Out(CF, "1 = no memory left")],
    reads=[BootInfo.region_count, MemoryRegion],
    writes=[Memory.record],
    calls=[map_fresh, page_map],
    saves=[RBX, RBP],
    source="firmware/docs/boot.md#crash-record",
)
def record_map(a: Asm) -> None:
    """Map the kept pages: their own when those are memory, so that a warm reset keeps them."""
    entry = MemoryRegion.at(RSI)
    other = a.label("other")
    a.xor(EDX, EDX)
    map_entries(a)
    with a.loop() as each:
        skip, usable = a.label("skip"), a.label("usable")
        a.sub(ECX, 1)
        a.leave(B, each)
        a.mov(RAX, entry.base)
        a.mov(R9, entry.length)
        a.add(R9, RAX)
        with a.if_(B):
            a.mov(R9, -1)
        a.cmp(entry.kind, MemoryType.USABLE)
        a.jz(usable)
        # What the boot program took is no obstacle: it took this page for us.
        a.cmp(entry.kind, MemoryType.OURS)
        a.jz(skip)
        a.cmp(RAX, RECORD_PHYSICAL + KEPT_PAGES * PAGE)
        a.j(AE, skip)
        a.cmp(R9, RECORD_PHYSICAL)
        a.j(A, other)
        a.jmp(skip)
        a.place(usable)
        a.cmp(RAX, RECORD_PHYSICAL)
        a.j(A, skip)
        a.cmp(R9, RECORD_PHYSICAL + KEPT_PAGES * PAGE)
        a.j(B, skip)
        a.mov(EDX, 1)
        a.place(skip)
        a.add(RSI, MemoryRegion.SIZE)
        a.jmp(each.top)
    a.test(EDX, EDX)
    a.jz(other)
    a.mov(EBX, RECORD_PAGE)
    a.mov(MEMORY.it.record, RBX)
    a.mov(RBP, READ_WRITE | RECORD_PHYSICAL)
    with a.loop() as each:
        a.mov(RDI, RBX)
        a.mov(RSI, RBP)
        a.call(page_map)
        a.leave(C, each)
        a.add(RBP, PAGE)
        a.add(EBX, PAGE)
        a.cmp(EBX, RECORD_PAGE + KEPT_PAGES * PAGE)
        a.again(B, each)
        a.clc()
    a.ret()
    a.place(other)
    a.mov(MEMORY.it.record, 0)
    a.mov(EDI, RECORD_PAGE)
    a.mov(ESI, KEPT_PAGES)
    a.jmp(map_fresh)


@routine(
    outputs=[Out(CF, "1 = no memory left")],
    clobbers=[RAX, RCX, RDX, RSI, RDI, R8, R9, R10],
    calls=[map_fresh],
    source="firmware/docs/boot.md#windows",
)
def fault_stacks_map(a: Asm) -> None:
    """Map the stacks of #DF and NMI, a page each, guard pages around them."""
    a.mov(EDI, FAULT_STACK_TOP - PAGE)
    a.mov(ESI, 1)
    a.call(map_fresh)
    with a.if_(C):
        a.ret()
    a.mov(EDI, FAULT_STACK_TOP - 3 * PAGE)
    a.mov(ESI, 1)
    a.jmp(map_fresh)


@routine(
    clobbers=[RAX],
    writes=[TABLES],
    source="Intel SDM volume 3, 4.10.4.1",
)
def low_unmap(a: Asm) -> None:
    """Take away the identity mapping that the boot program needed: address 0 faults from now on."""
    a.mov(EAX, WINDOW_PAGE_TABLES + TABLE_PDPT * PAGE)
    a.mov(mem64(RAX, ref=TABLES), 0)
    a.mov(RAX, CR3)
    a.mov(CR3, RAX)
    a.ret()
