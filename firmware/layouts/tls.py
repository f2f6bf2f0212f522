"""The TLS context: a pass-through in this slice, with the state that the lifecycle tests."""

from __future__ import annotations

import enum

from toolchain.layout import Struct, enum32, ptr, u32


class TlsState(enum.IntEnum):
    """Progress of TLS; PASS_THROUGH while the transport is plain."""

    IDLE = 0
    PASS_THROUGH = 1
    FAILED = 2


class TlsContext(Struct):
    """TLS workspace of one shard."""

    SIZE = 0x80
    state = enum32(0x00, TlsState, "progress; FAILED asks the lifecycle for a backoff")
    error = u32(0x04, "last_error of the layer")
    tcp_ptr = ptr(0x08, "the shard's TcpContext; rebound after a reset")
