"""What the boot program asks of the BIOS: the memory map, and address line 20. 16-bit code."""

from firmware.boot.low import EVERYTHING, REGIONS, low16
from firmware.layouts.boot import LOW_BOOT, REGIONS_MAX, BootInfo, MemoryRegion
from toolchain.asm import (
    AL,
    AX,
    CX,
    DI,
    EAX,
    EBX,
    ECX,
    EDX,
    FS,
    NZ,
    Asm,
    B,
    C,
    Out,
    Region,
    Z,
    mem16,
    mem32,
    routine,
)

SMAP = int.from_bytes(b"PAMS", "little")
A20_LOW, A20_HIGH = Region("0:500", "a word to test A20 with"), Region("FFFF:510", "its alias")


@routine(
    clobbers=EVERYTHING,
    reads=[LOW_BOOT],
    writes=[LOW_BOOT],
    bits=16,
    section=".boot",
    source="ACPI 6.5, 15.1",
)
def bios_memory_map(a: Asm) -> None:
    """Ask the BIOS for the memory map, entry by entry; DS and ES are 0."""
    done, skip = a.label("done"), a.label("skip")
    a.xor(EBX, EBX)
    with a.loop() as entries:
        a.mov(AX, low16(BootInfo.region_count))
        a.imul(DI, AX, MemoryRegion.SIZE)
        a.add(DI, REGIONS)
        # A BIOS that writes 20 bytes leaves the attributes as they are here: valid.
        a.mov(mem32(DI, MemoryRegion.attributes.offset, ref=LOW_BOOT), 1)
        a.mov(ECX, MemoryRegion.SIZE)
        a.mov(EDX, SMAP)
        a.mov(EAX, 0xE820)
        a.int_(0x15)
        a.j(C, done)
        a.cmp(EAX, SMAP)
        a.j(NZ, done)
        a.cmp(CX, MemoryRegion.attributes.offset)
        a.j(B, done)
        a.test(mem16(DI, MemoryRegion.attributes.offset, ref=LOW_BOOT), 1)
        a.j(Z, skip)
        a.inc(low16(BootInfo.region_count))
        a.place(skip)
        a.test(EBX, EBX)
        a.jz(done)
        # Two rows stay free for the parts that the boot program takes.
        a.cmp(low16(BootInfo.region_count), REGIONS_MAX - 2)
        a.again(B, entries)
    a.place(done)
    a.ret()


@routine(
    outputs=[Out(AX, "0 = address line 20 is masked")],
    clobbers=[ECX],
    reads=[A20_LOW, A20_HIGH],
    writes=[A20_LOW, A20_HIGH],
    bits=16,
    section=".boot",
    source="Intel 8042 and PS/2 technical reference: gate A20",
)
def a20_differs(a: Asm) -> None:
    """Tell whether FFFF:510 is another byte than 0:500; both are put back."""
    low, high = mem16(None, 0x500, ref=A20_LOW), mem16(None, 0x510, ref=A20_HIGH, segment=FS)
    a.mov(AX, 0xFFFF)
    a.mov(FS, AX)
    a.mov(CX, low)
    a.mov(AX, high)
    a.push(AX)
    a.mov(AX, CX)
    a.not_(AX)
    a.mov(high, AX)
    a.xor(AX, low)
    a.mov(low, CX)
    a.pop(CX)
    a.mov(high, CX)
    a.xor(AX, -1)
    a.ret()


@routine(
    clobbers=EVERYTHING,
    calls=[a20_differs],
    bits=16,
    section=".boot",
    source="Ralf Brown's interrupt list, INT 15/AX=2401h; PS/2 port 92h",
)
def a20_open(a: Asm) -> None:
    """Let addresses above 1 MB through: by the BIOS, else by port 92h."""
    is_open = a.label("open")
    a.call(a20_differs)
    a.test(AX, AX)
    a.jnz(is_open)
    a.mov(AX, 0x2401)
    a.int_(0x15)
    a.call(a20_differs)
    a.test(AX, AX)
    a.jnz(is_open)
    a.in_(AL, 0x92)
    a.or_(AL, 0x02)
    a.and_(AL, 0xFE)  # bit 0 would reset the machine
    a.out(0x92, AL)
    a.place(is_open)
    a.ret()
