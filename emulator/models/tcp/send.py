"""Segments of one connection."""

from emulator.effects import World, model
from emulator.models.tcp.arithmetic import SPACE, later, now, tcp_of
from emulator.models.tcp.emit import tcp_emit
from emulator.models.tcp.timing import tcp_arm
from firmware.layouts.clock import NEVER
from firmware.layouts.shard import ShardContext
from firmware.layouts.tcp import TCP_OUT, TcpControl, TcpFlag
from firmware.limits import RECEIVE_MSS, RING_BYTES


@model
def tcp_window(w: World, shard: int) -> None:
    """Offer what the ring has room for, but move the edge by a whole segment or not at all."""
    tcp, header = tcp_of(w, shard), w.g(TCP_OUT)
    edge = tcp.rcv_nxt + RING_BYTES - tcp.ring_ready
    if (edge - tcp.rcv_adv) % SPACE >= RECEIVE_MSS:
        tcp.rcv_adv = edge
    header.window = tcp.rcv_adv - tcp.rcv_nxt
    header.acknowledgement = tcp.rcv_nxt


@model
def tcp_sack(w: World, shard: int) -> None:
    """RFC 2018: one block for each island, that of the latest segment first."""
    tcp, header = tcp_of(w, shard), w.g(TCP_OUT)
    header.offset = 5 << 4
    count = tcp.spans_used
    if not tcp.flags & TcpFlag.SACK_OK or not count:
        return
    option = bytes((1, 1, 5, 2 + 8 * count))
    for n in reversed(range(count)):
        option += tcp.spans[n].start.to_bytes(4, "big") + tcp.spans[n].end.to_bytes(4, "big")
    header.options[: len(option)] = option
    header.offset = (5 + len(option) // 4) << 4


@model
def tcp_send(w: World, shard: int, sequence: int, payload: int, length: int, control: int) -> int:
    """One segment; what carries an ACK settles what was owed."""
    tcp, header = tcp_of(w, shard), w.g(TCP_OUT)
    header.source, header.destination = tcp.local_port, tcp.remote_port
    header.sequence, header.control = sequence, control
    if control & TcpControl.SYN:
        header.acknowledgement, header.window = 0, RING_BYTES
        header.options[0:12] = (
            b"\x02\x04" + RECEIVE_MSS.to_bytes(2, "big") + b"\x01\x03\x03\x00\x01\x01\x04\x02"
        )
        header.offset = 8 << 4
    else:
        tcp_window(w, shard)
        tcp_sack(w, shard)
    if tcp_emit(w, shard, tcp.remote_ip, payload, length):
        tcp.flags |= TcpFlag.BLOCKED
        return 1
    if control & TcpControl.ACK:
        tcp.flags &= ~TcpFlag.ACK_NOW
        tcp.ack_at, tcp.ack_owed = NEVER, 0
    return 0


@model
def tcp_ack(w: World, shard: int) -> None:
    """A bare ACK, numbered inside the peer's window."""
    tcp = tcp_of(w, shard)
    edge = (tcp.snd_una + tcp.snd_wnd) % SPACE
    tcp.flags |= TcpFlag.ACK_NOW
    tcp_send(w, shard, min(tcp.snd_max, edge, key=lambda s: later(s, edge)), 0, 0, TcpControl.ACK)


@model
def tcp_piece(w: World, shard: int, offset: int, count: int) -> int:
    """Bytes of the queue, then perhaps the FIN; PSH when the queue ends here."""
    tcp = tcp_of(w, shard)
    left = tcp.tx_end - tcp.tx_start - offset
    length = min(count, left)
    control = TcpControl.ACK
    control |= TcpControl.FIN if count > left else 0
    control |= TcpControl.PSH if length == left else 0
    source = w.view(ShardContext, shard).tx_base + tcp.tx_start + offset
    sequence = (tcp.snd_una + offset) % SPACE
    if tcp_send(w, shard, sequence, source, length, control):
        return 1
    end = (sequence + count) % SPACE
    if later(end, tcp.snd_max) > 0:
        tcp.snd_max = end
    return 0


@model
def tcp_syn(w: World, shard: int) -> None:
    """Our SYN; only the first one measures the round trip."""
    tcp = tcp_of(w, shard)
    if tcp_send(w, shard, tcp.iss, 0, 0, TcpControl.SYN):
        return
    tcp.flags &= ~TcpFlag.SYN_DUE
    if not tcp.backoff:
        tcp.rtt_at, tcp.rtt_seq = now(w), tcp.snd_max
    tcp_arm(w, shard)
