"""Incoming frames."""

from emulator.effects import World, model
from emulator.models.tls.stream import tls_ended
from emulator.models.tls.transport import tls_consume, tls_more, tls_readable
from emulator.models.websocket.close import ws_peer_close
from emulator.models.websocket.fail import violate
from emulator.models.websocket.header import Header, ws_header, ws_open_frame
from emulator.models.websocket.response import ws_response
from emulator.models.websocket.send import ws_begin, ws_finish
from emulator.models.websocket.utf8 import utf8_check
from firmware.layouts import websocket as layout
from firmware.layouts.shard import ShardContext
from firmware.layouts.websocket import Opcode, WsFlag, WsState
from firmware.websocket.utf8 import UTF8_ACCEPT, UTF8_REJECT


@model
def ws_pong(w: World, shard: int, payload: int, length: int) -> int:
    """Send the same payload back, as long as we have not closed."""
    ws = w.view(ShardContext, shard).websocket
    if ws.state != WsState.OPEN:
        return 0
    where, full = ws_begin(w, shard, length)
    if full:
        return 1
    w.write(where, w.read(payload, length))
    ws_finish(w, shard, length, 0x8A)
    ws.pings += 1
    return 0


def _control(w: World, shard: int, header: Header, body: int) -> int:
    ws = w.view(ShardContext, shard).websocket
    if header.opcode == Opcode.CLOSE:
        return ws_peer_close(w, shard, body, header.length)
    if header.opcode == Opcode.PING:
        return ws_pong(w, shard, body, header.length)
    ws.pongs += 1
    return 0


def _deliver(w: World, shard: int, where: int, length: int) -> tuple[int, int, int] | None:
    """Check text, mark first and last part; None when the text is not UTF-8."""
    ws = w.view(ShardContext, shard).websocket
    if ws.flags & WsFlag.TEXT:
        ws.utf8 = utf8_check(w, where, length, ws.utf8)
        if ws.utf8 == UTF8_REJECT:
            violate(w, shard, layout.TEXT_UTF8)
            return None
    ws.frame_left -= length
    ws.pending = length
    part = int(bool(ws.flags & WsFlag.FIRST))
    flags = ws.flags & ~WsFlag.FIRST
    if not ws.frame_left and flags & WsFlag.FIN:
        if flags & WsFlag.TEXT and ws.utf8 != UTF8_ACCEPT:
            violate(w, shard, layout.TEXT_UTF8)
            return None
        part |= 2
        flags &= WsFlag.BINARY_ALLOWED | WsFlag.TEXT
        ws.message_bytes = 0
    ws.flags = flags
    return where, length, part


def _starved(w: World, shard: int) -> bool:
    """Tell whether there is more to read; otherwise see whether the stream is over."""
    if not tls_more(w, shard):
        return True
    if tls_ended(w, shard):
        return False
    ws = w.view(ShardContext, shard).websocket
    if ws.state == WsState.CLOSING:
        ws.state = WsState.CLOSED
    elif not ws.error and ws.state in (WsState.HANDSHAKE, WsState.OPEN):
        violate(w, shard, layout.END_OF_STREAM)
    return False


_NOTHING = (1, None, None, None)


@model
def ws_next(w: World, shard: int) -> tuple[int, int | None, int | None, int | None]:
    """Free the last part, then read on until there is another one or nothing to read."""
    ws = w.view(ShardContext, shard).websocket
    if ws.pending:
        count, ws.pending = ws.pending, 0
        tls_consume(w, shard, count)
    while True:
        where, ready = tls_readable(w, shard)
        if ws.error or ws.state in (WsState.CLOSED, WsState.FAILED):
            tls_consume(w, shard, ready)
            if _starved(w, shard):
                continue
            return _NOTHING
        if ws.state == WsState.IDLE:
            return _NOTHING
        if ws.state == WsState.HANDSHAKE:
            head = ws_response(w, shard, where, ready)
            if ws.state == WsState.FAILED:
                return _NOTHING
            if not head:
                if _starved(w, shard):
                    continue
                return _NOTHING
            tls_consume(w, shard, head)
            continue
        if ws.frame_left:
            if not ready:
                if _starved(w, shard):
                    continue
                return _NOTHING
            given = _deliver(w, shard, where, min(ready, ws.frame_left))
            return (0, *given) if given else _NOTHING
        failed, size, first, length = ws_header(w, shard, where, ready)
        if failed:
            return _NOTHING
        if not size or first is None or length is None:
            if _starved(w, shard):
                continue
            return _NOTHING
        header = Header(size, first, length)
        if header.opcode >= Opcode.CLOSE:
            if size + length > ready:
                if _starved(w, shard):
                    continue
                return _NOTHING
            if _control(w, shard, header, where + size):
                return _NOTHING
            tls_consume(w, shard, size + length)
            continue
        ws_open_frame(w, shard, first, length)
        tls_consume(w, shard, size)
        if not length and header.fin:
            where, _ = tls_readable(w, shard)
            given = _deliver(w, shard, where, 0)
            return (0, *given) if given else _NOTHING
