"""A workspace that becomes another shard's."""

from emulator.effects import World, model
from emulator.models.shard.reset import wipe_transport
from emulator.models.tls.pool import tls_arena_give
from emulator.models.tls.transport import tls_abort
from firmware.layouts.config import CONFIG
from firmware.layouts.node import CLOCK, CORE, PLAN
from firmware.layouts.plan import MOVES
from firmware.layouts.shard import Hold, SessionLoad, ShardContext, ShardFlag
from firmware.layouts.tcp import TcpState


@model
def shard_renew(w: World, shard: int, number: int) -> None:
    """Only the workspace itself and the count of its connections stay."""
    context = w.view(ShardContext, shard)
    if context.tcp.state != TcpState.CLOSED:
        tls_abort(w, shard)
    else:
        tls_arena_give(w, shard)
    wipe_transport(w, shard)
    tx, ring, slot, connection = (
        context.tx_base, context.ring_base, context.slot, context.connection,
    )  # fmt: skip
    w.write(shard, bytes(ShardContext.SIZE))
    context.tx_base, context.ring_base, context.slot = tx, ring, slot
    context.connection, context.shard_id = connection, number
    plan = w.g(PLAN)
    context.shard_total, context.plan_generation = plan.global_total, plan.generation
    context.profile, context.hold = w.g(CONFIG).profile, Hold.NEW
    context.flags, wait = ShardFlag.ESTABLISHED, w.g(MOVES).wait_ms
    if wait:
        context.load_deadline = w.g(CORE).now + wait * w.g(CLOCK).tsc_cycles_per_ms
    else:
        context.load = SessionLoad.SETTLED
    context.session_ptr = context.session.address_
