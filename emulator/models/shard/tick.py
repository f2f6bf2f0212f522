"""The lifecycle of one shard, one step."""

from emulator.effects import World, model
from emulator.models.failure import shard_fail
from emulator.models.gateway.poll import gateway_poll
from emulator.models.gateway.timers import gateway_tick
from emulator.models.shard.dial import shard_begin, shard_may_start
from emulator.models.shard.lose import shard_lose
from emulator.models.shard.phases import (
    poll_deadline,
    shard_advance,
    shard_follow,
    shard_say_goodbye,
    tick_backoff,
)
from emulator.models.shard.startup import wait_budget
from emulator.models.shard.stop import shard_drain
from emulator.models.tcp.timers import tcp_tick
from emulator.models.tls.judge import tls_wakes
from firmware.layouts.clock import NEVER
from firmware.layouts.gateway import GatewayFlag
from firmware.layouts.node import CORE
from firmware.layouts.shard import End, Phase, ShardContext, ShardState
from firmware.layouts.stop import STOP, StopPhase
from firmware.layouts.tcp import TcpState
from firmware.layouts.tls import TlsState
from firmware.layouts.tls_sites import HANDSHAKE_TIMEOUT
from firmware.layouts.websocket import WsState
from firmware.shard.dial import ATTEMPT_TIMEOUT, CONNECTION_GONE
from firmware.shard.tick import CLOSE_UNKNOWN_ERROR


@model
def shard_find_failure(w: World, shard: int) -> None:
    """Lowest layer first; then the attempt's deadline."""
    context = w.view(ShardContext, shard)
    deadline, tls = context.attempt_deadline, context.tls
    if context.tcp.state == TcpState.FAILED:
        shard_fail(w, shard, End.TCP_FAILED, 0, 0, context.tcp.error)
    elif tls.state == TlsState.FAILED:
        shard_fail(w, shard, End.TLS_FAILED, 0, 0, tls.error)
    elif context.websocket.state >= WsState.CLOSED:
        shard_fail(w, shard, End.NETWORK, 0, 0, CONNECTION_GONE.code)
    elif tls.state == TlsState.IDLE and tls.arena_ptr and tls.deadline <= w.g(CORE).now:
        shard_fail(w, shard, End.TIMEOUT, 0, 0, HANDSHAKE_TIMEOUT.code)
    elif deadline and deadline <= w.g(CORE).now:
        shard_fail(w, shard, End.TIMEOUT, 0, CLOSE_UNKNOWN_ERROR, ATTEMPT_TIMEOUT.code)


@model
def tick_connection(w: World, shard: int) -> int:
    """The peer's last words count before the state of its transport."""
    context = w.view(ShardContext, shard)
    talking = context.phase in (Phase.WS, Phase.HELLO, Phase.IDENT, Phase.REPLAY)
    if context.state == ShardState.READY or talking:
        gateway_poll(w, shard)
    shard_find_failure(w, shard)
    wanted = NEVER
    if not context.failure:
        if context.state == ShardState.STARTING:
            shard_advance(w, shard)
        wanted = gateway_tick(w, shard)
    if context.failure:
        if context.state == ShardState.STARTING:
            shard_follow(w, shard)
        shard_lose(w, shard)
        return int(w.g(CORE).now)
    if context.gateway.flags & GatewayFlag.TICKET_WAIT:
        context.attempt_started = w.g(CORE).now
        context.attempt_deadline = wait_budget(w, shard)
    wanted = min(wanted, tcp_tick(w, shard))
    wanted = min(wanted, tls_wakes(w, shard))
    if context.state == ShardState.ASSIGNED:
        wanted = min(wanted, poll_deadline(w))
    if context.state == ShardState.STARTING:
        wanted = min(wanted, (context.attempt_deadline - 1) % 2**64)
        if context.phase in (Phase.RESOLVE, Phase.PERMIT):
            wanted = min(wanted, poll_deadline(w))
    return wanted


@model
def shard_tick(w: World, shard: int) -> int:
    """One step by state; FATAL only finishes its farewell, a node that stops all of them."""
    context = w.view(ShardContext, shard)
    state = context.state
    if w.g(STOP).phase != StopPhase.RUNNING or context.leaving:
        return int(shard_drain(w, shard))
    if state == ShardState.BACKOFF:
        return int(tick_backoff(w, shard))
    if state > ShardState.BACKOFF:
        return int(shard_say_goodbye(w, shard))
    if state == ShardState.ASSIGNED:
        hold = shard_may_start(w, shard)
        if hold:
            context.hold = hold
            return poll_deadline(w)
        shard_begin(w, shard)
    return int(tick_connection(w, shard))


@model
def shards_tick(w: World) -> None:
    """Every active slot, whatever its deadline."""
    core = w.g(CORE)
    core.slots_due = 0
    for n in range(core.slots_used):
        if core.slots[n].flags & 1:
            core.slots[n].deadline = shard_tick(w, core.slots[n].context)
