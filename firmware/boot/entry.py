"""The first 64-bit code: set the machine up, say so, and go on to the node."""

from firmware.abi import CALLER_SAVED
from firmware.boot.acpi import acpi_pm_timer
from firmware.boot.devices import boot_nic, boot_rng, watchdog_arm
from firmware.boot.power import acpi_power
from firmware.boot.smbios import smbios_read
from firmware.cpu.clock import clock_calibrate
from firmware.cpu.interrupts import pic_init
from firmware.cpu.panic import record_check
from firmware.cpu.rtc import rtc_read
from firmware.cpu.serial import serial_init
from firmware.cpu.setup import cpu_init, cpu_tables
from firmware.layouts.boot import BOOT, BOOT_INFO_ADDRESS, LOW_BOOT, BootInfo, BootPacket
from firmware.layouts.config import CONFIG, CONFIG_MAGIC, ConfigBlob
from firmware.layouts.cpu import STACK_RESERVED, WATCHDOG, CrashRecord, TrapFrame, Watchdog
from firmware.layouts.log import (
    BOOT_ACK,
    BOOT_CLOCK,
    BOOT_CRASHED,
    BOOT_NO_CLOCK,
    BOOT_NO_CONFIG,
    BOOT_NO_MEMORY,
    BOOT_READY,
    BOOT_STARTED,
)
from firmware.layouts.memory import MEMORY, Memory
from firmware.layouts.node import CLOCK, Clock, CoreState, core
from firmware.layouts.survivor import SURVIVAL, Survival
from firmware.limits import RECORD_PAGE, STACK_TOP
from firmware.log import log, log_finish, log_setup, log_write
from firmware.memory import (
    dma_map,
    fault_stacks_map,
    low_unmap,
    memory_init,
    record_map,
)
from firmware.node.rest import node_main
from toolchain.asm import (
    CF,
    EAX,
    ECX,
    EDI,
    EDX,
    ESI,
    ESP,
    NZ,
    R8,
    R8D,
    R9,
    R9D,
    RAX,
    RCX,
    RDI,
    RDX,
    RSI,
    Asm,
    B,
    C,
    In,
    Offset,
    Out,
    Reg64,
    Z,
    routine,
)
from toolchain.link import LinkerSymbol


