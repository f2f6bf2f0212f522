"""What an application sends."""

from emulator.effects import World, model
from emulator.models.gateway.pace import gateway_ms_until, gateway_pace_wait, row_of
from emulator.models.gateway.send import gateway_send
from emulator.models.json.feed import json_feed, json_reset
from emulator.models.text import put_decimal
from emulator.models.tls.transport import tls_reserve
from emulator.models.websocket.utf8 import utf8_check
from firmware.layouts.gateway import GatewayState
from firmware.layouts.json import JsonParser, JsonState
from firmware.layouts.profile import OPS_LIMIT
from firmware.layouts.send import SEND_PARSER, SendResult
from firmware.layouts.shard import ShardContext, ShardState
from firmware.layouts.tcp import TcpState
from firmware.layouts.websocket import WsState

_ROOM = 512
_HEADER = 8


@model
def gateway_check_body(w: World, text: int, length: int) -> int:
    """One whole JSON object, and UTF-8 to its end."""
    parser = w.address(SEND_PARSER)
    json_reset(w, parser)
    w.view(JsonParser, parser).strict = 1
    if json_feed(w, parser, text, length):
        return 1
    if w.view(JsonParser, parser).state != JsonState.END:
        return 1
    return int(utf8_check(w, text, length, 0) != 0)


def _attached(w: World, shard: int) -> bool:
    context = w.view(ShardContext, shard)
    return (
        context.state == ShardState.READY
        and not context.failure
        and context.gateway.state == GatewayState.READY
        and context.websocket.state == WsState.OPEN
        and context.tcp.state == TcpState.ESTABLISHED
    )


@model
def gateway_submit(w: World, shard: int, opcode: int, body: int, size: int) -> tuple[int, int]:
    """Static faults, attachment, the body, the limits, the room; then the envelope leaves."""
    context = w.view(ShardContext, shard)
    pacer = context.pacer
    row = row_of(context.profile, opcode) if opcode < OPS_LIMIT else None
    if row is None:
        return SendResult.BAD_OP, 0
    payload_bytes = len(f'{{"op":{opcode},"d":}}') + size
    if payload_bytes > 4096:
        return SendResult.TOO_LARGE, 0
    if not _attached(w, shard):
        return SendResult.NOT_READY, 0
    if gateway_check_body(w, body, size):
        return SendResult.BAD_BODY, 0
    until = int.from_bytes(pacer.not_before[8 * row : 8 * row + 8], "little")
    wait = gateway_ms_until(w, until) or gateway_pace_wait(w, shard)
    if not wait and tls_reserve(w, shard, size + 14 + _HEADER + _ROOM)[1]:
        wait = 100
    if wait:
        pacer.refused += 1
        return SendResult.RATE_LIMITED, wait
    start = at = context.gateway.offset_of("outbound")
    w.write(at, b'{"op":')
    at = put_decimal(w, at + 6, opcode)
    w.write(at, b',"d":' + w.read(body, size) + b"}")
    gateway_send(w, shard, at + 6 + size - start, opcode)
    pacer.running += 1
    pacer.total += 1
    pacer.sent += 1
    return SendResult.OK, 0
