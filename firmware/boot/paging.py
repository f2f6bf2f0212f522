"""The 32-bit stage, common to all boot paths: page tables, then 64-bit mode.

It takes one run of usable memory for the page tables, .bss and the stack; everything else about
memory is decided in 64-bit code. The image is mapped where it lies, section by section, W^X.
"""

from firmware.boot.entry import node_entry
from firmware.boot.low import (
    LOW_STACK,
    SELECTOR_CODE64,
    SELECTOR_DATA,
    low32,
)
from firmware.boot.regions import find_run, region_take
from firmware.cpu.serial import COM1
from firmware.layouts.boot import LOW_BOOT, BootInfo
from firmware.layouts.memory import (
    RECORD_PHYSICAL,
    TABLE_IMAGE,
    TABLE_LOW,
    TABLE_PAGES,
    TABLE_PDPT,
    TABLE_STACKS,
    TABLE_TABLES,
    TABLE_WINDOWS,
    WINDOWS_BASE,
    PageBit,
)
from firmware.layouts.trust import TRUST, TrustStore
from firmware.limits import (
    IMAGE_BASE,
    KEPT_PAGES,
    PAGE,
    STACK_BYTES,
    STACK_TOP,
    WINDOW_PAGE_TABLES,
)
from toolchain.asm import (
    AL,
    AX,
    CF,
    CR0,
    CR3,
    CR4,
    DS,
    DX,
    EAX,
    EBP,
    EBX,
    ECX,
    EDI,
    EDX,
    ES,
    ESI,
    ESP,
    FS,
    GS,
    NZ,
    SS,
    Asm,
    B,
    C,
    In,
    Offset,
    Out,
    Reg32,
    Region,
    Z,
    mem32,
    routine,
)
from toolchain.asm.registers import Convention
from toolchain.layout import Data
from toolchain.link import LinkerSymbol

TABLES = Region("page tables", "the run that find_run gave, by physical address")
MESSAGE = Region("a message", "zero-terminated, in .boot")
A20_LOW, A20_HIGH = Region("500h", "a word to test A20 with"), Region("100500h", "its alias")
CPUID_HIGHEST, CPUID_FEATURES = 0x8000_0000, 0x8000_0001
LONG_MODE, NO_EXECUTE = 1 << 29, 1 << 20
EFER, EFER_BITS = 0xC000_0080, 1 << 8 | 1 << 11
CR4_BITS = 1 << 5 | 1 << 9 | 1 << 10
"""PAE, OSFXSR, OSXMMEXCPT."""
CR0_BITS = 1 << 31 | 1 << 16 | 1 << 5 | 1 << 4 | 1 << 1 | 1 << 0
"""PG, WP, NE, ET, MP, PE."""
NX = PageBit.NO_EXECUTE >> 32
ALL = Convention((EAX, EBX, ECX, EDX, ESI, EDI, EBP))


def _message(name: str, text: str) -> Data:
    raw = f"level=error code=boot.refused reason={text}\n\0".encode()
    return Data(name, len(raw), raw, section=".boot", align=1, doc="why the machine cannot boot")


NO_LONG_MODE = _message("no_long_mode", "no-64-bit-mode-or-no-execute")
NO_A20 = _message("no_a20", "address-line-20-is-masked")
NO_RUN = _message("no_run", "no-usable-memory-above-1MB")


@routine(
    inputs=[In(ESI, int, "zero-terminated text")],
    clobbers=[EAX, ECX, EDX, ESI],
    reads=[MESSAGE],
    bits=32,
    section=".boot",
    noreturn=True,
    source="firmware/docs/boot.md#refusals",
)
def boot_refuse(a: Asm, text: Reg32) -> None:
    """Tell COM1 why this machine cannot run the node, and stop."""
    stop = a.label("stop")
    with a.loop() as characters:
        a.lodsb()
        a.test(AL, AL)
        a.jz(stop)
        a.mov(EDX, EAX)
        a.mov(ECX, 100_000)
        with a.loop() as wait:
            a.push(EDX)
            a.mov(DX, COM1 + 5)
            a.in_(AL, DX)
            a.pop(EDX)
            a.test(AL, 0x20)
            a.leave(NZ, wait)
            a.dec(ECX)
            a.again(NZ, wait)
        a.mov(EAX, EDX)
        a.mov(DX, COM1)
        a.out(DX, AL)
        a.jmp(characters.top)
    a.place(stop)
    a.cli()
    a.hlt()
    a.jmp(stop)


