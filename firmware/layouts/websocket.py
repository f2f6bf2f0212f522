"""The WebSocket context of one shard (RFC 6455 names)."""

from __future__ import annotations

import enum

from toolchain.layout import Struct, enum32, u32


class WsState(enum.IntEnum):
    """Progress of the WebSocket connection."""

    IDLE = 0
    HANDSHAKE = 1
    OPEN = 2
    CLOSING = 3
    CLOSED = 4
    FAILED = 5


class WebSocketContext(Struct):
    """WebSocket workspace of one shard."""

    SIZE = 0x380
    state = enum32(0x00, WsState, "see WsState")
    error = u32(0x04, "last_error of the layer")
