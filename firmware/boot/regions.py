"""The memory map in the 32-bit stage: what is in use, and one run for the page tables."""

from firmware.boot.low import (
    REGIONS,
    low32,
)
from firmware.layouts.boot import LOW_BOOT, BootInfo, MemoryRegion, MemoryType
from firmware.layouts.memory import (
    LOWEST,
)
from firmware.limits import (
    PAGE,
)
from toolchain.asm import (
    AE,
    BE,
    CF,
    EAX,
    EBP,
    EBX,
    ECX,
    EDI,
    EDX,
    ESI,
    NZ,
    Asm,
    B,
    C,
    In,
    Out,
    Reg32,
    mem32,
    routine,
)


@routine(
    inputs=[
        In(EAX, int, "physical address, a multiple of the page size"),
        In(EDX, int, "bytes"),
    ],
    clobbers=[EDI],
    reads=[LOW_BOOT],
    writes=[LOW_BOOT],
    bits=32,
    section=".boot",
    source="firmware/docs/boot.md#memory-map",
)
def region_take(a: Asm, address: Reg32, length: Reg32) -> None:
    """Append memory that is in use to the map; a reserved entry wins over a usable one."""
    a.imul(EDI, low32(BootInfo.region_count), MemoryRegion.SIZE)
    a.mov(mem32(EDI, REGIONS, ref=LOW_BOOT), address)
    a.mov(mem32(EDI, REGIONS + 4, ref=LOW_BOOT), 0)
    a.mov(mem32(EDI, REGIONS + 8, ref=LOW_BOOT), length)
    a.mov(mem32(EDI, REGIONS + 12, ref=LOW_BOOT), 0)
    a.mov(mem32(EDI, REGIONS + 16, ref=LOW_BOOT), MemoryType.OURS)
    a.mov(mem32(EDI, REGIONS + 20, ref=LOW_BOOT), 1)
    a.inc(low32(BootInfo.region_count))
    a.ret()


@routine(
    inputs=[In(ESI, int, "entry of the map")],
    outputs=[
        Out(EAX, "first byte, cut to 32 bits"),
        Out(EDX, "byte after the last, at most FFFFF000h"),
        Out(CF, "1 = above 4 GB or empty"),
    ],
    reads=[LOW_BOOT],
    bits=32,
    section=".boot",
    source="firmware/docs/boot.md#memory-map",
)
def region_bounds(a: Asm, entry: Reg32) -> None:
    """Return the part of a region that 32 bits can name."""
    none, cut = a.label("none"), a.label("cut")
    a.mov(EAX, mem32(entry, MemoryRegion.base.offset, ref=LOW_BOOT))
    a.mov(EDX, mem32(entry, MemoryRegion.length.offset, ref=LOW_BOOT))
    a.cmp(mem32(entry, MemoryRegion.base.offset + 4, ref=LOW_BOOT), 0)
    a.j(NZ, none)
    a.cmp(mem32(entry, MemoryRegion.length.offset + 4, ref=LOW_BOOT), 0)
    a.j(NZ, cut)
    a.test(EDX, EDX)
    a.jz(none)
    a.add(EDX, EAX)
    a.j(C, cut)
    a.cmp(EDX, 0xFFFF_F000)
    with a.if_(BE):
        a.clc()
        a.ret()
    a.place(cut)
    a.mov(EDX, 0xFFFF_F000)
    a.clc()
    a.ret()
    a.place(none)
    a.stc()
    a.ret()


@routine(
    inputs=[In(ECX, int, "bytes")],
    outputs=[Out(EAX, "physical address"), Out(CF, "1 = there is none")],
    clobbers=[EBX, EDX, ESI, EDI, EBP],
    reads=[LOW_BOOT],
    calls=[region_bounds],
    bits=32,
    section=".boot",
    source="firmware/docs/boot.md#memory-map",
)
def find_run(a: Asm, length: Reg32) -> None:
    """Find the first usable memory of that length above 1 MB that no other entry touches."""
    start, end, usable, other = EBX, EBP, EDI, ESI
    next_usable, next_other, again = a.label("next"), a.label("other"), a.label("again")
    found, none = a.label("found"), a.label("none")
    a.mov(usable, REGIONS - MemoryRegion.SIZE)
    a.place(next_usable)
    a.add(usable, MemoryRegion.SIZE)
    a.imul(EAX, low32(BootInfo.region_count), MemoryRegion.SIZE)
    a.add(EAX, REGIONS)
    a.cmp(usable, EAX)
    a.j(AE, none)
    a.cmp(mem32(usable, MemoryRegion.kind.offset, ref=LOW_BOOT), MemoryType.USABLE)
    a.j(NZ, next_usable)
    a.mov(ESI, usable)
    a.call(region_bounds)
    a.j(C, next_usable)
    a.mov(start, EAX)
    a.mov(end, EDX)
    a.cmp(start, LOWEST)
    with a.if_(B):
        a.mov(start, LOWEST)

    a.place(again)
    a.add(start, PAGE - 1)
    a.j(C, next_usable)
    a.and_(start, -PAGE)
    a.mov(EAX, end)
    a.sub(EAX, start)
    a.j(B, next_usable)
    a.cmp(EAX, length)
    a.j(B, next_usable)
    a.mov(other, REGIONS)
    a.place(next_other)
    a.imul(EAX, low32(BootInfo.region_count), MemoryRegion.SIZE)
    a.add(EAX, REGIONS)
    a.cmp(other, EAX)
    a.j(AE, found)
    a.cmp(mem32(other, MemoryRegion.kind.offset, ref=LOW_BOOT), MemoryType.USABLE)
    skip = a.label("skip")
    a.jz(skip)
    a.call(region_bounds)
    a.j(C, skip)
    # Overlap: it begins before our end, and ends after our start.
    a.cmp(EDX, start)
    a.j(BE, skip)
    a.sub(EAX, start)
    with a.if_(B):
        a.xor(EAX, EAX)
    a.cmp(EAX, length)
    a.j(AE, skip)
    a.mov(start, EDX)
    a.jmp(again)
    a.place(skip)
    a.add(other, MemoryRegion.SIZE)
    a.jmp(next_other)

    a.place(found)
    a.mov(EAX, start)
    a.clc()
    a.ret()
    a.place(none)
    a.xor(EAX, EAX)
    a.stc()
    a.ret()
