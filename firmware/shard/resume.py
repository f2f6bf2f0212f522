"""What survives a transport reset: the Gateway sequence, and only with a valid session."""

from firmware.layouts.shard import SEQUENCE_NONE, SSES_VALID, Session, ShardContext, ShardFlag
from toolchain.asm import CF, NE, R12, R14D, R15D, RAX, RBX, Asm, In, Out, Reg32, Z, routine


@routine(
    inputs=[
        In(RBX, ShardContext, "the shard whose lower layers were reset"),
        In(R14D, int, "Gateway sequence saved before the reset"),
        In(R15D, int, "ShardFlag bits saved before the reset"),
    ],
    clobbers=[R12],
    reads=[ShardContext.session_ptr, Session.valid],
    writes=[ShardContext.sequence, ShardContext.flags],
    source="firmware/docs/lifecycle.md#resume",
)
def restore_resume_state(
    a: Asm, shard: ShardContext, saved_sequence: Reg32, saved_flags: Reg32
) -> None:
    """Restore the sequence when session and sequence are both valid (seed A's order)."""
    no_resume, resume_done = a.label("no_resume"), a.label("resume_done")
    session = Session.at(R12)

    a.mov(R12, shard.session_ptr)
    a.test(R12, R12)
    a.j(Z, no_resume)

    a.cmp(session.valid, SSES_VALID)
    a.j(NE, no_resume)

    # A session without a sequence cannot be resumed safely.
    a.test(saved_flags, ShardFlag.SEQ_VALID)
    a.j(Z, no_resume)

    a.mov(shard.sequence, saved_sequence)
    a.or_(shard.flags, ShardFlag.SEQ_VALID)
    a.jmp(resume_done)

    a.place(no_resume)
    a.mov(shard.sequence, SEQUENCE_NONE)
    a.place(resume_done)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "the shard")],
    outputs=[Out(CF, "1 = the next handshake is a Resume")],
    clobbers=[RAX],
    reads=[ShardContext.session_ptr, ShardContext.flags, Session.valid],
    source="firmware/docs/lifecycle.md#resume",
)
def shard_is_resumable(a: Asm, shard: ShardContext) -> None:
    """Tell whether session and sequence are both valid now."""
    fresh = a.label("fresh")
    a.mov(RAX, shard.session_ptr)
    a.test(RAX, RAX)
    a.jz(fresh)
    a.cmp(Session.at(RAX).valid, SSES_VALID)
    a.jne(fresh)
    a.test(shard.flags, ShardFlag.SEQ_VALID)
    a.jz(fresh)
    a.stc()
    a.ret()
    a.place(fresh)
    a.clc()
    a.ret()
