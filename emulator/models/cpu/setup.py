"""The processor's tables."""

from emulator.effects import World, model
from firmware.layouts.cpu import GDT, IDT, TSS, VECTORS
from firmware.layouts.node import CORE
from firmware.limits import FAULT_STACK_TOP, PAGE


@model
def cpu_init(w: World) -> None:
    """GS points at the core's state."""
    w.wrmsr(0xC000_0101, w.address(CORE))


@model
def cpu_tables(w: World) -> None:
    """Each vector has an interrupt gate; #DF and NMI have a stack; the TSS has a descriptor."""
    idt, tss, gdt = w.g(IDT), w.g(TSS), w.g(GDT)
    stacks = {8: 1, 2: 2}
    for vector in range(VECTORS):
        handler = w.u64(w.address("trap_table") + 8 * vector)
        gate = idt.gates[vector]
        gate.offset_low, gate.offset_middle = handler, handler >> 16
        gate.offset_high, gate.selector, gate.kind = handler >> 32, 0x18, 0x8E
        gate.stack = 0
        if vector in stacks:
            gate.stack = stacks[vector]
    tss.ist1_low, tss.ist2_low = FAULT_STACK_TOP, FAULT_STACK_TOP - 2 * PAGE
    tss.io_map = 0x68
    at = w.address(TSS)
    gdt.tss_limit, gdt.tss_low, gdt.tss_middle = 0x67, at, at >> 16
    gdt.tss_high, gdt.tss_top, gdt.tss_kind = at >> 24, at >> 32, 0x89
    for instruction in ("lgdt", "lidt", "ltr"):
        w.system(instruction)
