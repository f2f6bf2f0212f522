"""Descriptor tables, interrupt gates, the watchdog."""

from emulator.environment import Environment
from firmware.cpu.setup import cpu_init, cpu_tables
from firmware.cpu.watchdog import watchdog_kick
from firmware.layouts.cpu import GDT, IDT, TSS, VECTORS, WATCHDOG
from firmware.layouts.node import CORE
from firmware.limits import FAULT_STACK_TOP, PAGE, WINDOW_MMIO
from tests.support.lab import Lab

LAB = Lab(cpu_init, cpu_tables, watchdog_kick)
LAB.machine.map_mmio(WINDOW_MMIO, PAGE)


def test_cpu_init_points_gs_at_the_core():
    events = [e.key for e in LAB.call(cpu_init).events if e.key[0] == "wrmsr"]
    assert events == [("wrmsr", 0xC000_0101, LAB.image.address(CORE))]


def test_cpu_tables_every_gate_leads_to_its_handler():
    LAB.call(cpu_tables)
    for vector in range(VECTORS):
        gate = LAB.g(IDT).gates[vector]
        handler = gate.offset_low | gate.offset_middle << 16 | gate.offset_high << 32
        name = f"fault_{vector:02}" if vector < 32 else f"irq_{vector - 32:02}"
        assert handler == LAB.image.address(name)
        assert (gate.selector, gate.kind, gate.stack) == (0x18, 0x8E, {8: 1, 2: 2}.get(vector, 0))
    tss = LAB.g(TSS)
    assert (tss.ist1_low, tss.ist2_low) == (FAULT_STACK_TOP, FAULT_STACK_TOP - 2 * PAGE)
    gdt = LAB.g(GDT)
    base = gdt.tss_low | gdt.tss_middle << 16 | gdt.tss_high << 24 | gdt.tss_top << 32
    assert base == LAB.image.address(TSS)


def test_watchdog_kick_reloads_and_counts():
    LAB.g(WATCHDOG).registers, LAB.g(CORE).kicks = WINDOW_MMIO, 4
    written = []
    environment = Environment()
    environment.on_mmio_write = lambda address, size, value: written.append((address, size, value))
    LAB.call(watchdog_kick, environment)
    assert written == [(WINDOW_MMIO + 0xC, 2, value) for value in (0x80, 0x86, 0x100)]
    assert LAB.g(CORE).kicks == 5


def test_watchdog_kick_without_one_does_nothing():
    LAB.g(WATCHDOG).registers, LAB.g(CORE).kicks = 0, 4
    LAB.call(watchdog_kick)
    assert LAB.g(CORE).kicks == 4
