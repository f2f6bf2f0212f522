"""What the node does between turns: it halts until something needs it, and never spins."""

from firmware.abi import CALLER_SAVED
from firmware.cpu.interrupts import cpu_idle, irq_unmask
from firmware.cpu.watchdog import watchdog_kick
from firmware.layouts.log import LOG, LogState
from firmware.layouts.nic import NIC, Nic, NicState
from firmware.layouts.node import CLOCK, Clock, CoreState, core
from firmware.layouts.stop import STOP, Stop, StopPhase
from firmware.nic.device import nic_irq_ack, nic_irq_disable, nic_irq_enable
from firmware.node.main import node_init
from firmware.node.off import node_off
from firmware.node.step import node_step
from toolchain.asm import (
    BE,
    ECX,
    NE,
    R12,
    RAX,
    RDI,
    Asm,
    B,
    C,
    E,
    In,
    Reg64,
    routine,
)

IRQ_LINES = 16


@routine(
    inputs=[In(RDI, int, "TSC by which the next turn must start; all ones = only on a frame")],
    clobbers=CALLER_SAVED,
    reads=[
        CoreState.now,
        Clock.tsc_cycles_per_ms,
        LogState.head,
        LogState.tail,
        Nic.irq_line,
        Nic.state,
    ],
    calls=[nic_irq_enable, irq_unmask, cpu_idle, nic_irq_disable, nic_irq_ack],
    saves=[R12],
    source="firmware/docs/boot.md#idle; decision 4",
)
def node_rest(a: Asm, deadline: Reg64) -> None:
    """Halt until the deadline or the card's interrupt; with lines to print, a millisecond at most."""
    awake, halt = a.label("awake"), a.label("halt")
    a.mov(R12, deadline)

    # The serial port takes a few bytes a turn; waiting lines ask for another turn soon.
    a.mov(RAX, LOG.it.head)
    a.cmp(RAX, LOG.it.tail)
    with a.if_(NE):
        a.mov(RAX, core.now)
        a.add(RAX, CLOCK.it.tsc_cycles_per_ms)
        a.cmp(RAX, R12)
        a.cmov(B, R12, RAX)

    # The card may interrupt only while the node halts; frames that came meanwhile forbid that.
    a.cmp(NIC.it.state, NicState.READY)
    a.j(NE, halt)
    a.call(nic_irq_enable)
    a.j(C, awake)
    a.movzx(ECX, NIC.it.irq_line)
    a.cmp(ECX, IRQ_LINES)
    with a.if_(B):
        a.call(irq_unmask)
    a.place(halt)
    a.mov(RDI, R12)
    a.call(cpu_idle)
    a.place(awake)
    a.call(nic_irq_disable)
    a.call(nic_irq_ack)
    a.ret()


@routine(
    clobbers=CALLER_SAVED,
    reads=[CoreState.now, Stop.phase],
    calls=[node_init, node_step, watchdog_kick, node_rest, node_off],
    noreturn=True,
    source="firmware/docs/layers.md",
)
def node_main(a: Asm) -> None:
    """Start the node, then turn after turn: step, kick the watchdog, rest; until it is stopped."""
    turn = a.label("turn")
    a.call(node_init)
    a.place(turn)
    a.call(node_step)
    a.cmp(STOP.it.phase, StopPhase.OFF)
    with a.if_(E):
        a.call(node_off)
    a.mov(RDI, RAX)
    a.call(watchdog_kick)
    a.cmp(RDI, core.now)
    a.j(BE, turn)
    a.call(node_rest)
    a.jmp(turn)
