"""The start of the conversation."""

from emulator.effects import World, model
from emulator.models.tls.transport import tls_commit, tls_reserve
from firmware.layouts.shard import ShardContext
from firmware.layouts.websocket import WsState


@model
def ws_start(w: World, shard: int) -> int:
    """Copy the request into the stream."""
    ws = w.view(ShardContext, shard).websocket
    where, full = tls_reserve(w, shard, ws.request_len)
    if full:
        return 1
    w.write(where, bytes(ws.request[: ws.request_len]))
    tls_commit(w, shard, ws.request_len)
    ws.state = WsState.HANDSHAKE
    return 0
