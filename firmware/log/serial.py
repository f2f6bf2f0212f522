"""The serial port takes the lines a few bytes at a time."""

from firmware.cpu.serial import COM1, HOLDING_EMPTY, LINE_STATUS, serial_put
from firmware.layouts.log import LOG, LOG_RING, LOG_RING_BYTES, LogState
from firmware.log.write import RING
from toolchain.asm import (
    AL,
    CL,
    DX,
    EAX,
    ECX,
    EDX,
    NZ,
    R8,
    R8D,
    RAX,
    RCX,
    RDX,
    RSI,
    A,
    Asm,
    Z,
    mem8,
    routine,
)

DRAIN_BURSTS = 4
"""Times that one `log_drain` fills the port, when it empties that fast."""


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
