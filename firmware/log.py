"""The log: lines go into a ring and leave by the serial port a few bytes at a time."""

from collections.abc import Iterator
from contextlib import contextmanager

from firmware.cpu.serial import COM1, HOLDING_EMPTY, LINE_STATUS, serial_put
from firmware.layouts.config import CONFIG, ConfigBlob
from firmware.layouts.log import (
    LEVEL_SILENT,
    LOG,
    LOG_RING,
    LOG_RING_BYTES,
    LOG_TEMPLATES,
    LogState,
)
from firmware.layouts.log_line import IN_CONTEXT, LINE_MAX, NAMES_END, Level, LogCode, Render
from firmware.layouts.node import CLOCK, Clock, CoreState, core
from firmware.layouts.shard import ShardContext
from toolchain.asm import (
    AL,
    AX,
    BE,
    CL,
    DL,
    DX,
    EAX,
    EBX,
    ECX,
    EDI,
    EDX,
    NZ,
    R8,
    R8B,
    R8D,
    R9,
    R9B,
    R9D,
    R10,
    R11,
    R11D,
    RAX,
    RBP,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    RSP,
    A,
    Asm,
    B,
    In,
    Label,
    Reg32,
    Reg64,
    Region,
    S,
    Z,
    mem8,
    mem16,
    mem32,
    mem64,
    routine,
)
from toolchain.asm.assembler import STACK

TEMPLATES = Region("log_templates", "read-only texts; offsets in it are made by build_templates")
RING = Region("log_ring", "LOG_RING_BYTES of node memory, indexed modulo its size")
COMPUTED = Region("nothing", "LEA only computes")
SHARD = Region("shard", "the fields of the line's shard that its code names")
# Locals of log_write: six values, then room for digits (written from the end), then the line.
VALUES, DIGITS_END, LINE = 0, 72, 72
DRAIN_BURSTS = 4
"""Times that one `log_drain` fills the port, when it empties that fast."""


def log(a: Asm, code: LogCode, shard: Reg64 | None = None) -> None:
    """Write a line whose values are in RDX, RCX, R8, R9 in the order of its keys.

    Args:
        a: The assembler.
        code: The line.
        shard: Register with the ShardContext, or None for the node's own lines.
    """
    if code.of_shard and shard is None:
        raise ValueError(f"log code {code.name} reads its shard; name the register that holds it")
    for reg in (EDX, ECX, R8D, R9D)[len(code.given) :]:
        a.xor(reg, reg)
    if shard is None:
        a.xor(EDI, EDI)
    elif shard is not RDI:
        a.mov(RDI, shard)
    a.mov(EAX, code)
    a.call(log_write)


@contextmanager
def at_level(a: Asm, level: Level) -> Iterator[None]:
    """Emit what runs only when lines of `level` are written: their values cost nothing otherwise."""
    a.cmp(LOG.it.level, level)
    with a.if_(BE):
        yield


def _in_ms(a: Asm) -> None:
    """Turn cycles in RAX into milliseconds; 0 while the clock is unknown. Clobbers RCX, RDX."""
    a.mov(RCX, CLOCK.it.tsc_cycles_per_ms)
    a.xor(EDX, EDX)
    a.test(RCX, RCX)
    with a.if_(Z):
        a.xor(EAX, EAX)
    with a.else_():
        a.div(RCX)


