"""What survives a transport reset."""

from emulator.effects import World, model
from firmware.layouts.shard import SEQUENCE_NONE, SSES_VALID, Session, ShardContext, ShardFlag


@model
def restore_resume_state(w: World, shard: int, saved_sequence: int, saved_flags: int) -> None:
    """Both conditions or none: a valid session, and a sequence that was meaningful."""
    context = w.view(ShardContext, shard)
    pointer = context.session_ptr
    resumable = pointer != 0 and w.view(Session, pointer).valid == SSES_VALID
    if resumable and saved_flags & ShardFlag.SEQ_VALID:
        context.sequence = saved_sequence
        context.flags = context.flags | ShardFlag.SEQ_VALID
    else:
        context.sequence = SEQUENCE_NONE


@model
def shard_is_resumable(w: World, shard: int) -> int:
    """A Resume needs a valid session object and a meaningful sequence."""
    context = w.view(ShardContext, shard)
    pointer = context.session_ptr
    session_valid = pointer != 0 and w.view(Session, pointer).valid == SSES_VALID
    return int(session_valid and bool(context.flags & ShardFlag.SEQ_VALID))
