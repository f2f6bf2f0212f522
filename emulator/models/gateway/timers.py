"""What is due."""

from emulator.effects import World, model
from emulator.models.events.stall import publish_judge
from emulator.models.failure import shard_fail
from emulator.models.gateway.handshake import gateway_handshake, later
from emulator.models.gateway.send import gateway_heartbeat
from emulator.models.log import log
from firmware.layouts.clock import NEVER
from firmware.layouts.gateway import (
    BEAT_UNSENT,
    HELLO_TIMEOUT,
    RESUME_TIMEOUT,
    ZOMBIE,
    GatewayFlag,
    GatewayState,
)
from firmware.layouts.log import GATEWAY_ZOMBIE
from firmware.layouts.node import CLOCK, CORE
from firmware.layouts.outbox import OUTBOX
from firmware.layouts.shard import End, ShardContext
from firmware.layouts.websocket import WsState
from firmware.limits import HELLO_TIMEOUT_MS


@model
def gateway_beat(w: World, shard: int) -> None:
    """Decision 22: one beat an interval from a fixed schedule, dead without its ACK or its room."""
    context, now = w.view(ShardContext, shard), w.g(CORE).now
    gateway = context.gateway
    if gateway.flags & GatewayFlag.BEAT_OWED:
        gateway_heartbeat(w, shard)
    pending = gateway.flags & GatewayFlag.ACK_PENDING
    waited = (now - gateway.hb_sent_at) % 2**64
    if pending and waited >= gateway.interval_cycles:
        context.hb_misses += 1
        log(w, GATEWAY_ZOMBIE, shard, context.hb_misses, waited)
        shard_fail(w, shard, End.HEARTBEAT_TIMEOUT, 0, 4000, ZOMBIE.code)
        return
    if now < gateway.hb_next:
        return
    if not pending and gateway_heartbeat(w, shard):
        gateway.flags |= GatewayFlag.BEAT_OWED
        if now - gateway.hb_next >= gateway.interval_cycles:
            shard_fail(w, shard, End.SEND_FAILED, 0, 4000, BEAT_UNSENT.code)
        return
    following = (gateway.hb_next + gateway.interval_cycles) % 2**64
    if following <= now:
        following = now + gateway.interval_cycles
    gateway.hb_next = following


@model
def gateway_tick(w: World, shard: int) -> int:
    """Hello within 10 s, RESUMED within 20 s, heartbeats; the earliest of them is returned."""
    context, now = w.view(ShardContext, shard), w.g(CORE).now
    gateway = context.gateway
    if context.failure:
        return NEVER
    if gateway.state == GatewayState.IDLE:
        if context.websocket.state != WsState.OPEN:
            return NEVER
        gateway.state = GatewayState.WAIT_HELLO
        context.phase_deadline = later(w, HELLO_TIMEOUT_MS)
    if gateway.state == GatewayState.ANSWER:
        gateway_handshake(w, shard)
    if context.phase_deadline and context.phase_deadline <= now:
        early = gateway.state == GatewayState.WAIT_HELLO
        error = HELLO_TIMEOUT if early else RESUME_TIMEOUT
        shard_fail(w, shard, End.TIMEOUT, 0, 4000, error.code)
        return NEVER
    if gateway.hb_next:
        gateway_beat(w, shard)
    again = NEVER
    if w.g(OUTBOX).base:
        again = publish_judge(w, shard)
        if context.failure:
            return NEVER
    beat = gateway.hb_next
    if beat and beat <= now:
        beat = (beat + gateway.interval_cycles) % 2**64
    times = [t for t in (context.phase_deadline, beat) if t]
    if gateway.flags & GatewayFlag.ACK_PENDING:
        times.append((gateway.hb_sent_at + gateway.interval_cycles) % 2**64)
    if gateway.flags & GatewayFlag.TICKET_WAIT:
        times.append((now + 20 * w.g(CLOCK).tsc_cycles_per_ms) % 2**64)
    return int(min(*times, again, NEVER))
