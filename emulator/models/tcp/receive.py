"""Payload and FIN of an acceptable segment."""

from emulator.effects import World, model
from emulator.models.tcp.arithmetic import SPACE, after, later, tcp_of
from emulator.models.tcp.ring import tcp_keep, tcp_merge
from emulator.models.tcp.send import tcp_ack
from firmware.layouts.shard import ShardContext
from firmware.layouts.tcp import (
    ACK_DELAY_MS,
    TCP_IN,
    TIME_WAIT_MS,
    TcpControl,
    TcpFlag,
    TcpState,
)


@model
def tcp_finish(w: World, shard: int) -> None:
    """The FIN counts when it is the next number."""
    tcp = tcp_of(w, shard)
    if not tcp.flags & TcpFlag.FIN_SEEN or tcp.fin_seq != tcp.rcv_nxt:
        return
    tcp.rcv_nxt += 1
    tcp.rcv_adv += 1
    tcp.flags = tcp.flags & ~TcpFlag.FIN_SEEN | TcpFlag.ACK_NOW
    match tcp.state:
        case TcpState.ESTABLISHED:
            tcp.state = TcpState.CLOSE_WAIT
        case TcpState.FIN_WAIT_1:
            tcp.state = TcpState.CLOSING
        case _:
            tcp.wait_at = after(w, TIME_WAIT_MS)
            tcp.state = TcpState.TIME_WAIT


@model
def tcp_advance(w: World, shard: int, end: int, kept: int) -> None:
    """Readable up to `end`; the ACK leaves at once for every second segment and a filled hole."""
    tcp = tcp_of(w, shard)
    filled = tcp.spans_used
    tcp.spans_used = kept
    tcp.ring_ready += (end - tcp.rcv_nxt) % SPACE
    tcp.rcv_nxt = end
    tcp.ack_owed += 1
    if tcp.ack_owed >= 2 or filled:
        tcp.flags |= TcpFlag.ACK_NOW
    else:
        tcp.ack_at = after(w, ACK_DELAY_MS)


@model
def tcp_data(w: World, shard: int) -> None:
    """Store the bytes in [rcv_nxt, rcv_adv); a FIN outside of it is for another time."""
    tcp, got = tcp_of(w, shard), w.g(TCP_IN)
    first = max(0, -later(got.sequence, tcp.rcv_nxt))
    first = min(first, got.length)
    ahead = max(0, later(got.sequence, tcp.rcv_nxt))
    room = later(tcp.rcv_adv, tcp.rcv_nxt) - ahead
    count = min(got.length - first, room)
    if count == got.length - first and got.control & TcpControl.FIN:
        tcp.fin_seq = got.sequence + got.length
        tcp.flags |= TcpFlag.FIN_SEEN
    if not count:
        if got.length:
            tcp.flags |= TcpFlag.ACK_NOW
        tcp_finish(w, shard)
        return
    at = w.view(ShardContext, shard).ring_base + tcp.ring_head + tcp.ring_ready + ahead
    w.write(at, w.read(got.payload + first, count))
    start = (tcp.rcv_nxt + ahead) % SPACE
    merged = tcp_merge(w, shard, start, (start + count) % SPACE)
    if ahead:
        tcp_keep(w, shard, *merged)
        tcp_ack(w, shard)
    else:
        tcp_advance(w, shard, merged[1], merged[2])
        tcp_finish(w, shard)
