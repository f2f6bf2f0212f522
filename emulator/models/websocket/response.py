"""The upgrade response."""

from emulator.effects import World, model
from emulator.models.websocket.fail import violate, ws_fail
from emulator.models.websocket.fields import http_line, http_same, ws_take_field
from emulator.models.websocket.http import http_find_end, http_number, http_status
from firmware.layouts.shard import End, FailureFlag, ShardContext
from firmware.layouts.websocket import (
    FIELD_MISSING,
    HEADER_LINE,
    RESPONSE_MAX,
    RESPONSE_TOO_LONG,
    STATUS_LINE,
    UPGRADE_CHALLENGED,
    UPGRADE_REFUSED,
    ResponseHeader,
    WsState,
)


@model
def ws_find_field(
    w: World, line: int, last: int, name: int, size: int
) -> tuple[int, int | None, int | None]:
    """The value of the first field of a name; the first bad line ends the search."""
    while line != last:
        bad, following, length, value, value_size = http_line(w, line)
        if bad or following is None or length is None:
            break
        if http_same(w, line, length, name, size):
            return 0, value, value_size
        line = following
    return 1, None, None


@model
def ws_retry_after(w: World, shard: int, line: int, last: int) -> None:
    """The first Retry-After in seconds, at most a day."""
    missing, value, size = ws_find_field(w, line, last, w.address("http_retry_after"), 11)
    if missing or value is None or size is None:
        return
    wrong, seconds = http_number(w, value, size)
    if not wrong and seconds is not None:
        w.view(ShardContext, shard).required_wait_ms = min(seconds, 86_400) * 1000


@model
def ws_response(w: World, shard: int, head: int, length: int) -> int:
    """Judge a whole head: status line, fields, and that all three fields were right."""
    ws = w.view(ShardContext, shard).websocket
    missing, end = http_find_end(w, head, length, ws.scanned)
    if missing:
        ws.scanned = end
        if length >= RESPONSE_MAX:
            violate(w, shard, RESPONSE_TOO_LONG)
        return 0
    bad, number, line = http_status(w, head, head + end + 2)
    if bad or number is None or line is None:
        violate(w, shard, STATUS_LINE)
        return 0
    if number != 101:
        ws.http_status = number
        ws_retry_after(w, shard, line, head + end + 2)
        flags = FailureFlag.WAIT if number == 429 else 0
        why, site = End.NETWORK, UPGRADE_REFUSED
        if number == 403:
            known = w.address("http_cf_mitigated")
            if not ws_find_field(w, line, head + end + 2, known, len("cf-mitigated"))[0]:
                why, site = End.CHALLENGED, UPGRADE_CHALLENGED
        ws_fail(w, shard, why, flags, 0, site.code | number)
        return 0
    while line != head + end + 2:
        bad, following, name, value, size = http_line(w, line)
        if bad or following is None or name is None or value is None or size is None:
            violate(w, shard, HEADER_LINE)
            return 0
        error = ws_take_field(w, shard, line, name, value, size)
        if error:
            ws_fail(w, shard, End.PROTOCOL, 0, 0, error)
            return 0
        line = following
    if ws.seen != sum(ResponseHeader):
        violate(w, shard, FIELD_MISSING, ws.seen)
        return 0
    ws.state = WsState.OPEN
    return end + 4
