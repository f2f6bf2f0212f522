"""Usable pages, and page tables.

Pages are taken and never given back; all that the node needs is taken at boot.
"""

from firmware.layouts.boot import BOOT, BootInfo, MemoryRegion, MemoryType
from firmware.layouts.memory import (
    FRESH,
    HIGHEST,
    LOWEST,
    MEMORY,
    READ_WRITE,
    RUNS_MAX,
    TABLE_PAGES,
    TABLE_WINDOWS,
    TABLES,
    TABLES_USED_AT_BOOT,
    WINDOWS_BASE,
    Memory,
    PageBit,
    Run,
)
from firmware.limits import (
    PAGE,
    WINDOW_MMIO,
    WINDOW_PAGE_TABLES,
)
from toolchain.asm import (
    AE,
    BE,
    CF,
    EAX,
    EBP,
    EBX,
    ECX,
    EDX,
    ESI,
    NZ,
    R8,
    R8D,
    R9,
    R9D,
    R10,
    R10D,
    R11,
    R12,
    R12D,
    R13,
    R13D,
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


def map_entries(a: Asm) -> None:
    """RSI := the first entry of the map, ECX := how many there are."""
    a.lea(RSI, BOOT.it.regions.address)
    a.mov(ECX, BOOT.it.region_count)


@routine(
    clobbers=[RAX, RCX, RDX, RSI, RDI, R8, R9, R10, R11],
    saves=[RBX, RBP, R12, R13],
    reads=[BootInfo.region_count, BootInfo.tables, MemoryRegion],
    writes=[
        Memory.run_count, Memory.free_pages, Memory.total_pages, Memory.tables_physical,
        Memory.tables_used, Memory.mmio_next, Run.next, Run.end,
    ],
    source="firmware/docs/boot.md#memory-map",
)  # fmt: skip
def memory_init(a: Asm) -> None:
    """Make the list of usable runs: page-aligned inward, reserved wins, ascending, merged."""
    at, best, best_end, start, end, pages, count = R8, RDX, R10, RBX, RBP, R13, R12D
    low, high, highest = R9, RAX, RDI
    entry = MemoryRegion.at(RSI)
    scan, flush, last = a.label("scan"), a.label("flush"), a.label("last")

    a.mov(EAX, BOOT.it.tables)
    a.mov(MEMORY.it.tables_physical, RAX)
    a.mov(MEMORY.it.tables_used, TABLES_USED_AT_BOOT)
    a.mov(EAX, WINDOW_MMIO)
    a.mov(MEMORY.it.mmio_next, RAX)

    a.lea(R11, MEMORY.it.runs.address)
    a.xor(count, count)
    a.xor(R13D, R13D)
    # The run in hand; empty at first. `at` = where no decision has been made yet.
    a.xor(EBX, EBX)
    a.xor(EBP, EBP)
    a.mov(R8D, LOWEST)
    a.mov(highest, HIGHEST)

    # The lowest usable part from `at` on.
    a.place(scan)
    a.mov(best, -1)
    a.xor(R10D, R10D)
    map_entries(a)
    with a.loop() as usable:
        skip = a.label("skip")
        a.sub(ECX, 1)
        a.leave(B, usable)
        a.cmp(entry.kind, MemoryType.USABLE)
        a.j(NZ, skip)
        a.mov(low, entry.base)
        a.cmp(low, highest)
        a.j(AE, skip)
        a.mov(high, low)
        a.add(high, entry.length)
        a.cmov(B, high, highest)
        a.cmp(high, highest)
        a.cmov(A, high, highest)
        a.add(low, PAGE - 1)
        a.and_(low, -PAGE)
        a.and_(high, -PAGE)
        a.cmp(low, at)
        a.cmov(B, low, at)
        a.cmp(low, high)
        a.j(AE, skip)
        a.cmp(low, best)
        a.j(AE, skip)
        a.mov(best, low)
        a.mov(best_end, high)
        a.place(skip)
        a.add(RSI, MemoryRegion.SIZE)
        a.jmp(usable.top)
    a.cmp(best, -1)
    a.jz(flush)

    # Anything else that touches its first page moves us past it; what begins later cuts it.
    map_entries(a)
    with a.loop() as reserved:
        skip = a.label("skip_reserved")
        a.sub(ECX, 1)
        a.leave(B, reserved)
        a.cmp(entry.kind, MemoryType.USABLE)
        a.jz(skip)
        a.mov(low, entry.base)
        a.mov(high, entry.length)
        a.test(high, high)
        a.jz(skip)
        a.add(high, low)
        with a.if_(B):
            a.mov(high, -PAGE)
        a.add(high, PAGE - 1)
        with a.if_(B):
            a.mov(high, -PAGE)
        a.and_(high, -PAGE)
        a.cmp(high, best)
        a.j(BE, skip)
        a.and_(low, -PAGE)
        a.cmp(low, best)
        with a.if_(BE):
            a.mov(at, high)
            a.jmp(scan)
        a.cmp(low, best_end)
        a.cmov(B, best_end, low)
        a.place(skip)
        a.add(RSI, MemoryRegion.SIZE)
        a.jmp(reserved.top)
    a.mov(at, best_end)
    a.cmp(best, end)
    with a.if_(Z):
        a.mov(end, best_end)
        a.jmp(scan)

    # The run in hand is complete: keep it, take the new one in hand.
    a.place(flush)
    a.cmp(start, end)
    with a.if_(NZ):
        a.mov(Run.at(R11).next, start)
        a.mov(Run.at(R11).end, end)
        a.add(R11, Run.SIZE)
        a.inc(count)
        a.sub(end, start)
        a.shr(end, 12)
        a.add(pages, end)
    a.mov(start, best)
    a.mov(end, best_end)
    a.cmp(best, -1)
    a.jz(last)
    a.cmp(count, RUNS_MAX)
    a.j(B, scan)
    a.place(last)
    a.mov(MEMORY.it.run_count, count)
    a.mov(MEMORY.it.free_pages, pages)
    a.mov(MEMORY.it.total_pages, pages)
    a.ret()


@routine(
    inputs=[In(ECX, int, "pages, at least 1")],
    outputs=[Out(RAX, "physical address; 0 = no run has that many"), Out(CF, "1 = none")],
    clobbers=[RCX, RDX, R8, R9, R10],
    reads=[Memory.run_count, Run.next, Run.end],
    writes=[Run.next, Memory.free_pages],
    source="firmware/docs/boot.md#pages",
)
def pages_take(a: Asm, pages: Reg32) -> None:
    """Take physically contiguous pages from the lowest run that has them."""
    run = Run.at(RDX)
    a.mov(pages, pages)
    a.mov(R8, RCX)
    a.shl(R8, 12)
    a.lea(RDX, MEMORY.it.runs.address)
    a.mov(R9D, MEMORY.it.run_count)
    with a.loop() as runs:
        a.sub(R9D, 1)
        a.leave(B, runs)
        a.mov(RAX, run.next)
        a.mov(R10, run.end)
        a.sub(R10, RAX)
        a.cmp(R10, R8)
        with a.if_(AE):
            a.add(run.next, R8)
            a.sub(MEMORY.it.free_pages, RCX)
            a.clc()
            a.ret()
        a.add(RDX, Run.SIZE)
        a.jmp(runs.top)
    a.xor(EAX, EAX)
    a.stc()
    a.ret()


@routine(
    inputs=[
        In(RDI, int, "virtual address in a window"),
        In(RSI, int, "page-table entry: physical address and PageBits"),
    ],
    outputs=[Out(CF, "1 = no page is left for another table")],
    clobbers=[RAX, RCX, RDX],
    reads=[Memory.tables_physical, Memory.tables_used, TABLES],
    writes=[Memory.tables_used, TABLES],
    source="Intel SDM volume 3, 4.5",
)
def page_map(a: Asm, virtual: Reg64, entry: Reg64) -> None:
    """Enter one page of 4 KB; the table for it is made when it is the first of its 2 MB."""
    directory = WINDOW_PAGE_TABLES + TABLE_WINDOWS * PAGE
    a.mov(RCX, virtual)
    a.sub(RCX, WINDOWS_BASE)
    a.shr(RCX, 21)
    a.mov(EDX, directory)
    a.lea(RCX, mem64(RDX, index=RCX, scale=8, ref=TABLES))
    a.mov(RAX, mem64(RCX, ref=TABLES))
    a.test(RAX, RAX)
    with a.if_(Z):
        # The table run was zeroed at boot; its next page becomes the table.
        a.mov(EAX, MEMORY.it.tables_used)
        a.cmp(EAX, TABLE_PAGES)
        with a.if_(AE):
            a.stc()
            a.ret()
        a.inc(MEMORY.it.tables_used)
        a.shl(RAX, 12)
        a.add(RAX, MEMORY.it.tables_physical)
        a.or_(RAX, PageBit.PRESENT | PageBit.WRITE)
        a.mov(mem64(RCX, ref=TABLES), RAX)
    a.and_(RAX, -PAGE)
    a.sub(RAX, MEMORY.it.tables_physical)
    a.mov(RCX, virtual)
    a.shr(RCX, 12)
    a.and_(ECX, 511)
    a.lea(RAX, mem64(RAX, WINDOW_PAGE_TABLES, index=RCX, scale=8, ref=TABLES))
    a.mov(mem64(RAX, ref=TABLES), entry)
    a.clc()
    a.ret()


@routine(
    inputs=[In(RDI, int, "mapped virtual address in a window")],
    outputs=[Out(RAX, "its page-table entry")],
    clobbers=[RCX],
    reads=[Memory.tables_physical, TABLES],
    source="Intel SDM volume 3, 4.5",
)
def page_entry(a: Asm, virtual: Reg64) -> None:
    """Return the page-table entry of a page that was mapped."""
    a.mov(RCX, virtual)
    a.sub(RCX, WINDOWS_BASE)
    a.shr(RCX, 21)
    a.mov(EAX, WINDOW_PAGE_TABLES + TABLE_WINDOWS * PAGE)
    a.mov(RAX, mem64(RAX, index=RCX, scale=8, ref=TABLES))
    a.and_(RAX, -PAGE)
    a.sub(RAX, MEMORY.it.tables_physical)
    a.mov(RCX, virtual)
    a.shr(RCX, 12)
    a.and_(ECX, 511)
    a.mov(RAX, mem64(RAX, WINDOW_PAGE_TABLES, index=RCX, scale=8, ref=TABLES))
    a.ret()


@routine(
    inputs=[In(RDI, int, "virtual address in a window"), In(ESI, int, "pages, at least 1")],
    outputs=[Out(CF, "1 = no memory left")],
    clobbers=[RAX, RCX, RDX, RSI, RDI, R8, R9, R10],
    writes=[FRESH],
    calls=[pages_take, page_map],
    saves=[RBX, RBP],
    source="firmware/docs/boot.md#pages",
)
def map_fresh(a: Asm, virtual: Reg64, pages: Reg32) -> None:
    """Map zeroed pages, readable and writable, from wherever there are some."""
    out = a.label("out")
    a.mov(RBX, virtual)
    a.mov(EBP, pages)
    with a.loop() as each:
        a.mov(ECX, 1)
        a.call(pages_take)
        a.j(C, out)
        a.mov(RSI, READ_WRITE)
        a.or_(RSI, RAX)
        a.mov(RDI, RBX)
        a.call(page_map)
        a.j(C, out)
        a.mov(RDI, RBX)
        a.mov(ECX, PAGE // 8)
        a.xor(EAX, EAX)
        a.rep_stosq()
        a.add(RBX, PAGE)
        a.dec(EBP)
        a.again(NZ, each)
    a.clc()
    a.place(out)
    a.ret()
