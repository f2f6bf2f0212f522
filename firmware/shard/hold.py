"""A shard that stops without a word to its peer: back to ASSIGNED, with the reason why it waits."""

from firmware.abi import CALLER_SAVED
from firmware.events.publish import publish_rewind
from firmware.layouts.events import EventStream
from firmware.layouts.log import SHARD_HELD
from firmware.layouts.node import CoreState, core
from firmware.layouts.shard import End, Evidence, Phase, ShardContext, ShardState
from firmware.log import log, log_write
from firmware.shard.evidence import copy_evidence
from firmware.shard.permit import permit_release
from firmware.shard.reset import wipe_transport
from firmware.shard.resume import restore_resume_state
from firmware.tls.transport import tls_abort
from toolchain.asm import (
    AL,
    EAX,
    EBP,
    EDX,
    NE,
    R12,
    R14,
    R14D,
    R15,
    R15D,
    RAX,
    RBP,
    RBX,
    Asm,
    In,
    Reg32,
    Z,
    routine,
)


@routine(
    inputs=[
        In(RBX, ShardContext, "the shard"),
        In(EDX, int, "Hold: why it waits"),
    ],
    clobbers=CALLER_SAVED,
    reads=[
        ShardContext.state,
        ShardContext.sequence,
        ShardContext.flags,
        Evidence.lost,
        CoreState.now,
    ],
    writes=[
        ShardContext.state,
        ShardContext.hold,
        ShardContext.phase,
        ShardContext.failure,
        ShardContext.disconnected_at,
        ShardContext.gap_from,
        ShardContext.hole_first,
        ShardContext.hole_last,
        EventStream.open,
    ],
    calls=[
        copy_evidence,
        publish_rewind,
        permit_release,
        tls_abort,
        wipe_transport,
        restore_resume_state,
        log_write,
    ],
    saves=[R12, R14, R15, RBP],
    source="firmware/docs/lifecycle.md#lease-expiry",
)
def shard_hold(a: Asm, shard: ShardContext, hold: Reg32) -> None:
    """Stop one shard without a word to the peer; FATAL stays FATAL, ASSIGNED gets the new hold."""
    a.cmp(shard.state, ShardState.FATAL)
    with a.if_(Z):
        a.ret()
    a.mov(EBP, hold)

    # The end is recorded as what it is, whatever else was pending.
    a.cmp(shard.state, ShardState.ASSIGNED)
    with a.if_(NE):
        a.mov(shard.failure, End.LEASE_EXPIRED)
        a.call(copy_evidence)
        a.call(publish_rewind)
        a.call(permit_release)
        a.mov(EDX, EBP)
        log(a, SHARD_HELD, RBX)
        # The expired lease keeps the transport silent; this frees the connection's port. The
        # session in memory stays for a later grant.
        a.call(tls_abort)
        a.mov(shard.events.open, 0)  # whoever has half an event is not told: nothing leaves
        # The outage begins here, and what is known of its gap, as after any other loss.
        a.cmp(shard.evidence.lost, 0)
        with a.if_(NE):
            a.mov(RAX, core.now)
            a.mov(shard.disconnected_at, RAX)
            a.mov(EAX, shard.sequence)
            a.mov(shard.gap_from, EAX)
            a.mov(shard.hole_first, 0)
            a.mov(shard.hole_last, 0)
        a.mov(R14D, shard.sequence)
        a.mov(R15D, shard.flags)
        a.call(wipe_transport)
        a.call(restore_resume_state)
        a.mov(shard.state, ShardState.ASSIGNED)
    a.mov(shard.phase, Phase.NONE)
    a.mov(EAX, EBP)
    a.mov(shard.hold, AL)
    a.ret()