@routine(
    inputs=[
        In(RDI, int, "ShardContext, or 0 for the node"),
        In(EAX, int, "LogCode"),
        In(RDX, int, "first value"),
        In(RCX, int, "second value"),
        In(R8, int, "third value"),
        In(R9, int, "fourth value"),
    ],
    clobbers=[RAX, RCX, RDX, RSI, RDI, R8, R9, R10, R11],
    saves=[RBX, RBP],
    stack=LINE + LINE_MAX,
    reads=[
        TEMPLATES, LogState.level, LogState.head, LogState.tail, Clock.boot_tsc, Clock.tsc_cycles_per_ms,
        CoreState.now, ShardContext.shard_id, SHARD,
    ],
    writes=[LogState.head, LogState.dropped],
    source="firmware/docs/log.md#line",
)  # fmt: skip
def log_write(
    a: Asm, shard: Reg64, code: Reg32, first: Reg64, second: Reg64, third: Reg64, fourth: Reg64
) -> None:
    """Put one line into the ring, whole or not at all; never wait."""
    table, body, value = R10, RBX, RAX
    done, finished = a.label("done"), a.label("finished")

    # Values 2 to 5 are the caller's; 0 is the time, 1 the shard.
    for n, register in enumerate((first, second, third, fourth)):
        a.mov(a.local(8, VALUES + 8 * (n + 2)), register)
    a.mov(RBP, shard)

    # The offsets begin with those of the prefixes, one for each level.
    a.mov(code, code)
    a.lea(table, LOG_TEMPLATES.address)
    a.movzx(EBX, mem16(table, 2 * len(Level), index=RAX, scale=2, ref=TEMPLATES))
    a.add(body, table)
    a.movzx(ECX, mem8(body, ref=TEMPLATES))
    a.cmp(CL, LOG.it.level)
    a.j(B, done)
    a.movzx(R11D, mem16(table, index=RCX, scale=2, ref=TEMPLATES))
    a.lea(RSI, mem8(table, index=R11, ref=TEMPLATES))

    a.mov(value, core.now)
    a.sub(value, CLOCK.it.boot_tsc)
    _in_ms(a)
    a.mov(a.local(8, VALUES), value)
    a.test(RBP, RBP)
    with a.if_(NZ):
        a.mov(EAX, ShardContext.at(RBP).shard_id)
        a.mov(a.local(8, VALUES + 8), RAX)
    a.lea(RDI, a.local(1, LINE))

    _interpret(a, finished)
    a.place(finished)
    _put(a)
    a.place(done)
    a.ret()


def _interpret(a: Asm, finished: Label) -> None:
    """Copy template text to the line; render a value at each op.

    Registers: RSI template, RDI line, RBX text of the code (0 once it is being copied), R9 value,
    R8 radix, R10 table, R11 octets of an IPv4 address that still follow.
    """
    template, operation, more = a.label("template"), a.label("operation"), a.label("more")
    number, names, name = a.label("number"), a.label("names"), a.label("name")
    a.place(template)
    a.lodsb()
    a.test(AL, AL)
    a.j(S, operation)
    a.jz(more)
    a.stosb()
    a.jmp(template)
    # The prefix is followed by the text of the code, which is followed by nothing.
    a.place(more)
    a.test(RBX, RBX)
    a.jz(finished)
    a.lea(RSI, mem8(RBX, 1, ref=TEMPLATES))
    a.xor(EBX, EBX)
    a.jmp(template)

    a.place(operation)
    a.mov(ECX, EAX)
    a.and_(ECX, 7)
    a.cmp(ECX, IN_CONTEXT)
    with a.if_(Z):
        _from_shard(a)
    with a.else_():
        a.mov(R9, mem64(RSP, VALUES, index=RCX, scale=8, ref=STACK))
    a.xor(R11D, R11D)
    a.mov(R8D, 10)
    a.and_(AL, 0x78)
    a.cmp(AL, Render.NAMES << 3)
    a.jz(names)
    with a.if_(A):
        a.cmp(AL, Render.SHARD << 3)
        a.j(A, name)
        # SHARD: nothing for the node's own lines.
        a.test(RBP, RBP)
        a.jz(template)
        a.mov(RAX, int.from_bytes(b" shard=\0", "little"))
        a.mov(mem64(RDI, ref=STACK), RAX)
        a.add(RDI, 7)
        a.jmp(number)
    a.cmp(AL, Render.IP << 3)
    with a.if_(A):  # MS
        a.mov(RAX, R9)
        _in_ms(a)
        a.mov(R9, RAX)
        a.jmp(number)
    with a.if_(Z):
        a.mov(R9D, R9D)
        a.mov(R11D, 3)
        a.jmp(number)
    a.cmp(AL, Render.HEX << 3)
    with a.if_(Z):
        a.mov(mem16(RDI, ref=STACK), int.from_bytes(b"0x", "little"))
        a.add(RDI, 2)
        a.mov(R8D, 16)

    _number(a, number, template)
    _name(a, names, number, template)
    _word(a, name, template)


