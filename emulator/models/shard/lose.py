"""What happens to a shard whose connection is over."""

from emulator.effects import World, model
from emulator.models.events.publish import publish_rewind
from emulator.models.log import log
from emulator.models.shard.backoff import choose_delay, schedule_backoff, schedule_backoff_jittered
from emulator.models.shard.discover import end_question
from emulator.models.shard.evidence import copy_evidence
from emulator.models.shard.gap import shard_gap_begin
from emulator.models.shard.permit import permit_refuse, permit_release
from emulator.models.shard.reshard import reshard_judge, reshard_want
from emulator.models.shard.resume import shard_is_resumable
from emulator.models.shard.verdict import classify, judge_health, shard_verdict
from emulator.models.tls.transport import tls_abort
from emulator.models.websocket.close import ws_close
from firmware.layouts.config import CONFIG
from firmware.layouts.gateway import LATENCY_UNKNOWN
from firmware.layouts.log import (
    CONNECTION_ENDED,
    CONNECTION_LOST,
    CONNECTION_RETRY,
    SESSION_RESET,
    STARTUP_LIMIT,
)
from firmware.layouts.node import CLOCK, CORE
from firmware.layouts.policy import OnLimit, Policy
from firmware.layouts.shard import (
    SSES_VALID,
    FailureFlag,
    NextStep,
    Phase,
    Session,
    ShardContext,
    ShardFlag,
    ShardState,
    Stop,
    Then,
)
from firmware.layouts.tcp import TcpState
from firmware.layouts.websocket import WsState
from firmware.limits import CLOSE_TIMEOUT_MS, RECONNECT_BACKOFF_MS

_CONNECTING = (Phase.RESOLVE, Phase.TCP, Phase.TLS, Phase.WS)


@model
def settle_session(w: World, shard: int) -> None:
    """The peer's refusal or a third unanswered Resume ends the session; a dead host only itself.

    A Resume whose replay the stream did not take does not count.
    """
    context = w.view(ShardContext, shard)
    if not context.session_ptr:
        return
    session, replaying = w.view(Session, context.session_ptr), context.phase == Phase.REPLAY
    drop = bool(context.failure_flags & FailureFlag.RESET_SESSION)
    if not drop and replaying:
        drop = bool(context.failure_flags & FailureFlag.RESET_IN_REPLAY)
        if not drop and not context.failure_flags & FailureFlag.UNTAKEN:
            session.unanswered_resumes += 1
            drop = session.unanswered_resumes >= 3
    if drop:
        was = session.valid
        session.valid = session.unanswered_resumes = session.resume_host_len = 0
        context.user_id = 0
        context.flags = context.flags & ~ShardFlag.SEQ_VALID
        if was == SSES_VALID:
            log(w, SESSION_RESET, shard)
    elif context.phase in _CONNECTING:
        dropped = context.phase == Phase.TLS and session.resume_host_len
        if dropped and shard_is_resumable(w, shard):
            context.required_wait_ms = 0
        session.resume_host_len = 0


@model
def record_backoff(w: World, shard: int) -> None:
    """One record: what happened, the evidence, what comes next and when."""
    context = w.view(ShardContext, shard)
    kept = context.evidence
    kept.stop = Stop.NONE
    kept.next_step = NextStep.RESUME if shard_is_resumable(w, shard) else NextStep.IDENTIFY
    if not context.reconnect_deadline:
        kept.delay_ms, kept.then = 0, Then.NOTHING
    elif kept.required_wait_ms and not kept.tls_site:
        kept.then = Then.WAIT_RESUME if kept.next_step == NextStep.RESUME else Then.WAIT_IDENTIFY
    else:
        kept.then = Then.RESUME if kept.next_step == NextStep.RESUME else Then.IDENTIFY
    classify(w, shard)
    log(w, CONNECTION_LOST if kept.lost else CONNECTION_RETRY, shard)


@model
def shard_back_off(w: World, shard: int) -> None:
    """FATAL when there is a reason to stop; a startup limit is one only by configuration."""
    context, config = w.view(ShardContext, shard), w.g(CONFIG)
    kept = context.evidence
    while stop := shard_verdict(w, shard) or choose_delay(w, shard):
        kept.stop = stop
        classify(w, shard)
        startup = stop in (Stop.STARTUP_ATTEMPTS, Stop.STARTUP_DEADLINE)
        if not startup or config.on_limit == OnLimit.FATAL:
            context.state = ShardState.FATAL
            if stop == Stop.RESHARD:
                reshard_judge(w, shard)
            log(w, CONNECTION_ENDED, shard)
            if stop == Stop.RESHARD:
                reshard_want(w, shard)
            return
        context.flags = context.flags | ShardFlag.STARTUP_OVER
        log(w, STARTUP_LIMIT, shard)
    if config.policy == Policy.FIXED and kept.delay_ms == RECONNECT_BACKOFF_MS:
        schedule_backoff(w, shard)
    else:
        schedule_backoff_jittered(w, shard)
    record_backoff(w, shard)


@model
def shard_lose(w: World, shard: int) -> None:
    """Evidence, state and deadline, one record; the wipe comes when the next attempt starts."""
    context, now = w.view(ShardContext, shard), w.g(CORE).now
    copy_evidence(w, shard)
    if context.events.stuck or context.events.stalled_at:
        context.failure_flags = context.failure_flags | FailureFlag.UNTAKEN
    publish_rewind(w, shard)
    end_question(w, shard)
    if context.evidence.lost:
        context.disconnected_at = now
        context.gap_from = context.sequence
        context.hole_first = context.hole_last = 0
    context.gateway.latency_ms = LATENCY_UNKNOWN
    settle_session(w, shard)
    shard_gap_begin(w, shard)
    permit_release(w, shard)
    permit_refuse(w, shard)
    judge_health(w, shard)
    context.connected_at = context.attempt_deadline = context.phase_deadline = 0
    context.phase = Phase.NONE
    shard_back_off(w, shard)
    deadline = now + CLOSE_TIMEOUT_MS * w.g(CLOCK).tsc_cycles_per_ms
    sending = context.tcp.state in (TcpState.ESTABLISHED, TcpState.CLOSE_WAIT)
    if sending and context.websocket.state == WsState.CLOSED:
        context.close_deadline = deadline
    elif sending and context.websocket.state == WsState.OPEN and context.failure_close:
        context.close_deadline = deadline
        ws_close(w, shard, context.failure_close)
    else:
        tls_abort(w, shard)
