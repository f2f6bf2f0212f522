"""A shard of a node that stops."""

from typing import Any

from emulator.effects import World, model
from emulator.models.events.publish import publish_rewind
from emulator.models.events.send import events_abort
from emulator.models.log import log_write
from emulator.models.shard.permit import permit_release
from emulator.models.shard.phases import shard_say_goodbye
from emulator.models.shard.reset import wipe_transport
from emulator.models.shard.resume import restore_resume_state
from emulator.models.tcp.timers import tcp_tick
from emulator.models.tls.transport import tls_abort
from emulator.models.websocket.close import ws_close
from emulator.models.websocket.frames import ws_next
from firmware.layouts.clock import NEVER
from firmware.layouts.gateway import LATENCY_UNKNOWN
from firmware.layouts.log import SHARD_HELD
from firmware.layouts.node import CLOCK, CORE, LEASE
from firmware.layouts.plan import Leaving
from firmware.layouts.shard import Hold, Phase, ShardContext, ShardState
from firmware.layouts.stop import STOP
from firmware.layouts.tcp import TcpState
from firmware.layouts.tls import TlsState
from firmware.layouts.websocket import WsState
from firmware.limits import CLOSE_TIMEOUT_MS


def _hold(context: Any) -> Hold:  # noqa: ANN401 - a view by field
    return Hold.PLAN_CHANGED if context.leaving else Hold.STOPPED


_GONE = (TcpState.CLOSED, TcpState.TIME_WAIT, TcpState.FAILED)


@model
def shard_put_away(w: World, shard: int) -> None:
    """A connection that still lives is reset; session and sequence stay."""
    context = w.view(ShardContext, shard)
    if context.tcp.state not in _GONE:
        w.g(STOP).reset += 1
    tls_abort(w, shard)
    sequence, flags = context.sequence, context.flags
    wipe_transport(w, shard)
    restore_resume_state(w, shard, sequence, flags)


@model
def shard_stop(w: World, shard: int) -> None:
    """ASSIGNED(STOPPED) at once; an open WebSocket closes politely, a farewell goes on."""
    context = w.view(ShardContext, shard)
    context.hold = _hold(context)
    if context.state == ShardState.ASSIGNED:
        return
    events_abort(w, shard)
    publish_rewind(w, shard)
    permit_release(w, shard)
    log_write(w, shard, SHARD_HELD, _hold(context), 0, 0, 0)
    now = w.g(CORE).now
    if context.state == ShardState.READY:
        context.disconnected_at = now
    context.connected_at = context.attempt_deadline = 0
    context.phase_deadline = context.reconnect_deadline = 0
    context.state, context.phase = ShardState.ASSIGNED, Phase.NONE
    context.gateway.latency_ms = LATENCY_UNKNOWN
    if context.close_deadline:
        return
    alive = context.tcp.state in (TcpState.ESTABLISHED, TcpState.CLOSE_WAIT)
    if alive and context.websocket.state == WsState.OPEN:
        context.close_deadline = now + CLOSE_TIMEOUT_MS * w.g(CLOCK).tsc_cycles_per_ms
    else:
        shard_put_away(w, shard)


@model
def shard_drain(w: World, shard: int) -> int:
    """Close with 4000 while there is a lease, in silence without one."""
    context, now = w.view(ShardContext, shard), w.g(CORE).now
    if context.state == ShardState.FATAL:
        return int(shard_say_goodbye(w, shard))
    if w.g(LEASE).expired:
        if context.close_deadline:
            shard_put_away(w, shard)
        return NEVER
    if (context.state, context.hold) != (ShardState.ASSIGNED, _hold(context)):
        shard_stop(w, shard)
    deadline = context.close_deadline
    if not deadline:
        return NEVER
    while not ws_next(w, shard)[0]:
        continue
    ws_close(w, shard, 1000 if context.leaving == Leaving.ENDING else 4000)
    keyed = context.tls.state != TlsState.FAILED
    if keyed and context.websocket.state == WsState.OPEN and deadline > now:
        return int(min(tcp_tick(w, shard), deadline))
    wanted = shard_say_goodbye(w, shard)
    if context.close_deadline:
        return int(wanted)
    if context.websocket.state == WsState.CLOSED and deadline > now:
        w.g(STOP).closed += 1
    else:
        w.g(STOP).reset += 1
    shard_put_away(w, shard)
    return NEVER
