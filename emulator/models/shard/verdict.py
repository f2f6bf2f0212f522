"""Whether a failed shard tries again, and what kind of error it was."""

from emulator.effects import World, model
from firmware.layouts.closes import RULES, CloseRule
from firmware.layouts.config import CONFIG
from firmware.layouts.node import CLOCK, CORE
from firmware.layouts.policy import STARTUP
from firmware.layouts.profile import ProfileId
from firmware.layouts.shard import (
    Classification,
    End,
    FailureFlag,
    ShardContext,
    ShardFlag,
    Stop,
)
from firmware.shard.verdict import CLASS_OF


@model
def judge_health(w: World, shard: int) -> None:
    """60 s of READY forget anomalies and steps; an anomaly then counts, up to 255."""
    context, now = w.view(ShardContext, shard), w.g(CORE).now
    healthy = w.g(CONFIG).healthy_reset_ms * w.g(CLOCK).tsc_cycles_per_ms % 2**64
    if context.connected_at and (now - context.connected_at) % 2**64 >= healthy:
        context.recovery_step = context.protocol_failures = 0
    anomaly = context.failure == End.PROTOCOL or context.failure_flags & FailureFlag.ANOMALY
    if anomaly and context.protocol_failures < 255:
        context.protocol_failures += 1
    context.evidence.protocol_failures = context.protocol_failures


@model
def shard_verdict(w: World, shard: int) -> int:
    """No retry by the failure itself, by anomalies in a row, by attempts before the first READY."""
    context, config = w.view(ShardContext, shard), w.g(CONFIG)
    if context.failure_flags & (FailureFlag.FATAL | FailureFlag.RESHARD):
        if context.failure == End.CLOSED and 4000 <= context.peer_close < 4016:
            rules = RULES[ProfileId(context.profile)]
            reason = rules.get(context.peer_close, CloseRule()).stop
            if reason:
                return reason
        of_config = context.failure_flags & FailureFlag.CONFIG
        return Stop.CONFIG if of_config else Stop.REFUSED
    if context.protocol_failures >= config.protocol_failures_max:
        return Stop.PROTOCOL_LIMIT
    recovering = context.flags & (ShardFlag.ESTABLISHED | ShardFlag.STARTUP_OVER)
    if not recovering and context.attempts >= config.startup_attempts:
        return Stop.STARTUP_ATTEMPTS
    return Stop.NONE


@model
def classify(w: World, shard: int) -> None:
    """A refused token, our fault, a limit of the peer, or what the end implies; then the startup."""
    context = w.view(ShardContext, shard)
    kept = context.evidence
    if kept.stop == Stop.AUTH:
        kept.classification = Classification.AUTHENTICATION
    elif kept.stop == Stop.DEFECT:
        kept.classification = Classification.DEFECT
    elif context.failure_flags & FailureFlag.WAIT:
        kept.classification = Classification.RATE_LIMIT
    else:
        kept.classification = CLASS_OF[End(kept.end)]
    kept.reported = kept.classification
    if kept.stop == Stop.STARTUP_DEADLINE:
        limited = kept.required_wait_ms != 0 and not kept.tls_site
        kept.reported = Classification.RATE_LIMIT if limited else Classification.TIMEOUT
    startup = kept.stop in (Stop.STARTUP_ATTEMPTS, Stop.STARTUP_DEADLINE)
    kept.budget_ms = w.g(STARTUP).budget_ms if startup else 0
