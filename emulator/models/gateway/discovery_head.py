"""The head of an answer."""

from emulator.effects import World, model
from emulator.models.gateway.discovery_redirect import discovery_redirect
from emulator.models.gateway.discovery_verdict import discovery_refuse, discovery_retry
from emulator.models.json.feed import json_reset
from emulator.models.log import log
from emulator.models.tls.stream import tls_ended
from emulator.models.tls.transport import tls_consume, tls_more, tls_readable
from emulator.models.websocket.fields import http_line, http_same
from emulator.models.websocket.http import http_find_end, http_number, http_status
from firmware.layouts.discovery import (
    DISCOVERY,
    DISCOVERY_ENDED,
    DISCOVERY_HTTP,
    DISCOVERY_STATUS,
    DISCOVERY_TOO_BIG,
    DISCOVERY_UNAVAILABLE,
    DOCUMENT_MAX,
    BodyForm,
    ChunkState,
    DiscoveryState,
    HttpField,
)
from firmware.layouts.log import DISCOVERY_DATE
from firmware.layouts.profile import PROFILES
from firmware.layouts.shard import ShardContext
from firmware.layouts.websocket import RESPONSE_MAX

_FIELDS = ("content-length", "transfer-encoding", "location", "retry-after")
_DAY_S = 86_400


@model
def discovery_field(w: World, name: int, name_length: int, value: int, length: int) -> int:
    """Lengths must agree, the only coding is chunked, waits are seconds; the rest is for others."""
    found = w.g(DISCOVERY)
    for known in _FIELDS:
        symbol = w.address("http_" + known.replace("-", "_"))
        if http_same(w, name, name_length, symbol, len(known)):
            break
    else:
        return 0
    if known == "content-length":
        bad, number = http_number(w, value, length)
        if bad or (found.seen & HttpField.LENGTH and number != found.left):
            return DISCOVERY_HTTP.code
        found.left = number
        found.seen |= HttpField.LENGTH
    elif known == "transfer-encoding":
        if not http_same(w, value, length, w.address("http_chunked"), 7):
            return DISCOVERY_HTTP.code
        found.seen |= HttpField.CHUNKED
    elif known == "location":
        found.location_len = length
        kept = min(length, 384)
        found.location[:kept] = w.read(value, kept)
        found.seen |= HttpField.LOCATION
    else:
        bad, number = http_number(w, value, length)
        if bad or number is None:
            log(w, DISCOVERY_DATE, None, found.status)
        elif min(number, _DAY_S) * 1000 > found.retry_after_ms:
            found.retry_after_ms = min(number, _DAY_S) * 1000
    return 0


@model
def discovery_head(w: World, shard: int) -> None:
    """Wait for a whole head, read it, and go where its status points."""
    while _read_head(w, shard):
        status = w.g(DISCOVERY).status
        if not 100 <= status < 200 or status == 101:
            _judge(w, shard, status)
            return


def _read_head(w: World, shard: int) -> bool:
    """Take one head; False when it is not whole yet or is none."""
    found = w.g(DISCOVERY)
    head, ready = tls_readable(w, shard)
    missing, end = http_find_end(w, head, ready, found.scanned)
    if missing:
        found.scanned = end
        if ready >= RESPONSE_MAX:
            discovery_retry(w, shard, DISCOVERY_HTTP.code)
        elif not tls_more(w, shard):
            return _read_head(w, shard)
        elif not tls_ended(w, shard):
            discovery_retry(w, shard, DISCOVERY_ENDED.code)
        return False
    last = head + end + 2
    bad, status, line = http_status(w, head, last)
    if bad or status is None or line is None:
        discovery_retry(w, shard, DISCOVERY_HTTP.code)
        return False
    found.status = status
    found.scanned = found.seen = found.left = found.location_len = found.retry_after_ms = 0
    while line != last:
        bad, following, name, value, size = http_line(w, line)
        if bad or following is None or name is None or value is None or size is None:
            discovery_retry(w, shard, DISCOVERY_HTTP.code)
            return False
        error = discovery_field(w, line, name, value, size)
        if error:
            discovery_retry(w, shard, error)
            return False
        line = following
    tls_consume(w, shard, end + 4)
    return True


def _judge(w: World, shard: int, status: int) -> None:
    found = w.g(DISCOVERY)
    if status in (301, 302, 303, 307, 308):
        discovery_redirect(w, shard)
    elif status >= 500:
        discovery_retry(w, shard, DISCOVERY_UNAVAILABLE.code | status)
    elif status not in (200, 429):
        discovery_refuse(w, shard, DISCOVERY_STATUS.code | status)
    elif found.seen & HttpField.LENGTH and found.left > DOCUMENT_MAX:
        if status == 429:
            discovery_retry(w, shard, DISCOVERY_UNAVAILABLE.code | status)
        else:
            discovery_refuse(w, shard, DISCOVERY_TOO_BIG.code)
    else:
        found.form = BodyForm.UNTIL_CLOSE
        if found.seen & HttpField.CHUNKED:
            found.form, found.left = BodyForm.CHUNKED, 0
        elif found.seen & HttpField.LENGTH:
            found.form = BodyForm.LENGTH
        found.chunk, found.body_bytes = ChunkState.SIZE_FIRST, 0
        json_reset(w, found.parser.address_)
        found.parser.vocabulary = PROFILES[w.view(ShardContext, shard).profile].vocabulary
        found.state = DiscoveryState.BODY
