"""A shard that stops without a word."""

from emulator.effects import World, model
from emulator.models.events.publish import publish_rewind
from emulator.models.log import log_write
from emulator.models.shard.evidence import copy_evidence
from emulator.models.shard.permit import permit_release
from emulator.models.shard.reset import wipe_transport
from emulator.models.shard.resume import restore_resume_state
from emulator.models.tls.transport import tls_abort
from firmware.layouts.log import SHARD_HELD
from firmware.layouts.node import CORE
from firmware.layouts.shard import End, Phase, ShardContext, ShardState


@model
def shard_hold(w: World, shard: int, hold: int) -> None:
    """Back to ASSIGNED without a word; the session in memory stays, FATAL stays FATAL."""
    context = w.view(ShardContext, shard)
    if context.state == ShardState.FATAL:
        return
    if context.state != ShardState.ASSIGNED:
        context.failure = End.LEASE_EXPIRED
        copy_evidence(w, shard)
        publish_rewind(w, shard)
        permit_release(w, shard)
        log_write(w, shard, SHARD_HELD, hold, 0, 0, 0)
        tls_abort(w, shard)
        context.events.open = 0
        if context.evidence.lost:
            context.disconnected_at, context.gap_from = w.g(CORE).now, context.sequence
            context.hole_first = context.hole_last = 0
        sequence, flags = context.sequence, context.flags
        wipe_transport(w, shard)
        restore_resume_state(w, shard, sequence, flags)
        context.state = ShardState.ASSIGNED
    context.phase = Phase.NONE
    context.hold = hold
