"""Interrupts only wake: a handler sets a flag and tells the controller that it is done (decision 4)."""

from firmware.layouts.clock import PIT_CHANNEL_0, PIT_CONTROL, PIT_HZ
from firmware.layouts.cpu import IRQ_BASE, IRQS
from firmware.layouts.node import CLOCK, Clock, CoreState, core
from toolchain.asm import (
    AE,
    AL,
    BE,
    DX,
    EAX,
    ECX,
    EDX,
    NZ,
    R8,
    R8D,
    RAX,
    RCX,
    RDI,
    RDX,
    RSP,
    A,
    Asm,
    In,
    Reg32,
    Reg64,
    Routine,
    Z,
    mem64,
    routine,
)
from toolchain.asm.assembler import STACK

MASTER, MASTER_DATA, SLAVE, SLAVE_DATA = 0x20, 0x21, 0xA0, 0xA1
END_OF_INTERRUPT, READ_IN_SERVICE = 0x20, 0x0B
TIMER_IRQ, CASCADE_IRQ, SPURIOUS_MASTER, SPURIOUS_SLAVE = 0, 2, 7, 15
SETUP: tuple[tuple[int, int], ...] = (
    (MASTER, 0x11), (SLAVE, 0x11),  # begin, edge triggered, cascaded
    (MASTER_DATA, IRQ_BASE), (SLAVE_DATA, IRQ_BASE + 8),
    (MASTER_DATA, 1 << CASCADE_IRQ), (SLAVE_DATA, CASCADE_IRQ),
    (MASTER_DATA, 0x01), (SLAVE_DATA, 0x01),  # 8086 mode
    (MASTER_DATA, 0xFF & ~(1 << TIMER_IRQ | 1 << CASCADE_IRQ)), (SLAVE_DATA, 0xFF),
)  # fmt: skip
"""Port and value, in order (Intel 8259A data sheet)."""
HALT_MS_MAX = 50
"""A wake-up that gets lost costs latency only; the PIT counts no more than 54 ms."""
HALT_TICKS_UNKNOWN = 11_932
"""10 ms, while the TSC says nothing about time."""


@routine(clobbers=[RAX], source="Intel 8259A data sheet")
def pic_init(a: Asm) -> None:
    """Move the interrupts above the exceptions; mask all but the timer and the cascade."""
    # Ten fixed writes, unrolled.
    for port, value in SETUP:
        a.mov(AL, value)
        a.out(port, AL)
    a.ret()


@routine(
    inputs=[In(ECX, int, "input of the controllers, 0..15")],
    clobbers=[RAX, RCX, RDX],
    source="Intel 8259A data sheet, OCW1",
)
def irq_unmask(a: Asm, line: Reg32) -> None:
    """Let an input interrupt again; after each interrupt it is masked until its device was served."""
    a.mov(EDX, MASTER_DATA)
    a.cmp(line, 8)
    with a.if_(AE):
        a.mov(EDX, SLAVE_DATA)
        a.and_(line, 7)
    a.in_(AL, DX)
    a.btr(EAX, line)
    a.out(DX, AL)
    a.ret()


@routine(
    inputs=[In(ECX, int, "input of the controllers, 0..15")],
    clobbers=[RAX, RCX, RDX, R8],
    writes=[CoreState.wake],
    source="Intel 8259A data sheet; decision 4",
)
def irq_handle(a: Asm, line: Reg32) -> None:
    """Wake the node; mask a device's input, for its level stays until the node has served it."""
    done, real = a.label("done"), a.label("real")
    a.mov(core.wake, 1)
    a.mov(R8D, line)
    a.test(line, line)
    a.jz(done)
    a.mov(EDX, MASTER)
    a.test(line, 8)
    with a.if_(NZ):
        a.mov(EDX, SLAVE)
        a.and_(line, 7)
    # The lowest input of a controller also stands for "it went away": then nothing is in service.
    a.cmp(line, SPURIOUS_MASTER)
    a.j(NZ, real)
    a.mov(AL, READ_IN_SERVICE)
    a.out(DX, AL)
    a.in_(AL, DX)
    a.test(AL, 0x80)
    a.j(NZ, real)
    a.cmp(R8D, SPURIOUS_SLAVE)
    a.j(Z, done)  # the master did serve the cascade
    a.ret()
    a.place(real)
    a.inc(EDX)
    a.in_(AL, DX)
    a.bts(EAX, line)
    a.out(DX, AL)
    a.cmp(R8D, 8)
    with a.if_(AE):
        a.mov(AL, END_OF_INTERRUPT)
        a.out(SLAVE, AL)
    a.place(done)
    a.mov(AL, END_OF_INTERRUPT)
    a.out(MASTER, AL)
    a.ret()


_SAVED = (RAX, RCX, RDX, R8)


@routine(
    saves=_SAVED,
    guard=True,
    calls=[irq_handle],
    noreturn=True,
    source="Intel SDM volume 3, 6.14",
)
def irq_common(a: Asm) -> None:
    """Serve the input that the stub pushed, and go on."""
    a.cld()
    a.mov(RCX, mem64(RSP, 8 * len(_SAVED) + 8, ref=STACK))
    a.call(irq_handle)
    for register in reversed(_SAVED):
        a.pop(register)
    a.add(RSP, 16)  # the stub's return address and the input
    a.iretq()


def _stub(line: int) -> Routine:
    """Return the handler of one input."""

    def body(a: Asm) -> None:
        """Push the input."""
        a.push(line)
        a.call(irq_common)

    body.__name__ = f"irq_{line:02}"
    return routine(calls=[irq_common], noreturn=True, source="Intel SDM volume 3, 6.14")(body)


IRQ_STUBS: tuple[Routine, ...] = tuple(_stub(line) for line in range(IRQS))


@routine(
    inputs=[In(RDI, int, "TSC to wake at the latest; all ones = no reason of our own")],
    clobbers=[RAX, RCX, RDX],
    reads=[Clock.tsc_cycles_per_ms],
    writes=[CoreState.wake],
    source="firmware/docs/boot.md#idle",
)
def cpu_idle(a: Asm, deadline: Reg64) -> None:
    """Halt until an interrupt, the deadline, or 50 ms have passed; return at once when it is due."""
    program = a.label("program")
    a.mov(core.wake, 0)
    a.mov(ECX, HALT_TICKS_UNKNOWN)
    a.cmp(CLOCK.it.tsc_cycles_per_ms, 0)
    a.jz(program)
    a.rdtsc64()
    a.mov(RCX, deadline)
    a.sub(RCX, RAX)
    with a.if_(BE):
        a.ret()
    # ticks = cycles * 1193 / cycles per millisecond, rounded down, at least one.
    a.mov(RAX, CLOCK.it.tsc_cycles_per_ms)
    a.imul(RAX, RAX, HALT_MS_MAX)
    a.cmp(RCX, RAX)
    with a.if_(A):
        a.mov(RCX, RAX)
    a.imul(RAX, RCX, PIT_HZ // 1000)
    a.xor(EDX, EDX)
    a.div(CLOCK.it.tsc_cycles_per_ms)
    a.lea(ECX, mem64(RAX, 1, ref=STACK))
    a.place(program)
    a.mov(AL, 0x30)  # channel 0, one-shot
    a.out(PIT_CONTROL, AL)
    a.mov(EAX, ECX)
    a.out(PIT_CHANNEL_0, AL)
    a.shr(EAX, 8)
    a.out(PIT_CHANNEL_0, AL)
    # STI takes effect after HLT, so that no interrupt is lost between them.
    a.sti()
    a.hlt()
    a.cli()
    a.ret()
