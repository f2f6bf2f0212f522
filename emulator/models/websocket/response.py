"""The upgrade response."""

import re

from emulator.effects import World, model
from emulator.models.websocket.fail import violate, ws_fail
from emulator.models.websocket.fields import VALUE, http_line, ws_take_field
from firmware.layouts.shard import End, FailureFlag, ShardContext
from firmware.layouts.websocket import (
    FIELD_MISSING,
    HEADER_LINE,
    RESPONSE_MAX,
    RESPONSE_TOO_LONG,
    STATUS_LINE,
    UPGRADE_REFUSED,
    ResponseHeader,
    WsState,
)

_STATUS = re.compile(rb"HTTP/1\.1 ([0-9]{3})(?: %s*)?\r\n" % VALUE)


@model
def ws_response(w: World, shard: int, head: int, length: int) -> int:
    """Judge a whole head: status line, fields, and that all three fields were right."""
    ws = w.view(ShardContext, shard).websocket
    known = w.read(head, min(length, RESPONSE_MAX))
    end = known.find(b"\r\n\r\n", ws.scanned)
    if end < 0:
        ws.scanned = max(ws.scanned, len(known) - 3)
        if length >= RESPONSE_MAX:
            violate(w, shard, RESPONSE_TOO_LONG)
        return 0
    status = _STATUS.match(known)
    if status is None or status.end() > end + 2:
        violate(w, shard, STATUS_LINE)
        return 0
    number = int(status[1])
    if number != 101:
        ws.http_status = number
        flags = FailureFlag.WAIT if 400 <= number < 500 else 0
        ws_fail(w, shard, End.NETWORK, flags, 0, UPGRADE_REFUSED.code | number)
        return 0
    line = head + status.end()
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
