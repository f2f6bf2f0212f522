"""The direct boot: a multiboot loader (`qemu -kernel`) puts the image at 1 MB, for development."""

from firmware.boot.low import (
    BOOT_GDT,
    BOOT_GDTR,
    LOW_STACK,
    REGIONS,
    SELECTOR_CODE32,
    low8,
    low32,
)
from firmware.boot.paging import ALL, enter_long
from firmware.boot.regions import region_take
from firmware.layouts.boot import (
    BOOT_INFO_ADDRESS,
    LOW_BOOT,
    REGIONS_MAX,
    BootInfo,
    BootPath,
    MemoryRegion,
)
from firmware.layouts.multiboot import (
    FLAG_MEMORY_MAP,
    HEADER_BYTES,
    HEADER_FLAGS,
    HEADER_MAGIC,
    LOADER_MAGIC,
    MAP,
    MAP_BASE,
    MAP_KIND,
    MultibootInfo,
)
from firmware.layouts.trust import TRUST, TrustStore
from firmware.limits import PAGE
from toolchain.asm import (
    AE,
    EAX,
    EBP,
    EBX,
    ECX,
    EDI,
    EDX,
    ESI,
    ESP,
    NZ,
    Asm,
    In,
    Offset,
    Reg32,
    Z,
    mem32,
    routine,
)
from toolchain.layout import Data
from toolchain.link import LinkerSymbol

MULTIBOOT_HEADER = Data(
    "multiboot_header",
    HEADER_BYTES,
    bytes(HEADER_BYTES),
    align=4,
    section=".boot",
    doc="how the loader knows the image; filled when the addresses are known",
)


def header(at: int, start: int, entry: int) -> bytes:
    """Return the multiboot header; its ends are zero: all of the file is loaded, and nothing more.

    Args:
        at: Address of the header itself.
        start: Address of the first byte of the file.
        entry: Address of the entry point.
    """
    checksum = -(HEADER_MAGIC + HEADER_FLAGS) & 0xFFFF_FFFF
    words = (HEADER_MAGIC, HEADER_FLAGS, checksum, at, start, 0, 0, entry)
    return b"".join(word.to_bytes(4, "little") for word in words)


@routine(
    inputs=[In(EBX, MultibootInfo, "the loader's information")],
    clobbers=[EAX, ECX, EDX, ESI, EDI, EBP],
    reads=[MultibootInfo.flags, MultibootInfo.map_length, MultibootInfo.map_address, MAP, LOW_BOOT],
    writes=[LOW_BOOT],
    bits=32,
    section=".boot",
    source="Multiboot 0.6.96, 3.3",
)
def multiboot_map(a: Asm, info: MultibootInfo) -> None:
    """Copy the loader's memory map."""
    done = a.label("done")
    entry, end, row = ESI, EBP, EDI
    a.test(info.flags, FLAG_MEMORY_MAP)
    with a.if_(NZ):
        a.mov(entry, info.map_address)
        a.mov(end, info.map_length)
        a.add(end, entry)
        with a.loop() as entries:
            a.cmp(entry, end)
            a.j(AE, done)
            a.mov(ECX, low32(BootInfo.region_count))
            a.cmp(ECX, REGIONS_MAX - 3)
            a.j(AE, done)
            a.imul(row, ECX, MemoryRegion.SIZE)
            # Base and length, four doublewords, unrolled; then the kind.
            for offset in range(0, MAP_KIND - MAP_BASE, 4):
                a.mov(EAX, mem32(entry, MAP_BASE + offset, ref=MAP))
                a.mov(mem32(row, REGIONS + offset, ref=LOW_BOOT), EAX)
            a.mov(EAX, mem32(entry, MAP_KIND, ref=MAP))
            a.mov(mem32(row, REGIONS + MemoryRegion.kind.offset, ref=LOW_BOOT), EAX)
            a.mov(mem32(row, REGIONS + MemoryRegion.attributes.offset, ref=LOW_BOOT), 1)
            a.inc(low32(BootInfo.region_count))
            a.mov(EDX, mem32(entry, ref=MAP))
            a.lea(entry, mem32(entry, 4, index=EDX, ref=MAP))
            a.jmp(entries.top)
    a.place(done)
    a.ret()


@routine(
    inputs=[
        In(EAX, int, "LOADER_MAGIC"),
        In(EBX, MultibootInfo, "the loader's information"),
    ],
    reads=[BOOT_GDTR, TRUST],
    writes=[LOW_BOOT, BOOT_GDTR],
    calls=[multiboot_map, region_take, enter_long],
    clobbers=ALL,
    bits=32,
    section=".boot",
    noreturn=True,
    source="Multiboot 0.6.96, 3.2",
)
def multiboot_entry(a: Asm, magic: Reg32, info: MultibootInfo) -> None:
    """Note the time, collect the BootInfo, go on as the BIOS boot does."""
    a.mov(EBP, magic)
    a.rdtsc()
    a.cld()
    a.mov(ESP, LOW_STACK)
    a.mov(ESI, EAX)
    a.mov(EDI, BOOT_INFO_ADDRESS)
    a.mov(ECX, BootInfo.SIZE // 4)
    a.xor(EAX, EAX)
    a.rep_stosd()
    a.mov(low32(BootInfo.entry_tsc), ESI)
    a.mov(low32(BootInfo.entry_tsc, 4), EDX)
    a.mov(low8(BootInfo.path), BootPath.DIRECT)
    # A loader that is not multiboot gave no map: the common stage refuses.
    a.cmp(EBP, LOADER_MAGIC)
    with a.if_(Z):
        a.call(multiboot_map)
    # From .boot to the end of the trust store, which only the store itself tells.
    a.mov(EAX, Offset(LinkerSymbol("boot_start")))
    a.mov(EDX, Offset(LinkerSymbol("boot_end"), PAGE - 1))
    a.and_(EDX, -PAGE)
    a.add(EDX, Offset(LinkerSymbol("bss_start")))
    a.sub(EDX, Offset(LinkerSymbol("text_start")))
    a.add(EDX, mem32(EDX, TrustStore.size.offset, ref=TRUST))
    a.sub(EDX, EAX)
    a.call(region_take)
    a.mov(BOOT_GDTR.m32(), BOOT_GDT.size - 1)
    a.mov(EAX, Offset(BOOT_GDT))
    a.mov(BOOT_GDTR.m32(2), EAX)
    a.lgdt(BOOT_GDTR.address)
    a.far_jmp(SELECTOR_CODE32, enter_long)
