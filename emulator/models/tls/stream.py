"""The plaintext of the server as one run."""

from emulator.effects import World, model
from emulator.models.tcp.ring import tcp_consume
from emulator.models.tls.after import tls_take_after
from emulator.models.tls.fail import refuse
from emulator.models.tls.records import tls_next_record
from firmware.layouts.shard import ShardContext
from firmware.layouts.tcp import TcpState
from firmware.layouts.tls import TlsState
from firmware.layouts.tls_arena import TlsArena
from firmware.layouts.tls_sites import ALERT_RECEIVED, INTERLEAVED, RECORD_FLOOD, TRUNCATED

_IN_A_ROW = 32
_OVER = {
    TcpState.CLOSE_WAIT,
    TcpState.CLOSING,
    TcpState.LAST_ACK,
    TcpState.TIME_WAIT,
}


@model
def tls_take_alert(w: World, shard: int, alert: int) -> None:
    """close_notify ends, user_canceled announces it, all others are fatal (RFC 8446 6.1, 6.2).

    What ends nothing does not come between the parts of a message (RFC 8446 5.1).
    """
    tls, code = w.view(ShardContext, shard).tls, w.u8(alert + 1)
    tls.peer_alert = code
    if code == 90:
        parts = tls.message_have or (tls.arena_ptr and w.view(TlsArena, tls.arena_ptr).message_have)
        if parts:
            refuse(w, shard, INTERLEAVED, 21)
            return
        if tls.meaningless >= _IN_A_ROW:
            refuse(w, shard, RECORD_FLOOD, 21)
            return
        tls.meaningless += 1
    elif code == 0 and tls.state == TlsState.CONNECTED:
        tls.state = TlsState.ENDED
    else:
        refuse(w, shard, ALERT_RECEIVED, code)


@model
def tls_pass_over(w: World, shard: int, length: int) -> None:
    """At once when no plaintext waits before it."""
    tls = w.view(ShardContext, shard).tls
    total = tls.gap + length
    if tls.plain_left:
        tls.gap = total
        return
    tls.gap = 0
    tcp_consume(w, shard, total)


@model
def tls_append(w: World, shard: int, content: int, length: int, whole: int) -> None:
    """The rest lies right before the new content afterwards."""
    tls = w.view(ShardContext, shard).tls
    left, gap = tls.plain_left, tls.gap
    if left:
        w.write(content - left, w.read(content - 5 - gap - left, left))
    tls.plain_left = left + length
    tls.gap = whole - 5 - length
    tcp_consume(w, shard, gap + 5)


@model
def tls_pull(w: World, shard: int) -> int:
    """Record by record, until one has data."""
    tls = w.view(ShardContext, shard).tls
    while True:
        none, kind, content, length, whole = tls_next_record(w, shard)
        if none:
            return 1
        if kind == 23:
            if tls.message_have:
                refuse(w, shard, INTERLEAVED, 23)
                return 1
            if length:
                tls.meaningless = tls.key_updates = 0
                tls_append(w, shard, content, length, whole)
                return 0
            if tls.meaningless >= _IN_A_ROW:
                refuse(w, shard, RECORD_FLOOD, 23)
                return 1
            tls.meaningless += 1
        elif kind == 22:
            tls_take_after(w, shard, content, length)
        else:
            tls_take_alert(w, shard, content)
        tls_pass_over(w, shard, whole)
        if tls.state != TlsState.CONNECTED:
            return 1


@model
def tls_ended(w: World, shard: int) -> int:
    """A FIN, and with TLS a close_notify before it."""
    context = w.view(ShardContext, shard)
    state = context.tls.state
    if state == TlsState.ENDED:
        return 0
    if context.tcp.state not in _OVER:
        return 1
    if state in (TlsState.IDLE, TlsState.PASS_THROUGH):
        return 0
    if state != TlsState.FAILED:
        refuse(w, shard, TRUNCATED)
    return 1