def _from_shard(a: Asm) -> None:
    """R9 := the value in the shard that the template names; exactly its bytes. Clobbers RCX, RDX."""
    loaded = a.label("loaded")
    a.movzx(ECX, mem16(RSI, ref=TEMPLATES))
    a.add(RSI, 2)
    a.mov(EDX, ECX)
    a.and_(EDX, 3)
    a.shr(ECX, 2)
    a.add(RCX, RBP)
    a.sub(EDX, 1)
    with a.if_(B):
        a.movzx(R9D, mem8(RCX, ref=SHARD))
        a.jmp(loaded)
    with a.if_(Z):
        a.movzx(R9D, mem16(RCX, ref=SHARD))
        a.jmp(loaded)
    a.sub(EDX, 1)
    with a.if_(Z):
        a.mov(R9D, mem32(RCX, ref=SHARD))
    with a.else_():
        a.mov(R9, mem64(RCX, ref=SHARD))
    a.place(loaded)


def _number(a: Asm, number: Label, template: Label) -> None:
    """Print R9 in radix R8; of an address one octet, R11 more to come."""
    a.place(number)
    a.mov(RAX, R9)
    a.test(R11D, R11D)
    with a.if_(NZ):
        a.movzx(EAX, R9B)
    a.lea(RCX, a.local(1, DIGITS_END))
    with a.loop() as digits:
        a.xor(EDX, EDX)
        a.div(R8)
        a.add(DL, ord("0"))
        a.cmp(DL, ord("9"))
        with a.if_(A):
            a.add(DL, ord("a") - ord("9") - 1)
        a.dec(RCX)
        a.mov(mem8(RCX, ref=STACK), DL)
        a.test(RAX, RAX)
        a.again(NZ, digits)
    a.mov(RDX, RSI)
    a.mov(RSI, RCX)
    a.lea(RAX, a.local(1, DIGITS_END))
    a.sub(RAX, RCX)
    a.mov(RCX, RAX)
    a.rep_movsb()
    a.mov(RSI, RDX)
    a.sub(R11D, 1)
    a.j(B, template)
    a.mov(AL, ord("."))
    a.stosb()
    a.shr(R9, 8)
    a.jmp(number)


def _name(a: Asm, names: Label, number: Label, template: Label) -> None:
    """Print the text of value R9; of one without a text the table's last text and the number."""
    known = a.label("known")
    a.place(names)
    a.lodsw()
    a.movzx(ECX, AX)
    a.add(RCX, R10)
    with a.loop() as search:
        a.movzx(EDX, mem16(RCX, ref=TEMPLATES))
        a.movzx(EAX, mem8(RCX, 2, ref=TEMPLATES))
        a.add(RCX, 3)
        a.cmp(EDX, NAMES_END)
        a.leave(Z, search)
        a.cmp(RDX, R9)
        a.jz(known)
        a.add(RCX, RAX)
        a.jmp(search.top)
    a.place(known)
    a.mov(R11, RSI)
    a.mov(RSI, RCX)
    a.mov(ECX, EAX)
    a.rep_movsb()
    a.mov(RSI, R11)
    a.xor(R11D, R11D)
    a.cmp(EDX, NAMES_END)
    a.jz(number)
    a.jmp(template)


def _word(a: Asm, word: Label, template: Label) -> None:
    """Print a name that a peer sent: R9 characters, at most as many as the template says."""
    a.place(word)
    a.movzx(EDX, mem16(RSI, ref=TEMPLATES))
    a.movzx(ECX, mem8(RSI, 2, ref=TEMPLATES))
    a.add(RSI, 3)
    a.add(RDX, RBP)
    a.cmp(R9D, ECX)
    a.cmov(B, ECX, R9D)
    a.test(ECX, ECX)
    a.jz(template)
    with a.loop() as characters:
        a.mov(AL, mem8(RDX, ref=SHARD))
        a.inc(RDX)
        with a.block() as printed:
            a.cmp(AL, ord("_"))
            a.leave(Z, printed)
            a.lea(R8D, mem8(RAX, -ord("0"), ref=COMPUTED))
            a.cmp(R8B, 10)
            a.leave(B, printed)
            a.lea(R8D, mem8(RAX, -ord("A"), ref=COMPUTED))
            a.cmp(R8B, 26)
            a.leave(B, printed)
            a.mov(AL, ord("?"))
        a.stosb()
        a.dec(ECX)
        a.again(NZ, characters)
    a.jmp(template)


