"""Sessions of a fleet."""

from typing import Any

from emulator.effects import World, model
from emulator.models.fleet.cas import cas_send
from emulator.models.log import log_write
from emulator.models.node.handover_answer import after, handover_waits
from emulator.models.node.handover_text import session_ask, session_key, session_text
from emulator.models.node.sessions import session_due
from emulator.models.shard.resume import shard_is_resumable
from firmware.layouts.clock import NEVER
from firmware.layouts.config import CONFIG
from firmware.layouts.fleet_config import FLEET_CONFIG, FLEET_MAGIC
from firmware.layouts.gateway import GatewayState
from firmware.layouts.handover import HANDOVER, HandoverRequest, HandoverRow, HandoverStep
from firmware.layouts.log import SESSION_SAVED
from firmware.layouts.node import CLOCK, CORE
from firmware.layouts.policy import SessionProvider
from firmware.layouts.sessions import SaveState
from firmware.layouts.shard import ShardContext

R, S = HandoverRequest, HandoverStep


@model
def handover_begin(w: World, shard: int) -> None:
    """All zeros."""
    state = w.g(HANDOVER)
    row = state.rows[w.view(ShardContext, shard).slot]
    if row.request:
        state.under_way -= 1
    row.wipe()
    state.look_at = 0


@model
def handover_want(w: World, shard: int, row: int) -> tuple[int, Any, Any]:
    """A session that ended, a new one, a sequence that moved for long enough, or the last word."""
    kept, context = w.view(HandoverRow, row), w.view(ShardContext, shard)
    if not shard_is_resumable(w, shard):
        return int(not kept.live), 0, 0
    connected = context.gateway.state in (GatewayState.WAIT_RESUMED, GatewayState.READY)
    sequence = context.gateway.seq_acked if connected else context.sequence
    last = session_due(w, shard) == SaveState.DUE
    since = context.connected_at
    moved = sequence != kept.sequence
    if kept.stale or (since and since != kept.connected) or (moved and last):
        return 0, sequence, 1
    if moved and kept.save_at <= w.g(CORE).now:
        return 0, sequence, 1
    if not moved and last and not context.saved:
        context.saved = 1
        log_write(w, shard, SESSION_SAVED, 0, 0, 0, 0)
    return 1, 0, 0


def _sent(w: World, row: Any, request: HandoverRequest, inbox: int) -> None:  # noqa: ANN401
    row.inbox, row.request, row.sent_at = inbox, request, w.g(CORE).now
    w.g(HANDOVER).under_way += 1


def _write(w: World, shard: int, row: Any, sequence: int, live: int) -> tuple[int, Any]:  # noqa: ANN401
    session_text(w, shard, sequence, live)
    session_key(w, shard)
    return cas_send(w, row.revision)


@model
def handover_shard(w: World, shard: int, row: int) -> None:
    """One request at a time."""
    kept, state, now = w.view(HandoverRow, row), w.g(HANDOVER), w.g(CORE).now
    if kept.request:
        if (kept.sent_at + 2_000 * w.g(CLOCK).tsc_cycles_per_ms) % 2**64 > now:
            return
        kept.request, kept.step = R.NONE, S.READ
        kept.tries += 1
        state.under_way -= 1
        state.late += 1
    if state.under_way >= 16 or kept.try_at > now or kept.step == S.OVER:
        return
    if kept.step == S.READ:
        refused, inbox = session_ask(w, shard)
        if not refused:
            _sent(w, kept, R.READ, inbox)
        return
    if kept.step == S.FENCE:
        if not handover_waits(w, shard):
            refused, inbox = _write(w, shard, kept, kept.sequence, kept.live)
            if not refused:
                _sent(w, kept, R.FENCE, inbox)
            return
        kept.step, kept.stale = S.KEEP, 1
    nothing, sequence, live = handover_want(w, shard, row)
    if nothing:
        return
    refused, inbox = _write(w, shard, kept, sequence, live)
    if refused:
        return
    kept.sequence, kept.live = sequence, live
    kept.connected = w.view(ShardContext, shard).connected_at
    _sent(w, kept, R.SAVE, inbox)


@model
def handover_tick(w: World) -> int:
    """Rows of shards without a lease are forgotten."""
    state, core = w.g(HANDOVER), w.g(CORE)
    provider = w.g(CONFIG).session_provider
    if w.g(FLEET_CONFIG).magic != FLEET_MAGIC or provider != SessionProvider.BUS:
        return NEVER
    if state.look_at > core.now:
        return int(state.look_at)
    for n in range(core.slots_used):
        slot, row = core.slots[n], state.rows[n]
        if slot.flags & 1 and w.view(ShardContext, slot.context).hard_stop > core.now:
            handover_shard(w, slot.context, row.address_)
        elif row.request:
            row.request = R.NONE
            state.under_way -= 1
    state.look_at = after(w, 50)
    return int(state.look_at)
