"""The receive ring."""

from emulator.effects import World, model
from emulator.models.tcp.arithmetic import SPACE, later, tcp_of
from firmware.layouts.shard import ShardContext
from firmware.layouts.tcp import SPANS_MAX, TcpFlag
from firmware.limits import RECEIVE_MSS, RING_BYTES


@model
def tcp_merge(w: World, shard: int, start: int, end: int) -> tuple[int, int, int]:
    """Unite [start, end) with every island that it overlaps or touches; pack the others."""
    tcp = tcp_of(w, shard)
    islands = [(tcp.spans[n].start, tcp.spans[n].end) for n in range(tcp.spans_used)]
    first, last, apart = start, end, []
    for left, right in islands:
        if later(right, first) < 0 or later(left, last) > 0:
            apart.append((left, right))
            continue
        first = left if later(left, first) < 0 else first
        last = right if later(right, last) > 0 else last
    for n, (left, right) in enumerate(apart):
        tcp.spans[n].start, tcp.spans[n].end = left, right
    return first, last, len(apart)


@model
def tcp_keep(w: World, shard: int, start: int, end: int, kept: int) -> int:
    """Append an island, unless all rows are taken."""
    tcp = tcp_of(w, shard)
    if kept >= SPANS_MAX:
        return 1
    tcp.spans[kept].start, tcp.spans[kept].end = start, end
    tcp.spans_used = kept + 1
    return 0


@model
def tcp_readable(w: World, shard: int) -> tuple[int, int]:
    """The run from `ring_head` on."""
    tcp = tcp_of(w, shard)
    return w.view(ShardContext, shard).ring_base + tcp.ring_head, tcp.ring_ready


@model
def tcp_consume(w: World, shard: int, length: int) -> None:
    """Read bytes make room; an edge that moves two segments is worth telling."""
    tcp = tcp_of(w, shard)
    read = min(length, tcp.ring_ready)
    tcp.ring_ready -= read
    tcp.ring_head = (tcp.ring_head + read) % RING_BYTES
    edge = tcp.rcv_nxt + RING_BYTES - tcp.ring_ready
    if (edge - tcp.rcv_adv) % SPACE >= 2 * RECEIVE_MSS:
        tcp.flags |= TcpFlag.ACK_NOW