@routine(
    inputs=[In(RSI, int, "the boot program's BootInfo")],
    clobbers=[RAX, RCX, RSI, RDI],
    reads=[LOW_BOOT, BootInfo.entry_tsc],
    writes=[BootInfo, Clock.boot_tsc],
    source="firmware/docs/boot.md#bootinfo",
)
def boot_adopt(a: Asm, source: Reg64) -> None:
    """Copy the boot's facts out of low memory."""
    a.lea(RDI, BOOT.address)
    a.mov(ECX, BootInfo.SIZE // 8)
    a.rep_movsq()
    a.mov(RAX, BOOT.it.entry_tsc)
    a.mov(CLOCK.it.boot_tsc, RAX)
    a.ret()


@routine(
    outputs=[Out(CF, "1 = there is not enough memory")],
    clobbers=CALLER_SAVED,
    calls=[memory_init, fault_stacks_map, record_map, dma_map],
    source="firmware/docs/boot.md#windows",
)
def memory_setup(a: Asm) -> None:
    """Clean the map and fill the windows that every node has."""
    out = a.label("out")
    a.call(memory_init)
    # The crash record and the fault stacks first: from then on a fault leaves a record.
    for part in (fault_stacks_map, record_map):
        a.call(part)
        a.j(C, out)
    a.call(dma_map)
    a.place(out)
    a.ret()


@routine(
    clobbers=CALLER_SAVED,
    reads=[ConfigBlob.build_time],
    writes=[Clock.pm_port, Clock.unix_time, Clock.unix_tsc],
    calls=[acpi_pm_timer, clock_calibrate, rtc_read],
    source="firmware/docs/clock.md",
)
def clock_setup(a: Asm) -> None:
    """Calibrate the TSC and read the date; a date before the build is not believed."""
    a.call(acpi_pm_timer)
    a.mov(CLOCK.it.pm_port, EAX)
    a.mov(EDI, EAX)
    a.call(clock_calibrate)
    a.call(rtc_read)
    a.cmp(RAX, CONFIG.it.build_time)
    with a.if_(B):
        a.xor(EAX, EAX)
    a.mov(CLOCK.it.unix_time, RAX)
    a.rdtsc64()
    a.mov(CLOCK.it.unix_tsc, RAX)
    a.ret()


@routine(
    clobbers=CALLER_SAVED,
    reads=[
        BootInfo.nic_function, BootInfo.region_count, BootInfo.ack_length, BootInfo.ack,
        Memory.total_pages, Memory.free_pages, Memory.record, Clock.tsc_cycles_per_ms,
        Clock.spread_ppm, Clock.source, Clock.unix_time, Watchdog.state, ConfigBlob.local_count,
        CrashRecord.frame, CrashRecord.crashes, CrashRecord.cr2, CrashRecord.told,
    ],
    writes=[CrashRecord.told, Survival.crashed],
    calls=[log_write, record_check],
    source="firmware/docs/boot.md#entry",
)  # fmt: skip
def boot_report(a: Asm) -> None:
    """Log what was found."""
    a.mov(EDX, BOOT.it.nic_function)
    a.mov(RCX, MEMORY.it.total_pages)
    a.shl(RCX, 2)
    a.mov(R8D, BOOT.it.region_count)
    a.mov(R9D, Offset(LinkerSymbol("bss_start")))
    a.sub(R9D, Offset(LinkerSymbol("text_start")))
    a.shr(R9D, 10)
    log(a, BOOT_STARTED)
    a.mov(RDX, CLOCK.it.tsc_cycles_per_ms)
    a.mov(ECX, CLOCK.it.spread_ppm)
    a.mov(R8D, CLOCK.it.source)
    a.mov(R9, CLOCK.it.unix_time)
    a.test(RDX, RDX)
    with a.if_(NZ):
        log(a, BOOT_CLOCK)
    with a.else_():
        a.mov(EDX, R8D)
        a.mov(R8, R9)
        log(a, BOOT_NO_CLOCK)
    a.movzx(ECX, BOOT.it.ack_length)
    a.test(ECX, ECX)
    with a.if_(NZ):
        a.mov(EDX, BOOT.it.ack.m32(BootPacket.your_address.offset))
        log(a, BOOT_ACK)

    # What the last run left behind is told once.
    with a.block() as nothing:
        a.cmp(MEMORY.it.record, 0)
        a.leave(Z, nothing)
        a.call(record_check)
        a.leave(C, nothing)
        record = CrashRecord.at(RSI)
        a.mov(ESI, RECORD_PAGE)
        a.cmp(record.told, 0)
        a.leave(NZ, nothing)
        a.mov(record.told, 1)
        a.mov(SURVIVAL.it.crashed, 1)
        a.mov(RDX, record.frame.m64(TrapFrame.vector.offset))
        a.mov(RCX, record.frame.m64(TrapFrame.rip.offset))
        a.mov(R8D, record.crashes)
        a.mov(R9, record.cr2)
        log(a, BOOT_CRASHED)
    a.mov(RDX, MEMORY.it.free_pages)
    a.mov(ECX, CONFIG.it.local_count)
    a.mov(R8D, WATCHDOG.it.state)
    log(a, BOOT_READY)
    a.ret()


@routine(
    outputs=[Out(CF, "1 = the machine cannot hold a node; a line says why")],
    clobbers=CALLER_SAVED,
    reads=[Memory.free_pages, ConfigBlob.magic],
    writes=[CoreState.now],
    calls=[
        cpu_init, boot_adopt, serial_init, log_setup, memory_setup, log_write, cpu_tables, low_unmap, pic_init,
        clock_setup, acpi_power, smbios_read, boot_nic, boot_rng, watchdog_arm, boot_report,
    ],
    source="firmware/docs/boot.md#entry",
)  # fmt: skip
def node_setup(a: Asm) -> None:
    """Bring the machine from its first 64-bit instruction to where a node can run."""
    a.call(cpu_init)
    a.mov(ESI, BOOT_INFO_ADDRESS)
    a.call(boot_adopt)
    a.call(serial_init)
    a.cmp(CONFIG.it.magic, CONFIG_MAGIC)
    with a.if_(NZ):
        a.mov(EDX, CONFIG.it.magic)
        log(a, BOOT_NO_CONFIG)
        a.stc()
        a.ret()
    a.call(log_setup)
    a.call(memory_setup)
    with a.if_(C):
        a.mov(RDX, MEMORY.it.free_pages)
        log(a, BOOT_NO_MEMORY)
        a.stc()
        a.ret()
    a.call(cpu_tables)
    a.call(low_unmap)
    a.call(pic_init)
    a.call(clock_setup)
    a.call(acpi_power)
    a.call(smbios_read)
    a.call(boot_nic)
    a.call(boot_rng)
    a.call(watchdog_arm)
    a.rdtsc64()
    a.mov(core.now, RAX)
    a.call(boot_report)
    a.clc()
    a.ret()


@routine(
    clobbers=CALLER_SAVED,
    calls=[log_finish],
    noreturn=True,
    source="firmware/docs/boot.md#refusals",
)
def boot_stop(a: Asm) -> None:
    """Print the log to its end and stop for good: a reset would not give more memory."""
    stop = a.label("stop")
    a.call(log_finish)
    a.place(stop)
    a.cli()
    a.hlt()
    a.jmp(stop)


@routine(
    clobbers=CALLER_SAVED,
    calls=[node_setup, boot_stop, node_main],
    noreturn=True,
    source="firmware/docs/boot.md#entry",
)
def node_entry(a: Asm) -> None:
    """Take the stack, set the machine up, become the node."""
    a.mov(ESP, STACK_TOP - STACK_RESERVED)
    a.cld()
    a.call(node_setup)
    with a.if_(C):
        a.call(boot_stop)
    a.call(node_main)
