"""How a question for the gateway ends without an answer."""

from emulator.effects import World, model
from emulator.models.failure import shard_fail
from emulator.models.gateway.pace import gateway_ms_until
from emulator.models.log import log
from firmware.layouts.discovery import DISCOVERY, SPACING_MS, DiscoveryState
from firmware.layouts.log import DISCOVERY_REFUSED, DISCOVERY_WAIT
from firmware.layouts.node import CLOCK, CORE
from firmware.layouts.shard import End, FailureFlag, ShardContext


@model
def discovery_share(w: World, shard: int) -> None:
    """The network failed this shard; what is left of a wait is its own; fatal when nobody asks again."""
    found, context = w.g(DISCOVERY), w.view(ShardContext, shard)
    context.websocket.http_status = found.status
    if found.retry_after_ms:
        context.required_wait_ms = gateway_ms_until(w, found.not_before)
    flags = FailureFlag.WAIT if found.status == 429 else 0
    if found.state == DiscoveryState.REFUSED:
        flags = FailureFlag.FATAL
    shard_fail(w, shard, End.NETWORK, flags, 0, found.error)


@model
def discovery_later(w: World, error: int) -> None:
    """The longer of what was asked for and the node's own spacing passes before the next question."""
    found, now = w.g(DISCOVERY), w.g(CORE).now
    wait = max(SPACING_MS, found.retry_after_ms)
    found.error, found.state, found.owner = error, DiscoveryState.IDLE, 0
    found.failed_at = now
    found.not_before = now + wait * w.g(CLOCK).tsc_cycles_per_ms
    log(w, DISCOVERY_WAIT, None, error, found.status, wait)


@model
def discovery_retry(w: World, shard: int, error: int) -> None:
    """For now."""
    discovery_later(w, error)
    discovery_share(w, shard)


@model
def discovery_refuse(w: World, shard: int, error: int) -> None:
    """For good."""
    found = w.g(DISCOVERY)
    found.error, found.state, found.owner = error, DiscoveryState.REFUSED, 0
    log(w, DISCOVERY_REFUSED, None, error, found.status)
    discovery_share(w, shard)
