"""What came."""

from emulator.effects import World, model
from emulator.models.events.stall import publish_ready
from emulator.models.failure import shard_fail
from emulator.models.gateway.fail import gateway_violate
from emulator.models.gateway.heard import finish_message, gateway_heard
from emulator.models.json.feed import json_feed, json_reset
from emulator.models.log import log
from emulator.models.websocket.frames import ws_next
from firmware.layouts.closes import rule
from firmware.layouts.events import EVENTS
from firmware.layouts.gateway import GatewayState
from firmware.layouts.log import GATEWAY_CLOSED
from firmware.layouts.node import CORE
from firmware.layouts.outbox import OUTBOX
from firmware.layouts.profile import ProfileId
from firmware.layouts.shard import End, ShardContext
from firmware.layouts.websocket import PEER_CLOSED, WsState

_PUBLISHES = (GatewayState.WAIT_READY, GatewayState.WAIT_RESUMED, GatewayState.READY)


@model
def gateway_closed(w: World, shard: int) -> None:
    """The profile's table says what a code asks for."""
    context = w.view(ShardContext, shard)
    code = context.peer_close
    flags = rule(ProfileId(context.profile), code).action
    log(w, GATEWAY_CLOSED, shard, code, flags)
    shard_fail(w, shard, End.CLOSED, flags, 0, PEER_CLOSED.code | code)


@model
def gateway_chunk(w: World, shard: int, part: int, length: int, place: int) -> None:
    """After a failure nothing counts any more; a message is acted on when it is whole."""
    context = w.view(ShardContext, shard)
    if context.failure:
        return
    parser = context.gateway.parser
    context.gateway.last_frame_at = w.g(CORE).now
    context.bytes_received += length
    if place & 1:
        context.gateway.message_bytes = 0
        json_reset(w, parser.address_)
    context.gateway.message_bytes += length
    error = json_feed(w, parser.address_, part, length)
    if error:
        gateway_violate(w, shard, error)
    elif w.g(EVENTS).listeners or w.g(OUTBOX).base:
        gateway_heard(w, shard, part, length, place)
    elif place & 2:
        finish_message(w, shard)


@model
def gateway_poll(w: World, shard: int) -> None:
    """All parts that have room to go to, then the close; before a session none needs room."""
    context = w.view(ShardContext, shard)
    while not (
        w.g(OUTBOX).base and context.gateway.state in _PUBLISHES and publish_ready(w, shard)
    ):
        nothing, where, length, place = ws_next(w, shard)
        if nothing or where is None or length is None or place is None:
            break
        gateway_chunk(w, shard, where, length, place)
    if context.websocket.state == WsState.CLOSED and not context.failure:
        gateway_closed(w, shard)
