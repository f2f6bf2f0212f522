"""The end of a run: the crash record, a last word on the serial port, a reset."""

from firmware.cpu.reset import node_reset
from firmware.cpu.serial import serial_put
from firmware.layouts.config import CONFIG, ConfigBlob
from firmware.layouts.cpu import (
    RECORD_LOG_BYTES,
    RECORD_MAGIC,
    RETURNS_MAX,
    CrashRecord,
    TrapFrame,
)
from firmware.layouts.log import LOG, LOG_RING, LOG_RING_BYTES, LogState
from firmware.layouts.node import CLOCK, Clock, CoreState, core
from firmware.limits import PAGE, RECORD_PAGE, STACK_BYTES, STACK_TOP
from toolchain.asm import (
    AE,
    AL,
    CF,
    CL,
    CR2,
    CR3,
    EAX,
    EBP,
    EBX,
    ECX,
    EDI,
    EDX,
    ESI,
    NZ,
    R8,
    R8D,
    R9,
    RAX,
    RBP,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    A,
    Asm,
    B,
    C,
    In,
    Offset,
    Out,
    Reg32,
    Reg64,
    Region,
    Z,
    mem8,
    mem64,
    routine,
)
from toolchain.asm.assembler import STACK
from toolchain.layout import Data
from toolchain.layout.data import constant
from toolchain.link import LinkerSymbol

TEXT = Region("a text", "zero-terminated, read-only")
BYTES = Region("the bytes summed", "bounded by the caller")
RING = Region("log_ring", "LOG_RING_BYTES of node memory, indexed modulo its size")
CRC_POLYNOMIAL = 0xEDB8_8320
CRC_START = CrashRecord.crashes.offset


def _text(name: str, text: str) -> Data:
    return constant(f"panic_{name}", text.encode() + b"\0", "part of the panic line")


_HEAD = _text("head", "level=error code=node.panic")
_RETURN = _text("return", "level=error code=node.panic_at")
_KEYS = {
    name: _text(name, f" {name}=0x")
    for name in ("vector", "rip", "error", "rsp", "cr2", "shard", "address")
}


@routine(
    inputs=[In(RSI, int, "first byte"), In(ECX, int, "bytes, at least 1")],
    outputs=[Out(EAX, "CRC-32 (IEEE 802.3)")],
    clobbers=[RCX, RDX, RSI],
    reads=[BYTES],
    source="IEEE 802.3 3.2.9; bit by bit, for it runs once",
)
def crc32(a: Asm, first: Reg64, count: Reg32) -> None:
    """Sum bytes so that a damaged record is told from a whole one."""
    a.mov(EAX, -1)
    with a.loop() as each:
        a.movzx(EDX, mem8(first, ref=BYTES))
        a.xor(EAX, EDX)
        # Eight bits, unrolled.
        for _ in range(8):
            a.shr(EAX, 1)
            with a.if_(C):
                a.xor(EAX, CRC_POLYNOMIAL)
        a.inc(first)
        a.dec(count)
        a.again(NZ, each)
    a.not_(EAX)
    a.ret()


@routine(
    outputs=[Out(CF, "0 = a whole record is there")],
    clobbers=[RAX, RCX, RDX, RSI],
    reads=[CrashRecord.magic, CrashRecord.crc],
    calls=[crc32],
    source="firmware/docs/boot.md#crash-record",
)
def record_check(a: Asm) -> None:
    """Tell whether the record page holds what a panic left there."""
    record = CrashRecord.at(RCX)
    a.mov(ECX, RECORD_PAGE)
    a.mov(RAX, RECORD_MAGIC)
    a.cmp(RAX, record.magic)
    with a.if_(NZ):
        a.stc()
        a.ret()
    a.mov(ESI, RECORD_PAGE + CRC_START)
    a.mov(ECX, CrashRecord.SIZE - CRC_START)
    a.call(crc32)
    a.mov(ECX, RECORD_PAGE)
    a.sub(EAX, record.crc)
    a.neg(EAX)  # CF = there is a difference
    a.ret()


@routine(
    inputs=[In(RDI, int, "RSP of what was interrupted")],
    outputs=[Out(RSI, "first quadword to look at"), Out(CF, "1 = none: not the node's stack")],
    clobbers=[RAX],
    source="firmware/docs/boot.md#crash-record",
)
def stack_bounds(a: Asm, pointer: Reg64) -> None:
    """Return where to begin a walk of the node's stack; an overflow begins at its end."""
    a.lea(RAX, mem8(pointer, 7, ref=BYTES))
    a.and_(RAX, -8)
    a.mov(ESI, STACK_TOP - STACK_BYTES)
    a.cmp(RAX, RSI)
    with a.if_(AE):
        a.mov(RSI, RAX)
    with a.else_():
        a.lea(RSI, mem8(RSI, -PAGE, ref=BYTES))
        a.cmp(RAX, RSI)
        with a.if_(B):
            a.ret()
        a.lea(RSI, mem8(RSI, PAGE, ref=BYTES))
    a.cmp(RSI, STACK_TOP)
    a.cmc()
    a.ret()