def _put(a: Asm) -> None:
    """Copy the line to the ring when all of it fits; else count it."""
    length, at, ring = R8, RDI, R9
    a.lea(RSI, a.local(1, LINE))
    a.sub(RDI, RSI)
    a.mov(length, RDI)
    a.mov(RAX, LOG.it.head)
    a.mov(RDX, RAX)
    a.sub(RDX, LOG.it.tail)
    a.add(RDX, length)
    a.cmp(RDX, LOG_RING_BYTES)
    with a.if_(A):
        a.inc(LOG.it.dropped)
        a.ret()
    a.lea(ring, LOG_RING.address)
    a.lea(RDX, mem8(RAX, index=length, ref=RING))
    a.mov(LOG.it.head, RDX)
    # In two runs: to the end of the ring, and the rest from its start.
    a.and_(EAX, LOG_RING_BYTES - 1)
    a.lea(at, mem8(ring, index=RAX, ref=RING))
    a.mov(ECX, LOG_RING_BYTES)
    a.sub(ECX, EAX)
    a.cmp(RCX, length)
    a.cmov(A, RCX, length)
    a.sub(length, RCX)
    a.rep_movsb()
    a.mov(RDI, ring)
    a.mov(RCX, length)
    a.rep_movsb()


@routine(
    clobbers=[RAX, RCX, RDX, RSI, R8],
    reads=[RING, LogState.head, LogState.tail, LogState.burst],
    writes=[LogState.tail],
    source="firmware/docs/log.md#serial",
)
def log_drain(a: Asm) -> None:
    """Send what the serial port takes at once; never wait for it."""
    empty = a.label("empty")
    a.mov(R8D, DRAIN_BURSTS)
    with a.loop() as bursts:
        a.mov(EDX, COM1 + LINE_STATUS)
        a.in_(AL, DX)
        a.test(AL, HOLDING_EMPTY)
        a.j(Z, empty)
        a.mov(EDX, COM1)
        a.mov(ECX, LOG.it.burst)
        with a.loop() as sending:
            a.mov(RAX, LOG.it.tail)
            a.cmp(RAX, LOG.it.head)
            a.j(Z, empty)
            a.inc(LOG.it.tail)
            a.and_(EAX, LOG_RING_BYTES - 1)
            a.lea(RSI, LOG_RING.address)
            a.mov(AL, mem8(RSI, index=RAX, ref=RING))
            a.out(DX, AL)
            a.sub(ECX, 1)
            a.again(A, sending)
        a.dec(R8D)
        a.again(NZ, bursts)
    a.place(empty)
    a.ret()


@routine(
    clobbers=[RAX],
    reads=[ConfigBlob.log_level, ConfigBlob.serial],
    writes=[LogState.level],
    source="firmware/docs/log.md#levels",
)
def log_setup(a: Asm) -> None:
    """Take the level from the configuration; without a serial port nothing is written."""
    a.mov(AL, CONFIG.it.log_level)
    a.cmp(CONFIG.it.serial, 0)
    with a.if_(Z):
        a.mov(AL, LEVEL_SILENT)
    a.mov(LOG.it.level, AL)
    a.ret()


@routine(
    clobbers=[RAX, RCX, RDX, RSI],
    reads=[LogState.head, LogState.tail, RING],
    writes=[LogState.tail],
    calls=[serial_put],
    source="firmware/docs/log.md",
)
def log_finish(a: Asm) -> None:
    """Print the log to its end and wait for the port: only where nothing else is left to do."""
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
    a.ret()
