"""From permission to a dialled connection."""

from emulator.effects import World, model
from emulator.models.failure import shard_fail
from emulator.models.log import log_write
from emulator.models.net.dns import dns_resolve
from emulator.models.shard.allowance import allowance_hold
from emulator.models.shard.discover import shard_discover
from emulator.models.shard.load import session_wait
from emulator.models.shard.permit import permit_release, permit_take
from emulator.models.shard.reset import reset_shard
from emulator.models.shard.resume import shard_is_resumable
from emulator.models.shard.snapshot import session_confirm
from emulator.models.shard.startup import (
    attempt_budget,
    keep_to_startup,
    startup_begin,
    wait_budget,
)
from emulator.models.tcp.connect import tcp_connect
from emulator.models.tls.pool import tls_arena_give
from emulator.models.tls.prepare import tls_prepare
from emulator.models.tls.transport import tls_abort
from emulator.models.websocket.request import ws_base
from firmware.layouts.config import CONFIG
from firmware.layouts.events import Stuck
from firmware.layouts.log import SHARD_ATTEMPT
from firmware.layouts.node import CLOCK, CORE, LEASE, NETWORK
from firmware.layouts.policy import STARTUP, OnLimit
from firmware.layouts.shard import End, Hold, Phase, Session, ShardContext, ShardFlag, ShardState
from firmware.layouts.survivor import SURVIVAL
from firmware.layouts.tcp import TcpState
from firmware.layouts.token import TOKEN
from firmware.shard.dial import NO_ADDRESS, NO_CONNECTION


@model
def shard_may_start(w: World, shard: int) -> int:
    """Lease, clock, crashes, network, token, a saved session, allowance, in this order."""
    if w.g(LEASE).expired:
        return Hold.LEASE_EXPIRED
    if not w.g(CLOCK).tsc_cycles_per_ms:
        return Hold.NO_CLOCK
    if w.g(SURVIVAL).held:
        return Hold.CRASH_LOOP
    if not w.g(NETWORK).configured:
        return Hold.NO_NETWORK
    if not w.g(TOKEN).length:
        return Hold.NO_TOKEN
    return session_wait(w, shard) or allowance_hold(w, shard)


@model
def shard_begin(w: World, shard: int) -> None:
    """Nothing of the old connection reaches the new one."""
    context = w.view(ShardContext, shard)
    if context.tcp.state != TcpState.CLOSED:
        tls_abort(w, shard)
    else:
        tls_arena_give(w, shard)
    reset_shard(w, shard)
    context.state, context.phase, context.hold = ShardState.STARTING, Phase.PERMIT, Hold.NONE
    context.permit_since = w.g(CORE).now
    if not w.g(STARTUP).deadline:
        startup_begin(w, shard)
    recovering = context.flags & (ShardFlag.ESTABLISHED | ShardFlag.STARTUP_OVER)
    if w.g(CONFIG).on_limit == OnLimit.FATAL and not recovering:
        context.attempt_deadline = w.g(STARTUP).deadline


@model
def shard_ask_permit(w: World, shard: int) -> None:
    """Waiting for the permit spends no attempt budget; a Resume is never paced."""
    context, now = w.view(ShardContext, shard), w.g(CORE).now
    if not shard_is_resumable(w, shard):
        hold = allowance_hold(w, shard)
        if hold:
            context.state, context.phase, context.hold = ShardState.ASSIGNED, Phase.NONE, hold
            permit_release(w, shard)
            return
        if permit_take(w, shard):
            if context.attempt_deadline:
                keep_to_startup(w, shard)
            return
    context.attempts += 1
    if context.flags & ShardFlag.ESTABLISHED:
        context.recovery_attempts += 1
    context.attempt_started = now
    context.attempt_deadline = attempt_budget(w, shard)
    context.phase = Phase.RESOLVE


@model
def shard_dial(w: World, shard: int) -> None:
    """A Resume goes to the host that READY named; everything else to the base host."""
    context = w.view(ShardContext, shard)
    resume = shard_is_resumable(w, shard)
    if resume and context.flags & ShardFlag.RESTORED:
        if shard_discover(w, shard):
            return
        if session_confirm(w, shard):
            context.phase = Phase.PERMIT
            return
    session = w.view(Session, context.session_ptr) if resume else None
    if session is not None and session.resume_host_len:
        name, length = session.resume_host.address, session.resume_host_len
        context.tcp.remote_port = session.resume_port
    else:
        if shard_discover(w, shard):
            return
        name, length, context.tcp.remote_port, _path, _size = ws_base(w)
    status, address = dns_resolve(w, name, length)
    if status == 1:
        return
    if status != 0:
        shard_fail(w, shard, End.NETWORK, 0, 0, NO_ADDRESS.code)
        return
    context.tcp.remote_ip = address
    if tls_prepare(w, shard, name, length):
        if not context.failure:
            context.attempt_started = w.g(CORE).now
            context.attempt_deadline = wait_budget(w, shard)
        return
    if tcp_connect(w, shard):
        shard_fail(w, shard, End.NETWORK, 0, 0, NO_CONNECTION.code)
        return
    context.phase = Phase.TCP
    context.connection += 1
    context.events.stuck = Stuck.NO
    established = int(bool(context.flags & ShardFlag.ESTABLISHED))
    again, tcp = int(shard_is_resumable(w, shard)), context.tcp
    log_write(w, shard, SHARD_ATTEMPT, established, again, tcp.remote_ip, tcp.remote_port)
