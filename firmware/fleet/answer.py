"""Answers to compare-and-swaps: a sequence is a grant, everything else is no news."""

from firmware.abi import CALLER_SAVED
from firmware.fleet.held import each_held, held_grant, name_slot
from firmware.fleet.tokens import ERROR, key_find, key_number
from firmware.layouts.bus import BUS_IN, BusMessage
from firmware.layouts.fleet import (
    FLEET,
    OPS_MAX,
    STREAM,
    Fleet,
    FleetOp,
    HeldPhase,
    HeldSlot,
)
from firmware.layouts.log import FLEET_RELEASED
from firmware.log import log, log_write
from toolchain.asm import (
    CF,
    EAX,
    ECX,
    EDX,
    NC,
    NE,
    NZ,
    R8,
    R8D,
    R9,
    R12,
    R13,
    R13D,
    RAX,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    Asm,
    C,
    E,
    In,
    Out,
    Reg32,
    Z,
    routine,
)
from toolchain.layout.data import constant

NAMED = constant(
    "fleet_stream_key", b'"stream":"' + STREAM + b'"', "which stream an answer is from"
)
SEQUENCE = constant("fleet_seq_key", b'"seq":', "where a record was stored")


@routine(
    outputs=[
        Out(CF, "1 = it granted nothing"),
        Out(RAX, "revision of the new record; 0 = none"),
    ],
    clobbers=[RCX, RDX, RSI, RDI, R8, R9],
    reads=[BusMessage.status, BusMessage.body, BusMessage.body_len],
    writes=[Fleet.refused],
    calls=[key_find, key_number],
    source="firmware/docs/fleet.md#answers",
)
def answer_read(a: Asm) -> None:
    """Read the answer in hand; what is no grant of the bucket's stream is counted and means nothing."""
    none = a.label("none")
    a.cmp(BUS_IN.it.status, 0)
    a.j(NE, none)

    def body() -> None:
        a.mov(RSI, BUS_IN.it.body)
        a.mov(R8D, BUS_IN.it.body_len)
        a.add(R8, RSI)

    body()
    a.lea(RDI, ERROR.address)
    a.mov(EDX, ERROR.size)
    a.call(key_find)
    a.j(NC, none)
    # Another stream answers whoever names this inbox in a message to it.
    body()
    a.lea(RDI, NAMED.address)
    a.mov(EDX, NAMED.size)
    a.call(key_find)
    a.j(C, none)
    body()
    a.lea(RDI, SEQUENCE.address)
    a.mov(EDX, SEQUENCE.size)
    a.call(key_number)
    a.j(C, none)
    a.test(RAX, RAX)
    a.j(Z, none)
    a.clc()
    a.ret()
    a.place(none)
    a.inc(FLEET.it.refused)
    a.xor(EAX, EAX)
    a.stc()
    a.ret()


@routine(
    inputs=[In(EAX, int, "number of the request that the message in hand answers, not 0")],
    outputs=[Out(CF, "1 = no lease's request has this number")],
    clobbers=CALLER_SAVED,
    reads=[
        HeldSlot.phase,
        HeldSlot.slot,
        HeldSlot.generation,
        HeldSlot.release_inbox,
        FleetOp.op,
        FleetOp.inbox,
    ],
    writes=[HeldSlot.phase],
    calls=[answer_read, held_grant, log_write],
    saves=[RBX, R12, R13],
    source="firmware/docs/fleet.md#answers",
)
def lease_answered(a: Asm, inbox: Reg32) -> None:
    """Give an answer to the operation that it is for."""
    held, op, number = HeldSlot.at(RBX), FleetOp.at(RSI), R13D
    released, granted, none = map(a.label, ("released", "granted", "none"))
    a.mov(number, inbox)
    with each_held(a) as following:
        a.cmp(held.phase, HeldPhase.NONE)
        a.j(E, following)
        a.cmp(held.phase, HeldPhase.GONE)
        a.j(E, following)
        a.cmp(held.phase, HeldPhase.RELEASING)
        with a.if_(E):
            a.cmp(held.release_inbox, number)
            a.j(E, released)
        a.lea(RSI, held.ops.address)
        a.mov(ECX, OPS_MAX)
        with a.loop() as operations:
            with a.block() as other:
                a.cmp(op.op, 0)
                a.leave(E, other)
                a.cmp(op.inbox, number)
                a.j(E, granted)
            a.add(RSI, FleetOp.SIZE)
            a.dec(ECX)
            a.again(NZ, operations)
    a.stc()
    a.ret()

    a.place(granted)
    a.mov(R13, RSI)
    a.call(answer_read)
    a.j(C, none)
    a.mov(RCX, RAX)
    a.mov(RSI, R13)
    a.xor(EDX, EDX)
    a.call(held_grant)
    a.clc()
    a.ret()

    # An ambiguity is not cleared up: the record is not touched again, and runs out.
    a.place(released)
    a.call(answer_read)
    a.j(C, none)
    a.mov(held.phase, HeldPhase.NONE)
    name_slot(a, held)
    a.mov(R8D, 1)
    log(a, FLEET_RELEASED)
    a.place(none)
    a.clc()
    a.ret()
