"""What may be sent now, and what has to be sent again."""

from typing import Any

from emulator.effects import World, model
from emulator.models.tcp.arithmetic import now, tcp_of
from emulator.models.tcp.send import tcp_piece
from emulator.models.tcp.timing import tcp_arm
from firmware.layouts.clock import NEVER
from firmware.layouts.tcp import MSS_DEFAULT, TcpFlag, TcpState

_SENDING = {
    TcpState.ESTABLISHED,
    TcpState.CLOSE_WAIT,
    TcpState.FIN_WAIT_1,
    TcpState.CLOSING,
    TcpState.LAST_ACK,
}


@model
def tcp_queued(w: World, shard: int) -> int:
    """Bytes of the queue and the FIN behind them."""
    tcp = tcp_of(w, shard)
    return int(tcp.tx_end - tcp.tx_start + bool(tcp.flags & TcpFlag.FIN_QUEUED))


def _next_piece(t: Any, queued: int) -> tuple[int, int]:  # noqa: ANN401 - a View by field
    """Return offset and length of what may leave; length 0 = nothing (RFC 9293 3.8.6.2.1)."""
    offset = (t.snd_nxt - t.snd_una) % 2**32
    left = queued - offset
    count = min(left, min(t.snd_wnd, t.cwnd) - offset, t.snd_mss)
    whole = count in (left, t.snd_mss) or 2 * count >= t.snd_wnd_max
    return offset, count if count > 0 and whole else 0


@model
def tcp_output(w: World, shard: int) -> None:
    """Send pieces while they are allowed; leave the timer running when anything is left."""
    tcp = tcp_of(w, shard)
    if tcp.state not in _SENDING:
        return
    queued = tcp_queued(w, shard)
    while True:
        offset, count = _next_piece(tcp, queued)
        if not count:
            break
        fresh = tcp.snd_nxt == tcp.snd_max
        if tcp_piece(w, shard, offset, count):
            break
        tcp.snd_nxt += count
        if fresh and not tcp.rtt_at:
            tcp.rtt_at, tcp.rtt_seq = now(w), tcp.snd_nxt
    if queued and tcp.rtx_at == NEVER:
        tcp_arm(w, shard)


@model
def tcp_repair(w: World, shard: int) -> None:
    """The oldest segment again; stays due while no frame can be had."""
    tcp = tcp_of(w, shard)
    count = min(tcp_queued(w, shard), tcp.snd_mss)
    if count:
        if tcp_piece(w, shard, 0, count):
            return
        tcp.retransmits += 1
        tcp.rtt_at = 0
    tcp.flags &= ~TcpFlag.RETRANSMIT_DUE


@model
def tcp_collapse(w: World, shard: int) -> None:
    """RFC 5681 3.1: half the flight as threshold, one segment as window; 536 after two timeouts."""
    tcp = tcp_of(w, shard)
    tcp.ssthresh = max((tcp.snd_max - tcp.snd_una) % 2**32 // 2, 2 * tcp.snd_mss)
    if tcp.backoff >= 2 and tcp.snd_mss > MSS_DEFAULT:
        tcp.snd_mss = MSS_DEFAULT
    tcp.cwnd, tcp.dup_acks = tcp.snd_mss, 0
    tcp.flags &= ~(TcpFlag.RECOVERY | TcpFlag.RETRANSMIT_DUE)
    tcp.retransmits += 1


@model
def tcp_timeout(w: World, shard: int) -> None:
    """Double the timeout and begin again at snd_una: SYN, segment, or one byte as a probe."""
    tcp = tcp_of(w, shard)
    tcp.rtt_at, tcp.rtx_at = 0, NEVER
    opening = tcp.state == TcpState.SYN_SENT
    if opening:
        tcp.flags |= TcpFlag.SYN_DUE
    elif tcp.snd_wnd:
        tcp_collapse(w, shard)
    if tcp.backoff < 6:
        tcp.backoff += 1
    if opening:
        return
    tcp.snd_nxt = tcp.snd_una
    count = min(tcp_queued(w, shard), tcp.snd_mss, max(tcp.snd_wnd, 1))
    if not count:
        return
    if not tcp_piece(w, shard, 0, count) and tcp.snd_wnd:
        tcp.snd_nxt += count
    tcp_arm(w, shard)
