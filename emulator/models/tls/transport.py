"""The transport: plain TCP under other names, until TLS exists."""

from emulator.effects import World, model
from emulator.models.tcp.connect import tcp_abort, tcp_close
from emulator.models.tcp.reliable import tcp_commit, tcp_reserve
from emulator.models.tcp.ring import tcp_consume, tcp_readable
from firmware.layouts.shard import ShardContext
from firmware.layouts.tls import TlsState


@model
def tls_start(w: World, shard: int) -> None:
    """Bound to TCP, no error, bytes pass."""
    tls = w.view(ShardContext, shard).tls
    tls.tcp_ptr, tls.error = w.view(ShardContext, shard).tcp.address_, 0
    tls.state = TlsState.PASS_THROUGH


@model
def tls_readable(w: World, shard: int) -> tuple[int, int]:
    """What TCP has."""
    return tcp_readable(w, shard)


@model
def tls_consume(w: World, shard: int, length: int) -> None:
    """TCP frees it."""
    tcp_consume(w, shard, length)


@model
def tls_reserve(w: World, shard: int, length: int) -> tuple[int, int]:
    """Room of TCP."""
    return tcp_reserve(w, shard, length)


@model
def tls_commit(w: World, shard: int, length: int) -> None:
    """Into TCP's queue."""
    tcp_commit(w, shard, length)


@model
def tls_close(w: World, shard: int) -> None:
    """TCP closes."""
    tcp_close(w, shard)


@model
def tls_abort(w: World, shard: int) -> None:
    """TCP aborts, TLS is idle."""
    w.view(ShardContext, shard).tls.state = TlsState.IDLE
    tcp_abort(w, shard)
