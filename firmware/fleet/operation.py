"""An operation on a lease: numbered, remembered with its time, and sent."""

from firmware.abi import CALLER_SAVED
from firmware.crypto.drbg import drbg_u64
from firmware.fleet.cas import cas_send
from firmware.fleet.texts import lease_text
from firmware.layouts.fleet import (
    FLEET,
    OPS_MAX,
    RETRY_JITTER_MS,
    RETRY_MIN_MS,
    Fleet,
    FleetOp,
    HeldSlot,
)
from firmware.layouts.node import CLOCK, Clock
from toolchain.asm import (
    CF,
    CL,
    EAX,
    ECX,
    EDX,
    R8,
    R8D,
    R12,
    R12D,
    R13,
    R14,
    R14D,
    RAX,
    RBX,
    RCX,
    RDX,
    Asm,
    C,
    In,
    Out,
    Reg32,
    Reg64,
    routine,
)


@routine(
    inputs=[In(EAX, int, "milliseconds")],
    outputs=[Out(RAX, "a random part of them, in cycles")],
    clobbers=CALLER_SAVED,
    reads=[Clock.tsc_cycles_per_ms],
    calls=[drbg_u64],
    saves=[R12],
    source="firmware/docs/fleet.md#claims",
)
def jitter(a: Asm, milliseconds: Reg32) -> None:
    """Draw a time below so many milliseconds."""
    a.mov(R12D, milliseconds)
    a.imul(R12, CLOCK.it.tsc_cycles_per_ms)
    a.call(drbg_u64)
    a.mul(R12)
    a.mov(RAX, RDX)
    a.ret()


@routine(
    inputs=[
        In(RBX, HeldSlot, "the slot"),
        In(RAX, int, "revision that its record must have"),
    ],
    outputs=[Out(CF, "1 = it was not sent")],
    clobbers=CALLER_SAVED,
    reads=[HeldSlot.ops_next, Clock.tsc_cycles_per_ms, Fleet.op],
    writes=[
        Fleet.op,
        HeldSlot.ops_next,
        HeldSlot.sent_at,
        HeldSlot.last_op,
        HeldSlot.retry_at,
        FleetOp.sent_at,
        FleetOp.op,
        FleetOp.inbox,
    ],
    calls=[lease_text, cas_send, jitter],
    saves=[R12, R13, R14],
    source="firmware/docs/fleet.md#grants",
)
def op_send(a: Asm, held: HeldSlot, expected: Reg64) -> None:
    """Claim or renew: the time is taken first, then the request is written."""
    sent, number, refused = R13, R14D, a.label("refused")
    a.mov(R12, expected)
    a.rdtsc64()
    a.mov(sent, RAX)
    a.mov(number, FLEET.it.op)
    a.inc(number)
    a.mov(FLEET.it.op, number)
    a.mov(EDX, number)
    a.mov(ECX, 1)
    a.call(lease_text)
    a.mov(RAX, R12)
    a.call(cas_send)
    a.j(C, refused)

    op = FleetOp.at(RDX)
    a.movzx(ECX, held.ops_next)
    a.and_(ECX, OPS_MAX - 1)
    a.lea(RDX, held.ops.address)
    a.mov(R8D, ECX)
    a.shl(R8D, FleetOp.SIZE.bit_length() - 1)
    a.add(RDX, R8)
    a.inc(ECX)
    a.mov(held.ops_next, CL)
    a.mov(op.sent_at, sent)
    a.mov(op.op, number)
    a.mov(op.inbox, EAX)
    a.mov(held.sent_at, sent)
    a.mov(held.last_op, number)
    a.mov(EAX, RETRY_JITTER_MS)
    a.call(jitter)
    a.imul(RCX, CLOCK.it.tsc_cycles_per_ms, RETRY_MIN_MS)
    a.add(RAX, RCX)
    a.add(RAX, sent)
    a.mov(held.retry_at, RAX)
    a.clc()
    a.place(refused)
    a.ret()
