"""What the state of a shard asks for: a farewell, the end of a backoff, an attempt's next phase."""

from emulator.effects import View, World, model
from emulator.models.log import log_write
from emulator.models.shard.allowance import allowance_count
from emulator.models.shard.dial import shard_ask_permit, shard_begin, shard_dial
from emulator.models.shard.lose import shard_back_off
from emulator.models.shard.permit import permit_release
from emulator.models.shard.startup import startup_check
from emulator.models.tcp.timers import tcp_tick
from emulator.models.tls.transport import tls_abort, tls_close, tls_ready
from emulator.models.websocket.connection import ws_start
from emulator.models.websocket.frames import ws_next
from firmware.layouts.clock import NEVER
from firmware.layouts.events import EVENT_UNKNOWN
from firmware.layouts.gateway import GatewayState
from firmware.layouts.log import SHARD_NO_CLOCK, SHARD_READY
from firmware.layouts.node import CLOCK, CORE
from firmware.layouts.shard import (
    End,
    Gap,
    Hold,
    Phase,
    Session,
    ShardContext,
    ShardFlag,
    ShardState,
)
from firmware.layouts.tcp import TcpState
from firmware.layouts.tls import TlsState
from firmware.layouts.websocket import WsState
from firmware.shard.phases import RETRY_POLL_MS


def poll_deadline(w: World) -> int:
    """When a shard looks again for what nobody announces, as TSC."""
    span = RETRY_POLL_MS * int(w.g(CLOCK).tsc_cycles_per_ms) % 2**64
    return (w.g(CORE).now + span) % 2**64 if span else NEVER


@model
def shard_say_goodbye(w: World, shard: int) -> int:
    """At most five seconds for the peer's answer, then a reset."""
    context = w.view(ShardContext, shard)
    deadline = context.close_deadline
    if not deadline:
        return NEVER
    ws_next(w, shard)
    keyed = context.tls.state != TlsState.FAILED
    if keyed and context.websocket.state == WsState.CLOSED:
        tls_close(w, shard)
    talking = keyed and context.websocket.state in (WsState.CLOSING, WsState.CLOSED)
    over = context.tcp.state in (TcpState.CLOSED, TcpState.TIME_WAIT, TcpState.FAILED)
    if talking and not over and w.g(CORE).now < deadline:
        return int(min(tcp_tick(w, shard), deadline))
    context.close_deadline = 0
    tls_abort(w, shard)
    return NEVER


@model
def tick_backoff(w: World, shard: int) -> int:
    """Zero deadline: schedule once; without a clock one record and back to ASSIGNED."""
    context = w.view(ShardContext, shard)
    farewell = shard_say_goodbye(w, shard)
    if context.reconnect_deadline == 0:
        if not w.g(CLOCK).tsc_cycles_per_ms:
            context.state, context.hold = ShardState.ASSIGNED, Hold.NO_CLOCK
            kept = context.evidence
            log_write(w, shard, SHARD_NO_CLOCK, kept.error, kept.tcp_state, kept.tls_state, 0)
            return NEVER
        shard_back_off(w, shard)
        if context.state != ShardState.BACKOFF:
            return farewell
    if context.reconnect_deadline > w.g(CORE).now:
        return int(min(context.reconnect_deadline, farewell))
    if context.close_deadline and context.evidence.end != End.HEARTBEAT_TIMEOUT:
        return farewell
    shard_begin(w, shard)
    return int(w.g(CORE).now)


def _tell_gap(context: View, *, resumed: bool) -> None:
    """A hole of the replay, all behind the last session, or nothing."""
    stream = context.events
    if resumed:
        context.gap = Gap.PARTIAL if context.hole_first else Gap.REPLAYED
    else:
        context.hole_first = context.hole_last = 0
        context.gap = Gap.NONE
        if context.flags & (ShardFlag.ESTABLISHED | ShardFlag.RESTORED):
            context.gap = Gap.POSSIBLE
            if stream.gap_open and stream.gap_first != EVENT_UNKNOWN:
                context.hole_first = stream.gap_first
    stream.gap_open = 0


@model
def shard_become_ready(w: World, shard: int) -> None:
    """Connected: no deadline of the attempt is left; what may be missing is known."""
    context, now = w.view(ShardContext, shard), w.g(CORE).now
    since, resumed = context.disconnected_at, context.phase == Phase.REPLAY
    away = (now - since) % 2**64 if since else 0
    context.outage_ms = away // max(1, w.g(CLOCK).tsc_cycles_per_ms) % 2**32
    _tell_gap(context, resumed=resumed)
    context.state = ShardState.READY
    context.flags = (context.flags | ShardFlag.ESTABLISHED) & ~ShardFlag.RESTORED
    context.attempt_deadline = context.disconnected_at = context.resumable_invalid = 0
    context.connected_at = now
    if context.session_ptr:
        w.view(Session, context.session_ptr).unanswered_resumes = 0
    context.phase = Phase.NONE
    took = (now - context.attempt_started) % 2**64
    log_write(w, shard, SHARD_READY, took, int(resumed), 0, 0)
    startup_check(w)


@model
def shard_follow(w: World, shard: int) -> None:
    """An accepted upgrade, an answer to Hello and READY count, even when a failure followed."""
    context = w.view(ShardContext, shard)
    upgraded = context.websocket.state in (WsState.OPEN, WsState.CLOSING, WsState.CLOSED)
    if context.phase == Phase.WS and upgraded:
        context.phase = Phase.HELLO
    awaited = context.gateway.state
    if awaited == GatewayState.READY:
        resumed = context.flags & ShardFlag.RESUMED
        awaited = GatewayState.WAIT_RESUMED if resumed else GatewayState.WAIT_READY
    if context.phase == Phase.HELLO and awaited == GatewayState.WAIT_RESUMED:
        context.phase = Phase.REPLAY
    elif context.phase == Phase.HELLO and awaited == GatewayState.WAIT_READY:
        context.identifies += 1
        context.phase = Phase.IDENT
        allowance_count(w)
        permit_release(w, shard)
    if context.gateway.state == GatewayState.READY:
        if context.phase == Phase.REPLAY:
            context.resumes += 1
        shard_become_ready(w, shard)


@model
def shard_advance(w: World, shard: int) -> None:
    """Each phase ends when its layer is ready; several may end in one step."""
    context = w.view(ShardContext, shard)
    if context.phase == Phase.PERMIT:
        shard_ask_permit(w, shard)
    if context.phase == Phase.RESOLVE:
        shard_dial(w, shard)
    if context.phase == Phase.TCP and context.tcp.state == TcpState.ESTABLISHED:
        context.phase = Phase.TLS
    if context.phase == Phase.TLS and not tls_ready(w, shard):
        ws_start(w, shard)
        context.phase = Phase.WS
    shard_follow(w, shard)
