"""How much of a turn's transmit buffers strangers may use up with questions."""

from firmware.layouts.net import ANSWERS_PER_TURN, NET, NetCounters, NetState
from firmware.layouts.node import CoreState, core
from toolchain.asm import AE, CF, NE, RAX, Asm, Out, routine


@routine(
    outputs=[Out(CF, "1 = this turn has answered enough")],
    clobbers=[RAX],
    reads=[CoreState.now, NetState.answers_at, NetState.answers],
    writes=[NetState.answers_at, NetState.answers, NetCounters.answers_held],
    source="firmware/docs/network.md#answers",
)
def net_answer(a: Asm) -> None:
    """Allow one more answer in this turn, or count that it was held back."""
    a.mov(RAX, core.now)
    a.cmp(RAX, NET.it.answers_at)
    with a.if_(NE):
        a.mov(NET.it.answers_at, RAX)
        a.mov(NET.it.answers, 0)
    a.cmp(NET.it.answers, ANSWERS_PER_TURN)
    with a.if_(AE):
        a.inc(NET.it.counters.answers_held)
        a.stc()
        a.ret()
    a.inc(NET.it.answers)
    a.clc()
    a.ret()
