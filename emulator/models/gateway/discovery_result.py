"""What a document means."""

from emulator.effects import World, model
from emulator.models.gateway.discovery_target import PATH_MAX, discovery_target
from emulator.models.gateway.discovery_verdict import discovery_refuse, discovery_retry
from emulator.models.gateway.url import url_authority, url_scheme
from emulator.models.log import log
from emulator.models.tls.transport import tls_abort
from firmware.layouts.discovery import (
    DISCOVERY,
    DISCOVERY_DOCUMENT,
    DISCOVERY_UNAVAILABLE,
    DISCOVERY_URL,
    DiscoveryState,
)
from firmware.layouts.fleet_config import FLEET_CONFIG, FLEET_MAGIC
from firmware.layouts.gateway import UrlFault
from firmware.layouts.json import DocumentField, JsonKind, JsonState
from firmware.layouts.log import DISCOVERY_FOUND, FLEET_CONCURRENCY, RESHARD_RECOMMENDED
from firmware.layouts.node import CLOCK, CORE, PLAN
from firmware.layouts.permit import PERMITS, PERMITS_MAX
from firmware.layouts.plan import MOVES
from firmware.layouts.profile import PROFILES
from firmware.layouts.shard import ShardContext

_DAY_MS = 86_400_000


def _kept(w: World, field: DocumentField) -> tuple[JsonKind, int]:
    parser = w.g(DISCOVERY).parser
    raw = parser.values[4 * field : 4 * field + 4]
    return JsonKind(parser.kinds[field]), int.from_bytes(raw, "little")


@model
def discovery_limits(w: World) -> None:
    """Integers count; the gate begins anew under them."""
    permits = w.g(PERMITS)
    for field, name in (
        (DocumentField.TOTAL, "total"),
        (DocumentField.REMAINING, "remaining"),
        (DocumentField.RESET_AFTER, "reset_after_ms"),
    ):
        kind, number = _kept(w, field)
        if kind == JsonKind.INTEGER:
            setattr(permits, name, number)
    kind, number = _kept(w, DocumentField.MAX_CONCURRENCY)
    keys = min(number, PERMITS_MAX)
    void = _kept(w, DocumentField.TOTAL)[0] == JsonKind.INTEGER
    if void and _kept(w, DocumentField.REMAINING)[0] == JsonKind.INTEGER:
        permits.said += 1
    alone = w.g(FLEET_CONFIG).magic != FLEET_MAGIC
    if alone and kind == JsonKind.INTEGER and keys and keys != permits.max_concurrency:
        permits.max_concurrency, void = keys, True
    if void:
        wait = permits.reset_after_ms * w.g(CLOCK).tsc_cycles_per_ms
        permits.reset_at, permits.owned = (w.g(CORE).now + wait) % 2**64, 0
        for n in range(PERMITS_MAX):
            permits.keys[n].wipe()


@model
def discovery_keys(w: World) -> None:
    """The plan rules; what the service allows is news when it is another number."""
    kind, number = _kept(w, DocumentField.MAX_CONCURRENCY)
    service, plan = min(number, PERMITS_MAX), w.g(PERMITS).max_concurrency
    if w.g(FLEET_CONFIG).magic == FLEET_MAGIC and kind == JsonKind.INTEGER and service != plan:
        log(w, FLEET_CONCURRENCY, None, plan, service)


@model
def discovery_recommend(w: World) -> None:
    """A number that is one is kept; it is news when the plan has fewer."""
    kind, number = _kept(w, DocumentField.SHARDS)
    if kind != JsonKind.INTEGER:
        return
    w.g(MOVES).recommended, total = number, w.g(PLAN).global_total
    if number > total:
        log(w, RESHARD_RECOMMENDED, None, total, number)


def _judge_url(w: World) -> tuple[int, int]:
    """Return the error of what should be a URL, or 0 and its bytes."""
    kind, length = _kept(w, DocumentField.URL)
    if kind != JsonKind.STRING:
        return DISCOVERY_URL.code | UrlFault.ABSENT, 0
    if length > 160:
        return DISCOVERY_URL.code | UrlFault.TOO_LONG, 0
    return 0, length


@model
def discovery_document(w: World, shard: int) -> None:
    """A document of 200 gives the gateway or is refused; one of 429 may lengthen the wait."""
    found = w.g(DISCOVERY)
    if found.status != 200:
        kind, number = _kept(w, DocumentField.RETRY_AFTER)
        wait = {JsonKind.INTEGER: 1000 * number, JsonKind.DECIMAL: number + 1}.get(kind, 0)
        if min(wait, _DAY_MS) > found.retry_after_ms:
            found.retry_after_ms = min(wait, _DAY_MS)
        discovery_retry(w, shard, DISCOVERY_UNAVAILABLE.code | found.status)
        return
    if found.parser.state != JsonState.END:
        discovery_refuse(w, shard, DISCOVERY_DOCUMENT.code | found.parser.state)
        return
    error, length = _judge_url(w)
    if error:
        discovery_refuse(w, shard, error)
        return
    text = found.parser.resume_url.address
    end = text + length
    fault, default, host = url_scheme(w, text, 0)
    if fault or default is None or host is None:
        discovery_refuse(w, shard, DISCOVERY_URL.code | fault)
        return
    fault, size, port, rest = url_authority(w, host, end, default)
    if fault or size is None or port is None or rest is None:
        discovery_refuse(w, shard, DISCOVERY_URL.code | fault)
        return
    found.gateway_port, found.gateway_host_len = port, size
    found.gateway_host[:size] = w.read(host, size)
    query = PROFILES[w.view(ShardContext, shard).profile].query
    start = found.gateway_path.address
    bad, stop, has_query = discovery_target(w, rest, end - rest, start, PATH_MAX - 19)
    if bad or stop is None:
        discovery_refuse(w, shard, DISCOVERY_URL.code | UrlFault.TARGET)
        return
    tail = (b"&" if has_query else b"?") + query
    w.write(stop, tail)
    found.gateway_path_len = stop + len(tail) - start
    discovery_limits(w)
    found.state, found.owner = DiscoveryState.FOUND, 0
    tls_abort(w, shard)
    permits = w.g(PERMITS)
    told = found.gateway_port, permits.max_concurrency, permits.remaining, found.requests
    log(w, DISCOVERY_FOUND, shard, *told)
    discovery_keys(w)
    discovery_recommend(w)
