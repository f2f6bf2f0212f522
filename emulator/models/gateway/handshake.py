"""The answer to Hello."""

from emulator.effects import World, model
from emulator.models.fleet.ticket import ticket_spend, ticket_take
from emulator.models.gateway.pace import gateway_pace_clear
from emulator.models.gateway.send import gateway_identify, gateway_resume
from firmware.layouts.gateway import GatewayFlag, GatewayState
from firmware.layouts.node import CLOCK, CORE
from firmware.layouts.profile import PROFILES
from firmware.layouts.shard import Session, ShardContext, ShardFlag
from firmware.limits import RESUME_TIMEOUT_MS


def later(w: World, milliseconds: int) -> int:
    """Return the time of the turn plus some milliseconds."""
    return int(w.g(CORE).now + milliseconds * w.g(CLOCK).tsc_cycles_per_ms)


@model
def gateway_handshake(w: World, shard: int) -> None:
    """Resume needs session, validity and sequence; everything else is Identify."""
    context = w.view(ShardContext, shard)
    resumable = (
        context.session_ptr
        and w.view(Session, context.session_ptr).valid == 1
        and context.flags & ShardFlag.SEQ_VALID
    )
    if resumable:
        if not gateway_resume(w, shard):
            context.gateway.state = GatewayState.WAIT_RESUMED
            context.phase_deadline = later(w, RESUME_TIMEOUT_MS)
        return
    if ticket_take(w, shard, PROFILES[context.profile].identify_spacing_ms):
        context.gateway.flags |= GatewayFlag.TICKET_WAIT
        return
    context.gateway.flags &= ~GatewayFlag.TICKET_WAIT
    if not gateway_identify(w, shard):
        ticket_spend(w, shard)
        context.flags &= ~ShardFlag.SEQ_VALID
        context.gateway.state = GatewayState.WAIT_READY
        gateway_pace_clear(w, shard)
