"""What happens to a shard whose connection is over."""

from emulator.effects import World, model
from emulator.models.log import log_write
from emulator.models.shard.backoff import schedule_backoff
from emulator.models.shard.evidence import copy_evidence
from emulator.models.shard.gap import shard_gap_begin
from emulator.models.shard.permit import permit_release
from emulator.models.shard.reset import wipe_transport
from emulator.models.shard.resume import restore_resume_state, shard_is_resumable
from emulator.models.tls.transport import tls_abort
from emulator.models.websocket.close import ws_close
from firmware.layouts.log import SHARD_BACKOFF, SHARD_END, SHARD_FATAL, SHARD_HELD
from firmware.layouts.node import CLOCK, CORE
from firmware.layouts.shard import (
    End,
    FailureFlag,
    Phase,
    Session,
    ShardContext,
    ShardFlag,
    ShardState,
)
from firmware.layouts.tcp import TcpState
from firmware.layouts.websocket import WsState
from firmware.limits import CLOSE_TIMEOUT_MS, RECONNECT_BACKOFF_MS

_CONNECTING = (Phase.RESOLVE, Phase.TCP, Phase.TLS, Phase.WS)


@model
def settle_session(w: World, shard: int) -> None:
    """The peer's refusal or a third unanswered Resume ends the session; a dead host only itself."""
    context = w.view(ShardContext, shard)
    if not context.session_ptr:
        return
    session = w.view(Session, context.session_ptr)
    drop = bool(context.failure_flags & FailureFlag.RESET_SESSION)
    if not drop and context.phase == Phase.REPLAY:
        session.unanswered_resumes += 1
        drop = session.unanswered_resumes >= 3
        if not drop:
            return
    if drop:
        session.valid = session.unanswered_resumes = session.resume_host_len = 0
        context.flags = context.flags & ~ShardFlag.SEQ_VALID
    elif context.phase in _CONNECTING:
        session.resume_host_len = 0


@model
def record_backoff(w: World, shard: int) -> None:
    """One record: why, how far, what next and when."""
    context = w.view(ShardContext, shard)
    kept = context.evidence
    kept.delay_ms = RECONNECT_BACKOFF_MS if context.reconnect_deadline else 0
    kept.next_step = 1 if shard_is_resumable(w, shard) else 2
    log_write(w, shard, SHARD_END, kept.end, kept.phase, kept.close_code, kept.next_step)
    log_write(w, shard, SHARD_BACKOFF, kept.error, kept.tcp_state, kept.tls_state, kept.delay_ms)


@model
def shard_lose(w: World, shard: int) -> None:
    """Evidence, state and deadline, one record; the wipe comes when the next attempt starts."""
    context, now = w.view(ShardContext, shard), w.g(CORE).now
    copy_evidence(w, shard)
    settle_session(w, shard)
    shard_gap_begin(w, shard)
    permit_release(w, shard)
    context.disconnected_at = now
    context.connected_at = context.attempt_deadline = context.phase_deadline = 0
    context.phase = Phase.NONE
    if context.failure_flags & (FailureFlag.FATAL | FailureFlag.RESHARD):
        context.state = ShardState.FATAL
        kept = context.evidence
        log_write(
            w, shard, SHARD_FATAL, kept.error, kept.tcp_state, kept.tls_state, kept.close_code
        )
    else:
        schedule_backoff(w, shard)
        record_backoff(w, shard)
    deadline = now + CLOSE_TIMEOUT_MS * w.g(CLOCK).tsc_cycles_per_ms
    sending = context.tcp.state in (TcpState.ESTABLISHED, TcpState.CLOSE_WAIT)
    if sending and context.websocket.state == WsState.CLOSED:
        context.close_deadline = deadline
    elif sending and context.websocket.state == WsState.OPEN and context.failure_close:
        context.close_deadline = deadline
        ws_close(w, shard, context.failure_close)
    else:
        tls_abort(w, shard)


@model
def shard_hold(w: World, shard: int, hold: int) -> None:
    """Back to ASSIGNED without a word; the session in memory stays, FATAL stays FATAL."""
    context = w.view(ShardContext, shard)
    if context.state == ShardState.FATAL:
        return
    if context.state != ShardState.ASSIGNED:
        context.failure = End.LEASE_EXPIRED
        copy_evidence(w, shard)
        permit_release(w, shard)
        log_write(w, shard, SHARD_HELD, hold, context.sequence, 0, 0)
        tls_abort(w, shard)
        context.events.open = 0
        sequence, flags = context.sequence, context.flags
        wipe_transport(w, shard)
        restore_resume_state(w, shard, sequence, flags)
        context.state = ShardState.ASSIGNED
    context.phase = Phase.NONE
    context.hold = hold
