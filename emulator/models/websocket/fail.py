"""How the layer ends a connection."""

from emulator.effects import World, model
from emulator.models.failure import shard_fail
from firmware.errors import Site
from firmware.layouts.shard import ShardContext
from firmware.layouts.websocket import WsState
from firmware.websocket.fail import CONSEQUENCES


@model
def ws_fail(w: World, shard: int, end: int, flags: int, close: int, error: int) -> None:
    """Keep the error; a handshake is FAILED at once; tell the lifecycle."""
    ws = w.view(ShardContext, shard).websocket
    ws.error = error
    if ws.state == WsState.HANDSHAKE:
        ws.state = WsState.FAILED
    shard_fail(w, shard, end, flags, close, error)


def violate(w: World, shard: int, where: Site, detail: int = 0) -> None:
    """Fail with the consequence that the table gives the site."""
    what = CONSEQUENCES[where]
    ws_fail(w, shard, what.end, what.flags, what.close, where.code | detail)
