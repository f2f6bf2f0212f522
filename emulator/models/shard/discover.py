"""A shard that needs the gateway's address."""

from emulator.effects import World, model
from emulator.models.gateway.discovery_ask import discovery_begin, discovery_dial, discovery_send
from emulator.models.gateway.discovery_body import discovery_body
from emulator.models.gateway.discovery_head import discovery_head
from emulator.models.gateway.discovery_verdict import discovery_later, discovery_share
from emulator.models.shard.allowance import allowance_hold
from emulator.models.shard.permit import permit_release, permit_take
from emulator.models.shard.resume import shard_is_resumable
from emulator.models.shard.startup import attempt_budget, startup_adjust, wait_budget
from emulator.models.tls.transport import tls_ready
from emulator.models.websocket.request import ws_build_request
from firmware.layouts.config import CONFIG
from firmware.layouts.discovery import DISCOVERY, DISCOVERY_ABANDONED, DiscoveryMode
from firmware.layouts.discovery import DiscoveryState as D
from firmware.layouts.node import CORE
from firmware.layouts.permit import PERMITS
from firmware.layouts.policy import STARTUP
from firmware.layouts.shard import Phase, ShardContext, ShardFlag, ShardState
from firmware.layouts.tcp import TcpState

RECOVERING = ShardFlag.ESTABLISHED | ShardFlag.STARTUP_OVER


@model
def shard_confirm_permit(w: World, shard: int) -> int:
    """An Identify needs the permit of the key that counts now; a Resume needs none."""
    if shard_is_resumable(w, shard):
        return 0
    permits, owned = w.g(PERMITS), w.g(PERMITS).owned
    if permit_take(w, shard):
        _restart_clock(w, shard)
        return 1
    if permits.owned == owned:
        return 0
    # The allowance judges as if the new permit were not there yet.
    permits.owned = owned
    hold = allowance_hold(w, shard)
    permits.owned = owned + 1
    if not hold:
        return 0
    context = w.view(ShardContext, shard)
    context.hold, context.state, context.phase = hold, ShardState.ASSIGNED, Phase.NONE
    permit_release(w, shard)
    return 1


def _restart_clock(w: World, shard: int) -> None:
    """What somebody else imposes spends no attempt's budget."""
    context, now = w.view(ShardContext, shard), w.g(CORE).now
    context.attempt_started = now
    context.attempt_deadline = wait_budget(w, shard)


@model
def shard_discover(w: World, shard: int) -> int:
    """One question for all: ask it, wait for it, share its end, or use its answer."""
    context, found = w.view(ShardContext, shard), w.g(DISCOVERY)
    if w.g(CONFIG).discovery == DiscoveryMode.STATIC:
        return 0
    if found.state == D.FOUND:
        return _use(w, shard)
    if found.state > D.FOUND:
        discovery_share(w, shard)
        return 1
    mine = found.owner == context.slot + 1
    if found.state == D.IDLE or not mine:
        if found.state != D.IDLE:
            if _lives(w):
                return 1
            discovery_later(w, DISCOVERY_ABANDONED.code)
        if found.failed_at > context.attempt_started:
            discovery_share(w, shard)
            return 1
        if w.g(CORE).now < found.not_before:
            _restart_clock(w, shard)
            overruns = found.not_before >= w.g(STARTUP).deadline
            if found.retry_after_ms and overruns and not context.flags & RECOVERING:
                discovery_share(w, shard)
            return 1
        discovery_begin(w, shard)
    elif found.attempt != context.attempts:
        discovery_begin(w, shard)
    return _ask(w, shard)


def end_question(w: World, shard: int) -> None:
    """A question that fails in TLS ends for all with its owner's reason and wait."""
    context, found = w.view(ShardContext, shard), w.g(DISCOVERY)
    asks = context.phase == Phase.RESOLVE and found.owner == context.slot + 1
    if asks and context.evidence.tls_site and D.RESOLVE <= found.state <= D.BODY:
        found.retry_after_ms = context.required_wait_ms
        discovery_later(w, context.last_error)


def _lives(w: World) -> bool:
    """Tell whether the attempt that asks is still where it asks."""
    found = w.g(DISCOVERY)
    owner = w.view(ShardContext, w.g(CORE).slots[found.owner - 1].context)
    starting = owner.state == ShardState.STARTING and owner.phase == Phase.RESOLVE
    return bool(starting and owner.attempts == found.attempt)


def _ask(w: World, shard: int) -> int:
    """Carry the question as far as it goes now."""
    context, found = w.view(ShardContext, shard), w.g(DISCOVERY)
    tcp = context.tcp
    if found.state == D.RESOLVE and discovery_dial(w, shard) and not context.failure:
        _restart_clock(w, shard)
    if found.state == D.CONNECT:
        if tcp.state == TcpState.SYN_SENT or tls_ready(w, shard):
            return 1
        discovery_send(w, shard)
    if found.state == D.HEAD:
        discovery_head(w, shard)
    if found.state == D.BODY:
        discovery_body(w, shard)
    if found.state != D.FOUND:
        return 1
    startup_adjust(w, shard)
    return _use(w, shard)


def _use(w: World, shard: int) -> int:
    """The request was laid down before the gateway was known, the attempt's end before the keys."""
    context = w.view(ShardContext, shard)
    if not context.flags & RECOVERING:
        context.attempt_deadline = attempt_budget(w, shard)
    if shard_confirm_permit(w, shard):
        return 1
    ws_build_request(w, shard)
    return 0
