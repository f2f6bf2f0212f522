"""The Gateway context of one shard: envelope parser, heartbeat, handshake (Discord's words)."""

from __future__ import annotations

import enum

from toolchain.layout import Struct, enum32, u32


class GatewayState(enum.IntEnum):
    """Progress of the Gateway session on this connection."""

    IDLE = 0
    WAIT_HELLO = 1
    WAIT_READY = 2
    WAIT_RESUMED = 3
    READY = 4


class GatewayContext(Struct):
    """Discord workspace of one shard."""

    SIZE = 0x1400
    state = enum32(0x00, GatewayState, "see GatewayState")
    heartbeat_interval_ms = u32(0x04, "from Hello; 0 before it")
