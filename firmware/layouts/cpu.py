"""Descriptor tables, trap frames, the crash record, the watchdog."""

from __future__ import annotations

import enum

from firmware.limits import STACK_TOP
from toolchain.asm import Mem64
from toolchain.asm.assembler import STACK
from toolchain.asm.operands import Region, mem64
from toolchain.layout import Global, Struct, array, bytes_, enum32, ptr, u8, u16, u32, u64

SELECTOR_DATA, SELECTOR_CODE, SELECTOR_TSS = 0x10, 0x18, 0x20
"""The same as in the boot program's table, so that CS and SS need no reload."""
MXCSR = 0x1F80
"""All SSE exceptions masked, round to nearest."""
MSR_GS_BASE = 0xC000_0101
EXCEPTIONS = 32
IRQS = 16
IRQ_BASE = EXCEPTIONS
VECTORS = EXCEPTIONS + IRQS
RECOVERY: Mem64[int] = mem64(None, STACK_TOP - 8, ref=STACK)
"""RSP at the guarded call that runs; at the top of the node's stack, above everything else."""
STACK_RESERVED = 64
"""Bytes at the top of the stack for RECOVERY."""


class Vector(enum.IntEnum):
    """Exceptions that get a stack of their own or are never a shard's fault."""

    NMI = 2
    DOUBLE_FAULT = 8
    MACHINE_CHECK = 18


WITH_ERROR_CODE = frozenset({8, 10, 11, 12, 13, 14, 17, 21, 29, 30})
"""Exceptions that push an error code (Intel SDM volume 3, table 6-1)."""


class Gate(Struct):
    """One entry of the IDT."""

    SIZE = 0x10
    offset_low = u16(0x00, "bits 15:0 of the handler")
    selector = u16(0x02, "SELECTOR_CODE")
    stack = u8(0x04, "interrupt stack of the TSS; 0 = the running one")
    kind = u8(0x05, "8Eh: a present interrupt gate of ring 0")
    offset_middle = u16(0x06, "bits 31:16")
    offset_high = u32(0x08, "bits 63:32")


class Idt(Struct):
    """The interrupt descriptor table; vectors beyond it fault."""

    SIZE = VECTORS * Gate.SIZE
    gates = array(0x00, Gate, VECTORS, "by vector")


class Gdt(Struct):
    """The node's descriptors."""

    SIZE = 0x30
    flat = bytes_(0x00, 0x20, "null, 32-bit code, data, 64-bit code", align=8)
    tss_limit = u16(0x20, "limit of the TSS")
    tss_low = u16(0x22, "its address, bits 15:0")
    tss_middle = u8(0x24, "bits 23:16")
    tss_kind = u8(0x25, "89h: an available 64-bit TSS")
    tss_flags = u8(0x26, "0")
    tss_high = u8(0x27, "bits 31:24")
    tss_top = u32(0x28, "bits 63:32")


class Tss(Struct):
    """The task state segment: nothing but stacks. The quadwords are not aligned."""

    SIZE = 0x68
    ist1_low = u32(0x24, "stack of #DF")
    ist1_high = u32(0x28, "its upper half")
    ist2_low = u32(0x2C, "stack of NMI")
    ist2_high = u32(0x30, "its upper half")
    io_map = u16(0x66, "beyond the limit: none")


class TrapFrame(Struct):
    """What `fault_common` and the processor push, lowest address first."""

    SIZE = 0xB8
    r15 = u64(0x00, "R15")
    r14 = u64(0x08, "R14")
    r13 = u64(0x10, "R13")
    r12 = u64(0x18, "R12")
    r11 = u64(0x20, "R11")
    r10 = u64(0x28, "R10")
    r9 = u64(0x30, "R9")
    r8 = u64(0x38, "R8")
    rdi = u64(0x40, "RDI")
    rsi = u64(0x48, "RSI")
    rbp = u64(0x50, "RBP")
    rbx = u64(0x58, "RBX")
    rdx = u64(0x60, "RDX")
    rcx = u64(0x68, "RCX")
    rax = u64(0x70, "RAX")
    stub = ptr(0x78, "where the stub called from")
    vector = u64(0x80, "exception number")
    error = u64(0x88, "error code; 0 where there is none")
    rip = u64(0x90, "address of the instruction")
    cs = u64(0x98, "code segment")
    rflags = u64(0xA0, "flags")
    rsp = u64(0xA8, "stack pointer")
    ss = u64(0xB0, "stack segment")


class Faults(Struct):
    """Faults that were charged to a shard."""

    SIZE = 0x40
    pending = u32(0x00, "1 = the guarded call was cut short; its caller clears it")
    vector = u32(0x04, "exception number")
    rip = u64(0x08, "address of the instruction")
    address = u64(0x10, "CR2")
    error = u64(0x18, "error code")
    shard = ptr(0x20, "ShardContext")
    count = u32(0x28, "since boot")


RECORD_MAGIC = 0x3148_5352_4353_4653
RETURNS_MAX = 24
RECORD_LOG_BYTES = 1024


class CrashRecord(Struct):
    """Why the node stopped; a warm reset keeps the page, the next boot reports it."""

    SIZE = 0xA00
    magic = u64(0x00, "RECORD_MAGIC, stored last")
    crc = u32(0x08, "CRC-32 of the bytes from `crashes` to the end")
    told = u32(0x0C, "1 = a boot has logged it")
    crashes = u32(0x10, "panics in a row without a power cycle")
    returns_count = u32(0x14, "entries of returns")
    build_id = bytes_(0x18, 20, "which image", align=4)
    log_bytes = u32(0x2C, "bytes of log")
    tsc = u64(0x30, "TSC of the panic")
    boot_tsc = u64(0x38, "TSC of the boot")
    cr2 = u64(0x40, "last faulting address")
    cr3 = u64(0x48, "page tables")
    current_shard = ptr(0x50, "whose code ran")
    turns = u64(0x58, "passes of the scheduler")
    frame = bytes_(0x80, TrapFrame.SIZE, "registers", align=8)
    returns = bytes_(0x140, 8 * RETURNS_MAX, "addresses of the image found on the stack", align=8)
    log = bytes_(0x240, RECORD_LOG_BYTES, "last bytes of the log ring")


class WatchdogState(enum.IntEnum):
    """Whether a hang ends in a reset."""

    ABSENT = 0
    ARMED = 1
    INHIBITED = 2


class Watchdog(Struct):
    """The i6300esb watchdog."""

    SIZE = 0x10
    registers = ptr(0x00, "its registers, mapped; 0 = none")
    state = enum32(0x08, WatchdogState, "what it would do")


GDT = Global(
    "gdt",
    Gdt,
    "the node's descriptors",
    init=b"".join(
        d.to_bytes(8, "little")
        for d in (0, 0x00CF_9A00_0000_FFFF, 0x00CF_9200_0000_FFFF, 0x00AF_9A00_0000_FFFF, 0, 0)
    ),
)
IDT = Global("idt", Idt, "interrupt gates", align=16)
TSS = Global("tss", Tss, "stacks of #DF and NMI", align=16)
FAULTS = Global("faults", Faults, "faults that were charged to a shard")
WATCHDOG = Global("watchdog", Watchdog, "the watchdog")
CODE = Region("the stack by quadwords", "walked for addresses of the image, between its bounds")
WATCHDOG_REGISTERS = Region("watchdog registers", "a device window, mapped at boot")
