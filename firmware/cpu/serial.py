"""COM1: set-up, and the polled output that only a panic uses."""

from firmware.layouts.log import LOG, LogState
from toolchain.asm import AL, CL, DX, EAX, ECX, EDX, NZ, RAX, RCX, RDX, Asm, In, Reg8, Z, routine

COM1 = 0x3F8
"""Data register; the others follow it (16550 data sheet, table II)."""
DIVISOR_LOW, INTERRUPTS, FIFO_CONTROL, LINE_CONTROL, MODEM_CONTROL, LINE_STATUS = 0, 1, 2, 3, 4, 5
HOLDING_EMPTY = 0x20
FIFO_BYTES = 16
SPIN_LIMIT = 10_000
"""Polls for one byte; a port that never becomes ready costs a panic nothing but time."""

SETUP: tuple[tuple[int, int], ...] = (
    (INTERRUPTS, 0x00),
    (LINE_CONTROL, 0x80),  # divisor latch open
    (DIVISOR_LOW, 0x01),  # 115200 baud
    (INTERRUPTS, 0x00),  # its high half
    (LINE_CONTROL, 0x03),  # 8 data bits, no parity, 1 stop bit
    (FIFO_CONTROL, 0xC7),
    (MODEM_CONTROL, 0x03),
)
"""Register and value, in order."""


@routine(
    clobbers=[RAX, RDX],
    writes=[LogState.burst],
    source="National PC16550D data sheet, 8.1-8.7",
)
def serial_init(a: Asm) -> None:
    """Set COM1 to 115200 8n1 without interrupts; note how much it takes at once."""
    # Seven fixed writes, unrolled.
    for register, value in SETUP:
        a.mov(EDX, COM1 + register)
        a.mov(EAX, value)
        a.out(DX, AL)
    # Both upper bits of the interrupt identification say that the FIFO works.
    a.mov(EDX, COM1 + FIFO_CONTROL)
    a.in_(AL, DX)
    a.and_(AL, 0xC0)
    a.cmp(AL, 0xC0)
    with a.if_(Z):
        a.mov(LOG.it.burst, FIFO_BYTES)
    with a.else_():
        a.mov(LOG.it.burst, 1)
    a.ret()


@routine(
    inputs=[In(CL, int, "the byte")],
    clobbers=[RAX, RCX, RDX],
    source="National PC16550D data sheet, 8.4",
)
def serial_put(a: Asm, value: Reg8) -> None:
    """Send one byte, waiting for the port within a bound: for the panic path only."""
    a.movzx(ECX, value)
    a.or_(ECX, SPIN_LIMIT << 8)
    a.mov(EDX, COM1 + LINE_STATUS)
    with a.loop() as ready:
        a.in_(AL, DX)
        a.test(AL, HOLDING_EMPTY)
        a.leave(NZ, ready)
        a.sub(ECX, 1 << 8)
        a.test(ECX, 0xFFFF_FF00)
        a.again(NZ, ready)
    a.mov(EDX, COM1)
    a.mov(EAX, ECX)
    a.out(DX, AL)
    a.ret()
