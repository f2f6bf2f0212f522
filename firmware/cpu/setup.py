"""The processor's tables: descriptors, interrupt gates, stacks of the worst exceptions."""

from firmware.cpu.interrupts import IRQ_STUBS
from firmware.cpu.traps import FAULT_STUBS
from firmware.layouts.cpu import (
    GDT,
    IDT,
    MSR_GS_BASE,
    MXCSR,
    SELECTOR_CODE,
    SELECTOR_TSS,
    TSS,
    VECTORS,
    Gate,
    Gdt,
    Idt,
    Tss,
    Vector,
)
from firmware.layouts.node import CORE
from firmware.limits import FAULT_STACK_TOP, PAGE
from toolchain.asm import (
    AL,
    AX,
    EAX,
    ECX,
    NZ,
    RAX,
    RCX,
    RDI,
    RDX,
    RSI,
    RSP,
    Asm,
    Region,
    mem8,
    mem64,
    routine,
)
from toolchain.asm.assembler import STACK
from toolchain.layout import Table

TRAPS = Table("trap_table", VECTORS, lambda: (*FAULT_STUBS, *IRQ_STUBS), "handlers by vector")
TABLE = Region("trap_table", "VECTORS addresses")
DOUBLE_FAULT_STACK, NMI_STACK = FAULT_STACK_TOP, FAULT_STACK_TOP - 2 * PAGE
INTERRUPT_GATE, AVAILABLE_TSS = 0x8E, 0x89


@routine(
    clobbers=[RAX, RCX, RDX],
    stack=8,
    source="Intel SDM volume 3, 2.4; volume 1, 11.6.4",
)
def cpu_init(a: Asm) -> None:
    """Point GS at the core's state; set the rounding and masking of SSE."""
    a.lea(RAX, CORE.address)
    a.mov(RDX, RAX)
    a.shr(RDX, 32)
    a.mov(ECX, MSR_GS_BASE)
    a.wrmsr()
    a.mov(a.local(4), MXCSR)
    a.ldmxcsr(a.local(4))
    a.ret()


@routine(
    clobbers=[RAX, RCX, RSI, RDI],
    reads=[TABLE],
    writes=[Gdt, Tss, Gate, Idt.gates],
    stack=16,
    source="Intel SDM volume 3, 6.14, 7.7, 3.4.5",
)
def cpu_tables(a: Asm) -> None:
    """Fill and load the IDT, the TSS and the GDT."""
    gate = Gate.at(RDI)
    a.lea(RSI, TRAPS.address)
    a.lea(RDI, IDT.address)
    a.mov(ECX, VECTORS)
    with a.loop() as each:
        a.mov(RAX, mem64(RSI, ref=TABLE))
        a.mov(gate.offset_low, AX)
        a.mov(gate.selector, SELECTOR_CODE)
        a.mov(gate.stack, 0)
        a.mov(gate.kind, INTERRUPT_GATE)
        a.shr(RAX, 16)
        a.mov(gate.offset_middle, AX)
        a.shr(RAX, 16)
        a.mov(gate.offset_high, EAX)
        a.add(RSI, 8)
        a.add(RDI, Gate.SIZE)
        a.dec(ECX)
        a.again(NZ, each)
    a.mov(IDT.it.gates.m8(Vector.DOUBLE_FAULT * Gate.SIZE + Gate.stack.offset), 1)
    a.mov(IDT.it.gates.m8(Vector.NMI * Gate.SIZE + Gate.stack.offset), 2)
    a.mov(TSS.it.ist1_low, DOUBLE_FAULT_STACK)
    a.mov(TSS.it.ist2_low, NMI_STACK)
    a.mov(TSS.it.io_map, Tss.SIZE)
    a.lea(RAX, TSS.address)
    a.mov(GDT.it.tss_limit, Tss.SIZE - 1)
    a.mov(GDT.it.tss_low, AX)
    a.shr(RAX, 16)
    a.mov(GDT.it.tss_middle, AL)
    a.shr(RAX, 8)
    a.mov(GDT.it.tss_high, AL)
    a.shr(RAX, 8)
    a.mov(GDT.it.tss_top, EAX)
    a.mov(GDT.it.tss_kind, AVAILABLE_TSS)

    # Limit and address lie ten bytes together, from offset 6 of the locals.
    a.mov(a.local(2, 6), Gdt.SIZE - 1)
    a.lea(RAX, GDT.address)
    a.mov(a.local(8, 8), RAX)
    a.lgdt(mem8(RSP, 6, ref=STACK))
    a.mov(a.local(2, 6), VECTORS * Gate.SIZE - 1)
    a.lea(RAX, IDT.address)
    a.mov(a.local(8, 8), RAX)
    a.lidt(mem8(RSP, 6, ref=STACK))
    a.mov(EAX, SELECTOR_TSS)
    a.ltr(AX)
    a.ret()