@routine(
    inputs=[
        In(EDI, int, "first page-table entry"),
        In(EAX, int, "physical address | low bits"),
        In(EDX, int, "upper half of each entry"),
        In(ECX, int, "entries; 0 = none"),
    ],
    outputs=[Out(EDI, "the entry after the last"), Out(EAX, "physical address | low bits of it")],
    clobbers=[ECX],
    writes=[TABLES],
    bits=32,
    section=".boot",
    source="Intel SDM volume 3, 4.5",
)
def fill_entries(a: Asm, entry: Reg32, low: Reg32, high: Reg32, count: Reg32) -> None:
    """Map pages in a row."""
    done = a.label("done")
    a.test(count, count)
    a.jz(done)
    with a.loop() as fill:
        a.mov(mem32(entry, ref=TABLES), low)
        a.mov(mem32(entry, 4, ref=TABLES), high)
        a.add(low, PAGE)
        a.add(entry, 8)
        a.dec(count)
        a.again(NZ, fill)
    a.place(done)
    a.ret()


def _pages(a: Asm, first: str, end: str) -> None:
    """ECX := pages between two linker symbols; the first is page-aligned."""
    a.mov(ECX, Offset(LinkerSymbol(end)))
    a.sub(ECX, Offset(LinkerSymbol(first)))
    a.add(ECX, PAGE - 1)
    a.shr(ECX, 12)


def _directory(address: int) -> int:
    """Return the offset of an address's entry in the directory of the windows."""
    return 8 * ((address - WINDOWS_BASE) >> 21)


