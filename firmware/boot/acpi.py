"""ACPI: where the PM timer is. Tables are looked at through device windows, each with a bound."""

from firmware.abi import CALLER_SAVED
from firmware.layouts.power import POWER, Power
from firmware.limits import PAGE
from firmware.memory import mmio_map
from toolchain.asm import (
    EAX,
    EBP,
    EBX,
    ECX,
    EDI,
    ESI,
    NZ,
    R8,
    R9B,
    R9D,
    RAX,
    RBP,
    RBX,
    RCX,
    RDX,
    A,
    Asm,
    B,
    In,
    Out,
    Reg32,
    Region,
    mem8,
    mem32,
    mem64,
    routine,
)

BIOS_START, BIOS_PAGES = 0xE_0000, 32
RSDP_SIGNATURE = int.from_bytes(b"RSD PTR ", "little")
FADT_SIGNATURE = int.from_bytes(b"FACP", "little")
RSDP_BYTES, RSDP_RSDT = 20, 16
HEADER_BYTES, HEADER_LENGTH = 36, 4
FADT_PM_TIMER, FADT_PM_TIMER_LENGTH = 76, 91
ENTRIES_MAX = 64
"""Tables of the RSDT that are looked at; firmware has about ten."""
WINDOW_PAGES = 2
"""A table may begin anywhere in a page; what we read of it ends in the next."""
ACPI = Region("an ACPI table", "mapped by acpi_window")


@routine(
    inputs=[In(EDI, int, "physical address below 4 GB")],
    outputs=[Out(RAX, "virtual address; 0 = the window is full")],
    clobbers=CALLER_SAVED,
    calls=[mmio_map],
    saves=[RBX],
    source="ACPI 6.5, 5.2",
)
def acpi_window(a: Asm, physical: Reg32) -> None:
    """Map the two pages from the one that holds an address."""
    a.mov(EBX, physical)
    a.and_(EBX, PAGE - 1)
    a.and_(EDI, -PAGE)
    a.mov(ESI, WINDOW_PAGES)
    a.call(mmio_map)
    a.test(RAX, RAX)
    with a.if_(NZ):
        a.add(RAX, RBX)
    a.ret()


@routine(
    outputs=[Out(EAX, "physical address of the RSDT; 0 = none")],
    clobbers=CALLER_SAVED,
    reads=[ACPI],
    calls=[mmio_map],
    source="ACPI 6.5, 5.2.5.1",
)
def acpi_root(a: Asm) -> None:
    """Find the RSDP in the BIOS area: signature on 16 bytes, bytes that sum to zero."""
    none = a.label("none")
    a.mov(EDI, BIOS_START)
    a.mov(ESI, BIOS_PAGES)
    a.call(mmio_map)
    a.test(RAX, RAX)
    a.jz(none)
    a.lea(R8, mem8(RAX, BIOS_PAGES * PAGE, ref=ACPI))
    a.mov(RDX, RSDP_SIGNATURE)
    with a.loop() as search:
        with a.block() as no:
            a.cmp(mem64(RAX, ref=ACPI), RDX)
            a.leave(NZ, no)
            a.xor(R9D, R9D)
            a.mov(ECX, RSDP_BYTES)
            with a.loop() as summing:
                a.add(R9B, mem8(RAX, -1, index=RCX, ref=ACPI))
                a.dec(ECX)
                a.again(NZ, summing)
            a.test(R9B, R9B)
            a.leave(NZ, no)
            a.mov(EAX, mem32(RAX, RSDP_RSDT, ref=ACPI))
            a.ret()
        a.add(RAX, 16)
        a.cmp(RAX, R8)
        a.again(B, search)
    a.place(none)
    a.xor(EAX, EAX)
    a.ret()


@routine(
    outputs=[Out(RAX, "the FADT, mapped; 0 = none was found")],
    clobbers=CALLER_SAVED,
    reads=[ACPI],
    calls=[acpi_root, acpi_window],
    saves=[RBX, RBP],
    source="ACPI 6.5, 5.2.7 and 5.2.9",
)
def acpi_fadt(a: Asm) -> None:
    """Find the FADT among the tables of the RSDT."""
    none = a.label("none")
    a.call(acpi_root)
    a.test(EAX, EAX)
    a.jz(none)
    a.mov(EDI, EAX)
    a.call(acpi_window)
    a.test(RAX, RAX)
    a.jz(none)
    a.lea(RBX, mem8(RAX, HEADER_BYTES, ref=ACPI))
    a.mov(EBP, mem32(RAX, HEADER_LENGTH, ref=ACPI))
    a.sub(EBP, HEADER_BYTES)
    a.j(B, none)
    a.shr(EBP, 2)
    a.cmp(EBP, ENTRIES_MAX)
    with a.if_(A):
        a.mov(EBP, ENTRIES_MAX)
    with a.loop() as tables:
        a.sub(EBP, 1)
        a.leave(B, tables)
        a.mov(EDI, mem32(RBX, ref=ACPI))
        a.add(RBX, 4)
        a.call(acpi_window)
        a.test(RAX, RAX)
        a.jz(none)
        a.cmp(mem32(RAX, ref=ACPI), FADT_SIGNATURE)
        a.again(NZ, tables)
        a.ret()
    a.place(none)
    a.xor(EAX, EAX)
    a.ret()


@routine(
    outputs=[Out(EAX, "port of the PM timer; 0 = none was found")],
    clobbers=CALLER_SAVED,
    reads=[ACPI],
    writes=[Power.fadt],
    calls=[acpi_fadt],
    source="ACPI 6.5, 5.2.9, table 5.9 (PM_TMR_BLK)",
)
def acpi_pm_timer(a: Asm) -> None:
    """Return the PM timer block of the FADT, and keep the table's place."""
    none = a.label("none")
    a.call(acpi_fadt)
    a.mov(POWER.it.fadt, RAX)
    a.test(RAX, RAX)
    a.jz(none)
    a.cmp(mem8(RAX, FADT_PM_TIMER_LENGTH, ref=ACPI), 4)
    a.j(NZ, none)
    a.mov(EAX, mem32(RAX, FADT_PM_TIMER, ref=ACPI))
    a.cmp(EAX, 0xFFFF)
    a.j(A, none)
    a.ret()
    a.place(none)
    a.xor(EAX, EAX)
    a.ret()
