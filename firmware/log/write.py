"""Lines go into the ring, whole or not at all."""

from collections.abc import Iterator
from contextlib import contextmanager

from firmware.layouts.config import CONFIG, ConfigBlob
from firmware.layouts.log import (
    LEVEL_SILENT,
    LOG,
    LOG_RING,
    LOG_RING_BYTES,
    LOG_TEMPLATES,
    LogState,
)
from firmware.layouts.log_line import LINE_MAX, Level, LogCode
from firmware.layouts.node import CLOCK, Clock, CoreState, core
from firmware.layouts.shard import ShardContext
from firmware.log.text import LINE, SHARD, TEMPLATES, VALUES, in_ms, interpret
from toolchain.asm import (
    AL,
    BE,
    CL,
    EAX,
    EBX,
    ECX,
    EDI,
    EDX,
    NZ,
    R8,
    R8D,
    R9,
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
    A,
    Asm,
    B,
    In,
    Reg32,
    Reg64,
    Region,
    Z,
    mem8,
    mem16,
    routine,
)

RING = Region("log_ring", "LOG_RING_BYTES of node memory, indexed modulo its size")


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
    in_ms(a)
    a.mov(a.local(8, VALUES), value)
    a.test(RBP, RBP)
    with a.if_(NZ):
        a.mov(EAX, ShardContext.at(RBP).shard_id)
        a.mov(a.local(8, VALUES + 8), RAX)
    a.lea(RDI, a.local(1, LINE))

    interpret(a, finished)
    a.place(finished)
    _put(a)
    a.place(done)
    a.ret()


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