@routine(
    inputs=[In(EBX, int, "physical address of the table run")],
    clobbers=[EAX, ECX, EDX, EDI],
    reads=[LOW_BOOT, TRUST],
    writes=[TABLES],
    calls=[fill_entries],
    bits=32,
    section=".boot",
    source="firmware/docs/boot.md#page-tables",
)
def build_tables(a: Asm, run: Reg32) -> None:
    """Fill the zeroed tables: image, stack, the tables themselves, and the first 2 MB for now."""
    present, writable = PageBit.PRESENT, PageBit.PRESENT | PageBit.WRITE

    def link(table: int, offset: int, target: int) -> None:
        a.lea(EAX, mem32(run, target * PAGE + writable, ref=TABLES))
        a.mov(mem32(run, table * PAGE + offset, ref=TABLES), EAX)

    link(0, 0, TABLE_PDPT)
    link(TABLE_PDPT, 0, TABLE_LOW)
    link(TABLE_PDPT, 8 * (WINDOWS_BASE >> 30), TABLE_WINDOWS)
    a.mov(mem32(run, TABLE_LOW * PAGE, ref=TABLES), writable | PageBit.LARGE)
    link(TABLE_WINDOWS, _directory(IMAGE_BASE), TABLE_IMAGE)
    link(TABLE_WINDOWS, _directory(WINDOW_PAGE_TABLES), TABLE_TABLES)
    link(TABLE_WINDOWS, _directory(STACK_TOP), TABLE_STACKS)

    # The image, section by section where it lies.
    a.lea(EDI, mem32(run, TABLE_IMAGE * PAGE, ref=TABLES))
    a.mov(EAX, low32(BootInfo.image))
    a.or_(EAX, present)
    a.xor(EDX, EDX)
    _pages(a, "text_start", "rodata_start")
    a.call(fill_entries)
    a.mov(EDX, NX)
    _pages(a, "rodata_start", "data_start")
    a.call(fill_entries)
    a.or_(EAX, writable)
    _pages(a, "data_start", "bss_start")
    a.call(fill_entries)
    a.push(EAX)
    # .bss and the stack come from the run, which is zero.
    a.lea(EAX, mem32(run, TABLE_PAGES * PAGE + writable, ref=TABLES))
    _pages(a, "bss_start", "bss_end")
    a.call(fill_entries)
    # Behind .bss the trust store, whose length it tells itself; in the file it follows .data.
    a.pop(ECX)
    a.push(EAX)
    a.lea(EAX, mem32(ECX, -(writable - present), ref=TRUST))
    a.mov(ECX, mem32(EAX, TrustStore.size.offset - present, ref=TRUST))
    a.add(ECX, PAGE - 1)
    a.shr(ECX, 12)
    a.call(fill_entries)
    a.pop(EAX)
    stack = 8 * (((STACK_TOP - STACK_BYTES) >> 12) & 511)
    a.lea(EDI, mem32(run, TABLE_STACKS * PAGE + stack, ref=TABLES))
    a.mov(ECX, STACK_BYTES // PAGE)
    a.call(fill_entries)
    a.lea(EDI, mem32(run, TABLE_TABLES * PAGE, ref=TABLES))
    a.lea(EAX, mem32(run, writable, ref=TABLES))
    a.mov(ECX, TABLE_PAGES)
    a.call(fill_entries)
    a.ret()


@routine(
    outputs=[Out(CF, "1 = the processor lacks 64-bit mode or no-execute pages")],
    clobbers=ALL,
    bits=32,
    section=".boot",
    source="Intel SDM volume 2, CPUID",
)
def cpu_suits(a: Asm) -> None:
    """Look for 64-bit mode and no-execute pages."""
    no = a.label("no")
    a.xor(ECX, ECX)
    a.mov(EAX, CPUID_HIGHEST)
    a.cpuid()
    a.cmp(EAX, CPUID_FEATURES)
    a.j(B, no)
    a.xor(ECX, ECX)
    a.mov(EAX, CPUID_FEATURES)
    a.cpuid()
    a.not_(EDX)
    a.test(EDX, LONG_MODE | NO_EXECUTE)
    a.jnz(no)
    a.clc()
    a.ret()
    a.place(no)
    a.stc()
    a.ret()


@routine(
    clobbers=ALL,
    reads=[LOW_BOOT, A20_LOW, A20_HIGH],
    writes=[LOW_BOOT, A20_HIGH],
    calls=[cpu_suits, boot_refuse, region_take, find_run, build_tables, node_entry],
    bits=32,
    section=".boot",
    noreturn=True,
    source="Intel SDM volume 3, 9.8.5",
)
def enter_long(a: Asm) -> None:
    """Go from flat 32-bit code to `node_entry` in 64-bit mode."""
    a.mov(AX, SELECTOR_DATA)
    for segment in (DS, ES, SS, FS, GS):
        a.mov(segment, AX)
    a.mov(ESP, LOW_STACK)
    a.cld()

    a.call(cpu_suits)
    with a.if_(C):
        a.mov(ESI, Offset(NO_LONG_MODE))
        a.call(boot_refuse)
    high = mem32(None, 0x10_0500, ref=A20_HIGH)
    a.mov(EAX, mem32(None, 0x500, ref=A20_LOW))
    a.mov(ECX, high)
    a.cmp(EAX, ECX)
    with a.if_(Z):
        # Equal by chance or by alias: change one and look at the other.
        a.not_(high)
        a.cmp(EAX, mem32(None, 0x500, ref=A20_LOW))
        with a.if_(NZ):
            a.mov(ESI, Offset(NO_A20))
            a.call(boot_refuse)
        a.not_(high)

    # The 64-bit part of the image follows .boot at the next page.
    a.mov(EAX, Offset(LinkerSymbol("boot_end")))
    a.add(EAX, PAGE - 1)
    a.and_(EAX, -PAGE)
    a.mov(low32(BootInfo.image), EAX)
    a.mov(EAX, RECORD_PHYSICAL)
    a.mov(EDX, KEPT_PAGES * PAGE)
    a.call(region_take)

    _pages(a, "bss_start", "bss_end")
    a.add(ECX, TABLE_PAGES + STACK_BYTES // PAGE)
    a.shl(ECX, 12)
    a.call(find_run)
    with a.if_(C):
        a.mov(ESI, Offset(NO_RUN))
        a.call(boot_refuse)
    a.mov(EBX, EAX)
    a.mov(low32(BootInfo.tables), EAX)
    _pages(a, "bss_start", "bss_end")
    a.add(ECX, TABLE_PAGES + STACK_BYTES // PAGE)
    a.shl(ECX, 12)
    a.mov(EDX, ECX)
    a.call(region_take)
    a.mov(EDI, EBX)
    a.shr(ECX, 2)
    a.xor(EAX, EAX)
    a.rep_stosd()
    a.call(build_tables)

    a.mov(CR3, EBX)
    a.mov(EAX, CR4_BITS)
    a.mov(CR4, EAX)
    a.mov(ECX, EFER)
    a.rdmsr()
    a.or_(EAX, EFER_BITS)
    a.wrmsr()
    a.mov(EAX, CR0_BITS)
    a.mov(CR0, EAX)
    a.far_jmp(SELECTOR_CODE64, node_entry)
