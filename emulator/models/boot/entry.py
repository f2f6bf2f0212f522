"""The set-up of the machine in 64-bit code."""

from emulator.effects import World, model
from emulator.models.boot.acpi import acpi_pm_timer
from emulator.models.boot.devices import boot_nic, boot_rng, watchdog_arm
from emulator.models.boot.power import acpi_power
from emulator.models.boot.smbios import smbios_read
from emulator.models.cpu.clock import clock_calibrate
from emulator.models.cpu.interrupts import pic_init
from emulator.models.cpu.panic import record_check
from emulator.models.cpu.rtc import rtc_read
from emulator.models.cpu.serial import serial_init
from emulator.models.cpu.setup import cpu_init, cpu_tables
from emulator.models.log import log, log_setup
from emulator.models.memory.pages import memory_init
from emulator.models.memory.windows import dma_map, fault_stacks_map, low_unmap, record_map
from firmware.layouts.boot import BOOT, BOOT_INFO_ADDRESS, BootInfo, BootPacket
from firmware.layouts.config import CONFIG, CONFIG_MAGIC
from firmware.layouts.cpu import WATCHDOG, CrashRecord, TrapFrame
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
from firmware.layouts.memory import MEMORY
from firmware.layouts.node import CLOCK, CORE
from firmware.layouts.survivor import SURVIVAL
from firmware.limits import RECORD_PAGE


@model
def boot_adopt(w: World, source: int) -> None:
    """Copy the facts; the boot's first TSC is the clock's zero."""
    w.write(w.address(BOOT), w.read(source, BootInfo.SIZE))
    w.g(CLOCK).boot_tsc = w.g(BOOT).entry_tsc


@model
def memory_setup(w: World) -> int:
    """What a fault needs comes first."""
    memory_init(w)
    return int(bool(fault_stacks_map(w) or record_map(w) or dma_map(w)))


@model
def clock_setup(w: World) -> None:
    """A date before the build of the image cannot be right."""
    clock = w.g(CLOCK)
    clock.pm_port = acpi_pm_timer(w)
    clock_calibrate(w, clock.pm_port)
    date = rtc_read(w)
    clock.unix_time = date if date >= w.g(CONFIG).build_time else 0
    clock.unix_tsc = w.rdtsc()


@model
def boot_report(w: World) -> None:
    """What was found, in order; a crash record is told once."""
    boot, memory, clock = w.g(BOOT), w.g(MEMORY), w.g(CLOCK)
    size = (w.address("bss_start") - w.address("text_start")) // 1024
    log(w, BOOT_STARTED, None, boot.nic_function, memory.total_pages * 4, boot.region_count, size)
    if clock.tsc_cycles_per_ms:
        found = (clock.tsc_cycles_per_ms, clock.spread_ppm, clock.source, clock.unix_time)
        log(w, BOOT_CLOCK, None, *found)
    else:
        log(w, BOOT_NO_CLOCK, None, clock.source, clock.spread_ppm, clock.unix_time)
    if boot.ack_length:
        at = boot.ack.address + BootPacket.your_address.offset
        log(w, BOOT_ACK, None, w.u32(at), boot.ack_length)
    if memory.record and not record_check(w):
        record = w.view(CrashRecord, RECORD_PAGE)
        trap = w.view(TrapFrame, record.frame.address)
        if not record.told:
            record.told = 1
            w.g(SURVIVAL).crashed = 1
            log(w, BOOT_CRASHED, None, trap.vector, trap.rip, record.crashes, record.cr2)
    log(w, BOOT_READY, None, memory.free_pages, w.g(CONFIG).local_count, w.g(WATCHDOG).state)


@model
def node_setup(w: World) -> int:
    """The order in which the machine comes up."""
    cpu_init(w)
    boot_adopt(w, BOOT_INFO_ADDRESS)
    serial_init(w)
    if w.g(CONFIG).magic != CONFIG_MAGIC:
        log(w, BOOT_NO_CONFIG, None, w.g(CONFIG).magic)
        return 1
    log_setup(w)
    if memory_setup(w):
        log(w, BOOT_NO_MEMORY, None, w.g(MEMORY).free_pages)
        return 1
    cpu_tables(w)
    low_unmap(w)
    pic_init(w)
    clock_setup(w)
    acpi_power(w)
    smbios_read(w)
    boot_nic(w)
    boot_rng(w)
    watchdog_arm(w)
    w.g(CORE).now = w.rdtsc()
    boot_report(w)
    return 0
