"""The verbs of the control channel with which a listener takes, renews and gives up its place."""

from firmware.abi import CALLER_SAVED
from firmware.events.subscribers import events_subscribe, events_unsubscribe
from firmware.layouts.control import (
    CONTROL,
    CONTROL_PAYLOAD,
    Control,
    ControlRequest,
    ControlResult,
)
from firmware.layouts.events import EVENT_SHARDS_ALL
from firmware.layouts.node import CLOCK, Clock
from firmware.node.verbs import HANDLER_INPUTS, HANDLER_OUTPUTS
from toolchain.asm import (
    EAX,
    ECX,
    EDX,
    R8D,
    R9D,
    R10D,
    RAX,
    RDX,
    RSI,
    A,
    Asm,
    C,
    Reg32,
    Reg64,
    Z,
    mem32,
    routine,
)

PAYLOAD_BYTES = 8
"""First shard and how many, 32 bits each; without them a listener gets all shards."""


@routine(
    inputs=HANDLER_INPUTS,
    outputs=HANDLER_OUTPUTS,
    clobbers=CALLER_SAVED,
    reads=[
        ControlRequest.argument,
        CONTROL_PAYLOAD,
        Control.asker,
        Control.asker_port,
        Clock.tsc_cycles_per_ms,
    ],
    calls=[events_subscribe],
    source="firmware/docs/events.md#places",
)
def control_subscribe(
    a: Asm, request: ControlRequest, length: Reg32, answer: Reg64, room: Reg32
) -> None:
    """Take or renew a place for whoever asked; the value is how many events it has lost so far."""
    bad, asked = a.label("bad"), a.label("asked")
    a.mov(RAX, request.argument)
    a.mov(EDX, -1)
    a.cmp(RAX, RDX)
    a.j(A, bad)
    a.xor(R9D, R9D)
    a.mov(R10D, EVENT_SHARDS_ALL)
    a.test(length, length)
    a.jz(asked)
    a.cmp(length, PAYLOAD_BYTES)
    a.jne(bad)
    a.mov(R9D, mem32(RSI, ControlRequest.SIZE, ref=CONTROL_PAYLOAD))
    a.mov(R10D, mem32(RSI, ControlRequest.SIZE + 4, ref=CONTROL_PAYLOAD))
    a.place(asked)
    a.mov(ECX, EAX)
    a.mov(EDX, CONTROL.it.asker)
    a.mov(R8D, CONTROL.it.asker_port)
    a.call(events_subscribe)
    with a.if_(C):
        a.mov(EAX, ControlResult.LISTENERS_FULL)
        a.mov(ECX, ControlResult.NO_CLOCK)
        a.cmp(CLOCK.it.tsc_cycles_per_ms, 0)
        a.cmov(Z, EAX, ECX)
        a.xor(EDX, EDX)
        a.xor(ECX, ECX)
        a.ret()
    a.mov(RDX, RAX)
    a.xor(ECX, ECX)
    a.xor(EAX, EAX)  # ControlResult.DONE
    a.ret()
    a.place(bad)
    a.mov(EAX, ControlResult.ARGUMENT)
    a.xor(EDX, EDX)
    a.xor(ECX, ECX)
    a.ret()


@routine(
    inputs=HANDLER_INPUTS,
    outputs=HANDLER_OUTPUTS,
    clobbers=CALLER_SAVED,
    reads=[Control.asker, Control.asker_port],
    calls=[events_unsubscribe],
    source="firmware/docs/events.md#places",
)
def control_unsubscribe(
    a: Asm, request: ControlRequest, length: Reg32, answer: Reg64, room: Reg32
) -> None:
    """Give up the place of whoever asked; who has none is told the same."""
    a.mov(EDX, CONTROL.it.asker)
    a.mov(R8D, CONTROL.it.asker_port)
    a.call(events_unsubscribe)
    a.xor(EDX, EDX)
    a.xor(ECX, ECX)
    a.xor(EAX, EAX)  # ControlResult.DONE
    a.ret()
