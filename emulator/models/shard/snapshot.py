"""A session as a snapshot."""

import re
from typing import Any

from emulator.effects import World, model
from emulator.models.gateway.host import gateway_host_allowed
from emulator.models.log import log_write
from emulator.models.shard.identity import session_identity
from emulator.models.websocket.request import ws_build_request
from firmware.layouts.config import CONFIG
from firmware.layouts.gateway import UrlFault
from firmware.layouts.log import GATEWAY_URL, SESSION_IGNORED, SESSION_RESTORED
from firmware.layouts.node import PLAN
from firmware.layouts.policy import SessionProvider
from firmware.layouts.sessions import (
    HANDED_OVER,
    SESSION_KEPT_BYTES,
    SESSIONS,
    SNAPSHOT_MAGIC,
    SessionProblem,
    SessionSnapshot,
)
from firmware.layouts.shard import Session, SessionLoad, ShardContext, ShardFlag

_ID = re.compile(rb"[!#-\[\]-~]{1,256}")
_HOST = re.compile(rb"[A-Za-z0-9._-]{1,128}")


@model
def snapshot_take(w: World, shard: int, snapshot: int, sequence: int) -> None:
    """Session, identity, generation."""
    session_identity(w)
    context, kept, state = (
        w.view(ShardContext, shard),
        w.view(SessionSnapshot, snapshot),
        w.g(SESSIONS),
    )
    kept.magic, kept.sequence, kept.profile = SNAPSHOT_MAGIC, sequence, context.profile
    kept.shard_id, kept.shard_total = context.shard_id, context.shard_total
    kept.plan_generation = w.g(PLAN).generation
    kept.endpoint[:], kept.bot[:] = bytes(state.endpoint[:]), bytes(state.bot[:])
    kept.session[:] = w.read(context.session.address_, SESSION_KEPT_BYTES)


def _well_formed(w: World, kept: Any) -> bool:  # noqa: ANN401 - a view by field
    session = w.view(Session, kept.offset_of("session"))
    if (kept.magic, session.valid) != (SNAPSHOT_MAGIC, 1):
        return False
    size, host = session.session_id_len, session.resume_host_len
    if not 1 <= size <= 256 or not _ID.fullmatch(bytes(session.session_id[:size])):
        return False
    if not host:
        return True
    named = session.resume_port and host <= 128
    return bool(named and _HOST.fullmatch(bytes(session.resume_host[:host])))


@model
def snapshot_problem(w: World, shard: int, snapshot: int, age: int) -> int:
    """In this order: form, age, endpoint, plan, bot, generation."""
    context, kept, p = (
        w.view(ShardContext, shard),
        w.view(SessionSnapshot, snapshot),
        SessionProblem,
    )
    if not _well_formed(w, kept):
        return p.MALFORMED
    if age >= 2**63:
        age -= 2**64
    if age >= 60_000:
        return p.TOO_OLD
    if age < -5_000:
        return p.SAVED_IN_THE_FUTURE
    known, state = not session_identity(w), w.g(SESSIONS)
    if known and bytes(kept.endpoint[:]) != bytes(state.endpoint[:]):
        return p.ANOTHER_ENDPOINT
    if kept.profile != context.profile:
        return p.ANOTHER_ENDPOINT
    if (kept.shard_id, kept.shard_total) != (context.shard_id, context.shard_total):
        return p.ANOTHER_PLAN
    if bytes(kept.bot[:]) != bytes(state.bot[:]):
        return p.ANOTHER_BOT
    fits = kept.plan_generation in (HANDED_OVER, w.g(PLAN).generation)
    return 0 if fits else p.ANOTHER_GENERATION


@model
def snapshot_restore(w: World, shard: int, snapshot: int, age: int) -> None:
    """As if the session had never been away."""
    context, kept = w.view(ShardContext, shard), w.view(SessionSnapshot, snapshot)
    context.sequence = context.gap_from = kept.sequence
    context.flags = context.flags | ShardFlag.SEQ_VALID | ShardFlag.RESTORED
    context.load = SessionLoad.SETTLED
    context.restored_endpoint[:] = bytes(kept.endpoint[:])
    w.write(context.session.address_, bytes(kept.session[:]))
    log_write(w, shard, SESSION_RESTORED, age if age < 2**63 else 0, 0, 0, 0)


@model
def session_confirm(w: World, shard: int) -> int:
    """What discovery found must be where the session was."""
    context = w.view(ShardContext, shard)
    ours = w.g(CONFIG).session_provider == SessionProvider.BUS or session_identity(w)
    if ours or bytes(context.restored_endpoint[:]) == bytes(w.g(SESSIONS).endpoint[:]):
        session = context.session
        length = session.resume_host_len
        if length and gateway_host_allowed(w, session.offset_of("resume_host"), length):
            session.resume_host_len = 0
            log_write(w, shard, GATEWAY_URL, UrlFault.FOREIGN, length, 0, 0)
            ws_build_request(w, shard)
        return 0
    context.session.valid = context.session.resume_host_len = 0
    context.flags = context.flags & ~(ShardFlag.SEQ_VALID | ShardFlag.RESTORED)
    problem = SessionProblem.ANOTHER_ENDPOINT
    log_write(w, shard, SESSION_IGNORED, problem, context.sequence, 0, 0)
    return 1
