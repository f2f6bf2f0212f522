"""The TCP control block of one shard (RFC 9293 names)."""

from __future__ import annotations

import enum

from toolchain.layout import Struct, enum32, u16, u32


class TcpState(enum.IntEnum):
    """RFC 9293 3.3.2, plus FAILED: the connection is gone and the lifecycle has to act."""

    CLOSED = 0
    SYN_SENT = 1
    ESTABLISHED = 2
    FIN_WAIT_1 = 3
    FIN_WAIT_2 = 4
    CLOSE_WAIT = 5
    CLOSING = 6
    LAST_ACK = 7
    TIME_WAIT = 8
    FAILED = 9


class TcpContext(Struct):
    """TCP page of one shard."""

    SIZE = 0x400
    state = enum32(0x00, TcpState, "see TcpState")
    error = u32(0x04, "last_error of the layer; why FAILED")
    remote_ip = u32(0x08, "network byte order as loaded from the wire")
    remote_port = u16(0x0C, "host byte order")
    local_port = u16(0x0E, "host byte order")