@routine(
    inputs=[In(RDI, TrapFrame, "what was interrupted")],
    clobbers=[RAX, RCX, RDX, RSI, RDI, R8, R9],
    reads=[
        TrapFrame.rsp, CrashRecord.crashes, ConfigBlob.build_id, Clock.boot_tsc, CoreState.turns,
        CoreState.current_shard, LogState.head, RING, STACK,
    ],
    writes=[CrashRecord],
    calls=[record_check, stack_bounds, crc32],
    saves=[RBX, RBP],
    source="firmware/docs/boot.md#crash-record",
)  # fmt: skip
def record_write(a: Asm, frame: TrapFrame) -> None:
    """Write the crash record; its magic comes last."""
    record = CrashRecord.at(RBX)
    a.mov(RBP, RDI)
    a.mov(EBX, RECORD_PAGE)
    a.call(record_check)
    a.mov(R8D, record.crashes)
    with a.if_(C):
        a.xor(R8D, R8D)
    a.inc(R8D)
    a.mov(RDI, RBX)
    a.mov(ECX, CrashRecord.SIZE // 8)
    a.xor(EAX, EAX)
    a.rep_stosq()
    a.mov(record.crashes, R8D)
    a.lea(RSI, CONFIG.it.build_id.address)
    a.lea(RDI, record.build_id.address)
    a.mov(ECX, 20)
    a.rep_movsb()
    a.rdtsc64()
    a.mov(record.tsc, RAX)
    for source, target in (
        (CLOCK.it.boot_tsc, record.boot_tsc),
        (core.current_shard, record.current_shard),
        (core.turns, record.turns),
        (CR2, record.cr2),
        (CR3, record.cr3),
    ):  # fmt: skip - five values, unrolled
        a.mov(RAX, source)
        a.mov(target, RAX)
    a.mov(RSI, RBP)
    a.lea(RDI, record.frame.address)
    a.mov(ECX, TrapFrame.SIZE // 8)
    a.rep_movsq()
    _returns(a, record)
    _log_tail(a, record)
    a.lea(RSI, mem8(RBX, CRC_START, ref=BYTES))
    a.mov(ECX, CrashRecord.SIZE - CRC_START)
    a.call(crc32)
    a.mov(record.crc, EAX)
    a.mov(RAX, RECORD_MAGIC)
    a.mov(record.magic, RAX)
    a.ret()


def _returns(a: Asm, record: CrashRecord) -> None:
    """Keep what on the stack looks like an address of the image; RBP is the frame."""
    done = a.label("walked")
    frame = TrapFrame.at(RBP)
    a.mov(RDI, frame.rsp)
    a.call(stack_bounds)
    a.j(C, done)
    a.xor(ECX, ECX)
    a.mov(R8, Offset(LinkerSymbol("text_start")))
    a.mov(R9, Offset(LinkerSymbol("text_end")))
    with a.loop() as walk:
        a.mov(RAX, mem64(RSI, ref=STACK))
        with a.block() as no:
            a.cmp(RAX, R8)
            a.leave(B, no)
            a.cmp(RAX, R9)
            a.leave(AE, no)
            a.mov(record.returns.m64(0, index=RCX, scale=8), RAX)
            a.inc(ECX)
            a.cmp(ECX, RETURNS_MAX)
            a.leave(Z, walk)
        a.add(RSI, 8)
        a.cmp(RSI, STACK_TOP)
        a.again(B, walk)
    a.mov(record.returns_count, ECX)
    a.place(done)


def _log_tail(a: Asm, record: CrashRecord) -> None:
    """Keep the last bytes of the log, oldest first."""
    with a.block() as none:
        a.mov(R8, LOG.it.head)
        a.mov(ECX, RECORD_LOG_BYTES)
        a.cmp(R8, RCX)
        a.cmov(B, RCX, R8)
        a.mov(record.log_bytes, ECX)
        a.sub(R8, RCX)
        a.lea(RDI, record.log.address)
        a.lea(RSI, LOG_RING.address)
        a.test(ECX, ECX)
        a.leave(Z, none)
        with a.loop() as copy:
            a.mov(EAX, R8D)
            a.and_(EAX, LOG_RING_BYTES - 1)
            a.mov(AL, mem8(RSI, index=RAX, ref=RING))
            a.stosb()
            a.inc(R8)
            a.dec(ECX)
            a.again(NZ, copy)


@routine(
    inputs=[In(RSI, int, "zero-terminated text")],
    clobbers=[RAX, RCX, RDX, RSI],
    reads=[TEXT],
    calls=[serial_put],
    source="firmware/docs/boot.md#panic",
)
def panic_text(a: Asm, text: Reg64) -> None:
    """Print a text, polling."""
    with a.loop() as characters:
        a.lodsb()
        a.test(AL, AL)
        a.leave(Z, characters)
        a.mov(ECX, EAX)
        a.call(serial_put)
        a.jmp(characters.top)
    a.ret()


@routine(
    inputs=[In(RSI, int, "zero-terminated text before it"), In(RDI, int, "value")],
    clobbers=[RAX, RCX, RDX, RSI, RDI, R8],
    calls=[panic_text, serial_put],
    source="firmware/docs/boot.md#panic",
)
def panic_value(a: Asm, text: Reg64, value: Reg64) -> None:
    """Print a text and sixteen digits, polling."""
    a.call(panic_text)
    a.mov(R8D, 16)
    with a.loop() as digits:
        a.rol(value, 4)
        a.mov(ECX, EDI)
        a.and_(ECX, 15)
        a.add(ECX, ord("0"))
        a.cmp(ECX, ord("9"))
        with a.if_(A):
            a.add(ECX, ord("a") - ord("9") - 1)
        a.call(serial_put)
        a.dec(R8D)
        a.again(NZ, digits)
    a.ret()


@routine(
    inputs=[In(RDI, TrapFrame, "what was interrupted")],
    clobbers=[RAX, RCX, RDX, RSI, RDI, R8],
    reads=[
        TrapFrame.vector, TrapFrame.rip, TrapFrame.error, TrapFrame.rsp, CoreState.current_shard,
        CrashRecord.returns_count, CrashRecord.returns, LogState.head, LogState.tail, RING,
    ],
    writes=[LogState.tail],
    calls=[panic_text, panic_value, serial_put],
    saves=[RBX, RBP],
    source="firmware/docs/boot.md#panic",
)  # fmt: skip
def panic_print(a: Asm, frame: TrapFrame) -> None:
    """Print what waits in the log, then what happened and the addresses on the stack."""
    a.mov(RBX, RDI)
    with a.loop() as waiting:
        a.mov(RAX, LOG.it.tail)
        a.cmp(RAX, LOG.it.head)
        a.leave(Z, waiting)
        a.inc(LOG.it.tail)
        a.and_(EAX, LOG_RING_BYTES - 1)
        a.lea(RSI, LOG_RING.address)
        a.mov(CL, mem8(RSI, index=RAX, ref=RING))
        a.call(serial_put)
        a.jmp(waiting.top)

    a.lea(RSI, _HEAD.address)
    a.call(panic_text)
    interrupted = TrapFrame.at(RBX)
    for name, source in (
        ("vector", interrupted.vector),
        ("rip", interrupted.rip),
        ("error", interrupted.error),
        ("rsp", interrupted.rsp),
        ("cr2", CR2),
        ("shard", core.current_shard),
    ):  # fmt: skip - six values, unrolled
        a.lea(RSI, _KEYS[name].address)
        a.mov(RDI, source)
        a.call(panic_value)
    a.mov(CL, ord("\n"))
    a.call(serial_put)

    record = CrashRecord.at(RBX)
    a.mov(EBX, RECORD_PAGE)
    a.xor(EBP, EBP)
    with a.loop() as returns:
        a.cmp(EBP, record.returns_count)
        a.leave(AE, returns)
        a.lea(RSI, _RETURN.address)
        a.call(panic_text)
        a.lea(RSI, _KEYS["address"].address)
        a.mov(RDI, record.returns.m64(0, index=RBP, scale=8))
        a.call(panic_value)
        a.mov(CL, ord("\n"))
        a.call(serial_put)
        a.inc(EBP)
        a.jmp(returns.top)
    a.ret()


@routine(
    inputs=[In(RDI, int, "TrapFrame of what was interrupted")],
    calls=[record_write, panic_print, node_reset],
    clobbers=[RAX, RCX, RDX, RSI, RDI, R8, R9],
    saves=[RBX],
    noreturn=True,
    source="firmware/docs/boot.md#panic",
)
def panic(a: Asm, frame: Reg64) -> None:
    """Record, print, reset."""
    a.mov(RBX, frame)
    a.call(record_write)
    a.mov(RDI, RBX)
    a.call(panic_print)
    a.call(node_reset)
