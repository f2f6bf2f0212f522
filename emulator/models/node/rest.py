"""What the node does between turns."""

from emulator.effects import World, model
from emulator.models.cpu.interrupts import cpu_idle, irq_unmask
from emulator.models.nic.device import nic_irq_ack, nic_irq_disable, nic_irq_enable
from firmware.layouts.log import LOG
from firmware.layouts.nic import NIC, NicState
from firmware.layouts.node import CLOCK, CORE


@model
def node_rest(w: World, deadline: int) -> None:
    """Unprinted lines shorten the rest to a millisecond; frames that came forbid it."""
    if w.g(LOG).head != w.g(LOG).tail:
        soon = (w.g(CORE).now + w.g(CLOCK).tsc_cycles_per_ms) % 2**64
        deadline = min(deadline, soon)
    nic = w.g(NIC)
    if nic.state != NicState.READY or not nic_irq_enable(w):
        if nic.state == NicState.READY and nic.irq_line < 16:
            irq_unmask(w, nic.irq_line)
        cpu_idle(w, deadline)
    nic_irq_disable(w)
    nic_irq_ack(w)
