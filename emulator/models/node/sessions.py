"""The host's side of saved sessions."""

from emulator.effects import World, model
from emulator.models.log import log_write
from emulator.models.node.lease import slots_wake
from emulator.models.node.slots import slot_find, slot_wake
from emulator.models.shard.resume import shard_is_resumable
from emulator.models.shard.snapshot import snapshot_problem, snapshot_restore, snapshot_take
from firmware.layouts.config import CONFIG
from firmware.layouts.control import ControlRequest, ControlResult
from firmware.layouts.log import SESSION_IGNORED, SESSION_SAVE_FAILED, SESSION_SAVED
from firmware.layouts.node import CLOCK, CORE, LEASE
from firmware.layouts.plan import Leaving
from firmware.layouts.policy import SessionProvider
from firmware.layouts.sessions import (
    ANY_SHARD,
    HANDED_OVER,
    SAVE_TIMEOUT_MS,
    SESSIONS,
    SaveState,
    SessionProblem,
    SessionSnapshot,
)
from firmware.layouts.shard import Hold, SessionLoad, ShardContext, ShardState
from firmware.layouts.tcp import TcpState

R = ControlResult


@model
def sessions_none(w: World) -> None:
    """Whoever has not started waits no more."""
    core = w.g(CORE)
    for n in range(core.slots_used):
        if core.slots[n].flags & 1:
            shard = w.view(ShardContext, core.slots[n].context)
            if shard.state == ShardState.ASSIGNED:
                shard.load = SessionLoad.SETTLED
    slots_wake(w)


@model
def control_session_offer(
    w: World, request: int, length: int, answer: int, room: int
) -> tuple[int, int, int]:
    """An empty payload means that nothing was saved; a bad one is as good as none, and said aloud."""
    asked = w.view(ControlRequest, request)
    if w.g(CONFIG).session_provider != SessionProvider.HOST:
        return R.SESSION_UNWANTED, 0, 0
    if not length and asked.slot == ANY_SHARD:
        sessions_none(w)
        return R.DONE, 0, 0
    shard = slot_find(w, asked.slot)
    if not shard:
        return R.ARGUMENT, 0, 0
    context = w.view(ShardContext, shard)
    if context.state != ShardState.ASSIGNED or context.load == SessionLoad.SETTLED:
        return R.SESSION_UNWANTED, 0, 0
    problem, at, age = 0, request + ControlRequest.SIZE, asked.argument
    if length:
        whole = length == SessionSnapshot.SIZE
        problem = snapshot_problem(w, shard, at, age) if whole else SessionProblem.MALFORMED
        if problem:
            sequence = w.view(SessionSnapshot, at).sequence if whole else 0
            log_write(w, shard, SESSION_IGNORED, problem, sequence, 0, 0)
        else:
            snapshot_restore(w, shard, at, age)
    context.load = SessionLoad.SETTLED
    slot_wake(w, shard)
    return R.DONE, problem, 0


@model
def session_due(w: World, shard: int) -> int:
    """Released and resumable, while there is a lease, and a total that the session belongs to."""
    context = w.view(ShardContext, shard)
    ending = context.leaving == Leaving.ENDING
    if w.g(LEASE).expired or context.state == ShardState.FATAL or ending:
        return SaveState.NOTHING
    at_rest = Hold.PLAN_CHANGED if context.leaving else Hold.STOPPED
    if (context.state, context.hold) != (ShardState.ASSIGNED, at_rest):
        return SaveState.LIVE
    if context.close_deadline or context.tcp.state != TcpState.CLOSED:
        return SaveState.LIVE
    return SaveState.DUE if shard_is_resumable(w, shard) else SaveState.NOTHING


@model
def control_session_take(
    w: World, request: int, length: int, answer: int, room: int
) -> tuple[int, int, int]:
    """Once the socket is released of a shard that stops or leaves; then any plan may have it."""
    if w.g(CONFIG).session_provider != SessionProvider.HOST:
        return R.SESSION_LIVE, 0, 0
    shard = slot_find(w, w.view(ControlRequest, request).slot)
    if not shard or room < SessionSnapshot.SIZE:
        return R.ARGUMENT, 0, 0
    due = session_due(w, shard)
    if due != SaveState.DUE:
        return R.DONE if due == SaveState.NOTHING else R.SESSION_LIVE, 0, 0
    context = w.view(ShardContext, shard)
    snapshot_take(w, shard, answer, context.sequence)
    if context.leaving:
        w.view(SessionSnapshot, answer).plan_generation = HANDED_OVER
    if not context.saved:
        context.saved = 1
        log_write(w, shard, SESSION_SAVED, 0, 0, 0, 0)
    since = context.disconnected_at
    age = (w.g(CORE).now - since) % 2**64 // w.g(CLOCK).tsc_cycles_per_ms if since else 0
    return R.DONE, age, SessionSnapshot.SIZE


@model
def stop_save(w: World) -> int:
    """Five seconds for all; what nobody took by then is lost, and said aloud."""
    state, core, left = w.g(SESSIONS), w.g(CORE), 0
    if w.g(CONFIG).session_provider == SessionProvider.NONE:
        return 0
    if not state.save_deadline:
        state.save_deadline = core.now + SAVE_TIMEOUT_MS * w.g(CLOCK).tsc_cycles_per_ms
    for n in range(core.slots_used):
        shard = core.slots[n].context
        if not core.slots[n].flags & 1 or w.view(ShardContext, shard).saved:
            continue
        if session_due(w, shard) != SaveState.DUE:
            continue
        if state.save_deadline > core.now:
            left += 1
        else:
            w.view(ShardContext, shard).saved = 1
            log_write(w, shard, SESSION_SAVE_FAILED, 0, 0, 0, 0)
    return state.save_deadline if left else 0
