"""The end of the conversation."""

from emulator.effects import World, model
from emulator.models.websocket.fail import violate
from emulator.models.websocket.send import ws_begin, ws_finish
from emulator.models.websocket.utf8 import utf8_check
from firmware.layouts.shard import ShardContext
from firmware.layouts.websocket import CLOSE_CODE, CLOSE_LENGTH, CLOSE_UTF8, WsState

_RESERVED = {1004, 1005, 1006}


def may_be_sent(code: int) -> bool:
    """Tell whether a code may stand in a close frame: registered ones, libraries, applications."""
    return (1000 <= code <= 1014 and code not in _RESERVED) or 3000 <= code <= 4999


def _send(w: World, shard: int, code: int) -> bool:
    body = code.to_bytes(2, "big") if code else b""
    where, full = ws_begin(w, shard, len(body))
    if full:
        return False
    w.write(where, body)
    ws_finish(w, shard, len(body), 0x88)
    return True


@model
def ws_close(w: World, shard: int, code: int) -> None:
    """Send a close frame when OPEN; then only the peer's is awaited."""
    ws = w.view(ShardContext, shard).websocket
    if ws.state == WsState.OPEN and _send(w, shard, code):
        ws.state = WsState.CLOSING


@model
def ws_peer_close(w: World, shard: int, body: int, length: int) -> int:
    """Judge code and reason, echo the code unless we closed first."""
    context = w.view(ShardContext, shard)
    ws, code = context.websocket, 0
    if length == 1:
        violate(w, shard, CLOSE_LENGTH)
        return 0
    if length:
        code = int.from_bytes(w.read(body, 2), "big")
        if not may_be_sent(code):
            violate(w, shard, CLOSE_CODE, code)
            return 0
        if utf8_check(w, body + 2, length - 2, 0):
            violate(w, shard, CLOSE_UTF8)
            return 0
    if ws.state == WsState.OPEN and not _send(w, shard, code):
        return 1
    context.peer_close = code
    ws.close_reason_len = max(length - 2, 0)
    ws.state = WsState.CLOSED
    return 0
