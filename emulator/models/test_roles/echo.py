"""The echo role."""

from emulator.effects import World, model
from emulator.models.websocket.close import ws_close
from emulator.models.websocket.fail import ws_fail
from emulator.models.websocket.frames import ws_next
from emulator.models.websocket.request import ws_write_request
from emulator.models.websocket.send import ws_begin, ws_finish
from firmware.layouts.echo import (
    ECHO,
    ECHO_BUFFER,
    ECHO_FRAGMENT_MAX,
    ECHO_MESSAGE_MAX,
    EchoState,
)
from firmware.layouts.shard import End, ShardContext
from firmware.layouts.websocket import MESSAGE_TOO_LONG, WsFlag


@model
def echo_begin(w: World, shard: int) -> None:
    """Nothing held, nothing sent; the request names the target."""
    echo = w.g(ECHO)
    echo.length = echo.sent = echo.opcode = echo.messages = 0
    echo.state = EchoState.READING
    w.view(ShardContext, shard).websocket.flags = WsFlag.BINARY_ALLOWED
    host, path = echo.offset_of("host"), echo.offset_of("path")
    ws_write_request(w, shard, host, echo.host_len, echo.port, path, echo.path_len)


@model
def echo_send(w: World, shard: int) -> int:
    """The message in fragments of at most 4096 bytes; the last one says FIN."""
    echo, buffer = w.g(ECHO), w.address(ECHO_BUFFER)
    while True:
        size = min(echo.length - echo.sent, ECHO_FRAGMENT_MAX)
        where, full = ws_begin(w, shard, size)
        if full:
            return 1
        w.write(where, w.read(buffer + echo.sent, size) if size else b"")
        first, echo.opcode = echo.opcode, 0
        echo.sent += size
        last = echo.sent == echo.length
        ws_finish(w, shard, size, first | (0x80 if last else 0))
        if last:
            break
    echo.messages += 1
    echo.length = echo.sent = 0
    echo.state = EchoState.READING
    return 0


@model
def echo_take(w: World, shard: int, part: int, length: int, place: int) -> None:
    """Append; 1009 when the buffer is too small."""
    echo, flags = w.g(ECHO), w.view(ShardContext, shard).websocket.flags
    if place & 1:
        echo.opcode = 1 if flags & WsFlag.TEXT else 2
    start = echo.length
    if start + length > ECHO_MESSAGE_MAX:
        ws_fail(w, shard, End.PROTOCOL, 0, 1009, MESSAGE_TOO_LONG.code)
        return
    echo.length = start + length
    w.write(w.address(ECHO_BUFFER) + start, w.read(part, length) if length else b"")
    if place & 2:
        echo.state = EchoState.SENDING


@model
def echo_poll(w: World, shard: int) -> None:
    """Send what is held, then read on; a violation is answered with its close code."""
    echo, context = w.g(ECHO), w.view(ShardContext, shard)
    while True:
        if echo.state == EchoState.SENDING and echo_send(w, shard):
            return
        nothing, where, length, place = ws_next(w, shard)
        if nothing or where is None or length is None or place is None:
            break
        echo_take(w, shard, where, length, place)
    if context.websocket.error:
        ws_close(w, shard, context.failure_close)
