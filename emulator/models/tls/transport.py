"""The transport: TCP itself for `ws://`, records for `wss://`."""

from emulator.effects import World, model
from emulator.models.tcp.connect import tcp_abort, tcp_close
from emulator.models.tcp.reliable import tcp_commit, tcp_reserve
from emulator.models.tcp.ring import tcp_consume, tcp_readable
from emulator.models.tls.begin import tls_begin
from emulator.models.tls.handshake import tls_tick
from emulator.models.tls.pool import tls_arena_give
from emulator.models.tls.protect import tls_erase
from emulator.models.tls.send import (
    tls_alert,
    tls_commit_record,
    tls_reserve_record,
    tls_update_keys,
)
from emulator.models.tls.stream import tls_pull
from firmware.layouts.config import CONFIG
from firmware.layouts.shard import ShardContext
from firmware.layouts.tls import TlsFlag, TlsState

_PLAIN = TlsState.IDLE, TlsState.PASS_THROUGH


@model
def tls_start(w: World, shard: int) -> None:
    """Bound to TCP, nothing of an earlier connection; then a handshake, or bytes pass."""
    tls = w.view(ShardContext, shard).tls
    w.write(tls.address_, bytes(tls.offset_of("arena_ptr") - tls.address_))
    tls.anchor = tls.key_kind = 0
    tls.tcp_ptr = w.view(ShardContext, shard).tcp.address_
    if w.g(CONFIG).gateway_secure:
        tls_begin(w, shard)
    else:
        tls.state = TlsState.PASS_THROUGH


@model
def tls_ready(w: World, shard: int) -> int:
    """Whether it carries bytes by now."""
    tls = w.view(ShardContext, shard).tls
    if tls.state == TlsState.IDLE:
        tls_start(w, shard)
    if tls.state == TlsState.PASS_THROUGH:
        return 0
    if TlsState.WAIT_SERVER_HELLO <= tls.state < TlsState.CONNECTED:
        tls_tick(w, shard)
    return int(tls.state != TlsState.CONNECTED)


def _refused(w: World, shard: int) -> bool:
    """Tell whether TLS is wanted and has not begun."""
    idle = w.view(ShardContext, shard).tls.state == TlsState.IDLE
    return bool(idle and w.g(CONFIG).gateway_secure)


@model
def tls_readable(w: World, shard: int) -> tuple[int, int]:
    """What TCP has, or the plaintext at its head; records are opened when there is none."""
    tls = w.view(ShardContext, shard).tls
    if _refused(w, shard):
        return tcp_readable(w, shard)[0], 0
    if tls.state in _PLAIN:
        return tcp_readable(w, shard)
    if not tls.plain_left and tls.state == TlsState.CONNECTED:
        tls_pull(w, shard)
    return tcp_readable(w, shard)[0], tls.plain_left


@model
def tls_more(w: World, shard: int) -> int:
    """Another record's data behind what is shown."""
    connected = w.view(ShardContext, shard).tls.state == TlsState.CONNECTED
    return int(tls_pull(w, shard)) if connected else 1


@model
def tls_consume(w: World, shard: int, length: int) -> None:
    """TCP frees it, and what lies behind the last of it."""
    tls = w.view(ShardContext, shard).tls
    if tls.state in _PLAIN:
        tcp_consume(w, shard, length)
        return
    read = min(length, tls.plain_left)
    tls.plain_left -= read
    if not tls.plain_left:
        read += tls.gap
        tls.gap = 0
    tcp_consume(w, shard, read)


@model
def tls_reserve(w: World, shard: int, length: int) -> tuple[int, int]:
    """Room of TCP, or of a record; new keys go first when they are owed or due."""
    context = w.view(ShardContext, shard)
    tls = context.tls
    if _refused(w, shard):
        return 0, 1
    if tls.state in _PLAIN:
        return tcp_reserve(w, shard, length)
    if tls.state != TlsState.CONNECTED:
        return 0, 1
    owed = tls.flags & TlsFlag.KEY_UPDATE_OWED or context.tls_keys.send.sequence >= 2**23
    if owed and tls_update_keys(w, shard):
        return 0, 1
    return tls_reserve_record(w, shard, length)


@model
def tls_commit(w: World, shard: int, length: int) -> None:
    """Into TCP's queue, as it is or as a record."""
    if _refused(w, shard):
        return
    if w.view(ShardContext, shard).tls.state in _PLAIN:
        tcp_commit(w, shard, length)
    else:
        tls_commit_record(w, shard, 23, length)


@model
def tls_close(w: World, shard: int) -> None:
    """close_notify once, then TCP closes; it waits for room."""
    tls = w.view(ShardContext, shard).tls
    if tls.state >= TlsState.CONNECTED and not tls.flags & TlsFlag.CLOSED:
        if tls_alert(w, shard, 0):
            return
        tls.flags |= TlsFlag.CLOSED
    tcp_close(w, shard)


@model
def tls_abort(w: World, shard: int) -> None:
    """TCP aborts, TLS is idle, no key is left, nor an arena."""
    tls = w.view(ShardContext, shard).tls
    if tls.state >= TlsState.WAIT_SERVER_HELLO:
        tls_erase(w, shard)
    tls.state = TlsState.IDLE
    tls_arena_give(w, shard)
    tcp_abort(w, shard)
