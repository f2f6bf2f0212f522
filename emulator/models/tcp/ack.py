"""What an acknowledgement changes."""

from emulator.effects import World, model
from emulator.models.tcp.arithmetic import after, later, tcp_of
from emulator.models.tcp.timing import tcp_measure
from firmware.layouts.clock import NEVER
from firmware.layouts.tcp import (
    GIVE_UP_MS,
    TCP_IN,
    TIME_WAIT_MS,
    TcpControl,
    TcpFlag,
    TcpState,
)
from firmware.limits import TX_BYTES


@model
def tcp_grow(w: World, shard: int, acked: int) -> None:
    """RFC 5681 3.1 slow start and avoidance; RFC 6582 partial and full acknowledgements."""
    tcp = tcp_of(w, shard)
    if tcp.flags & TcpFlag.RECOVERY:
        if later(tcp.snd_una, tcp.recover) < 0:
            tcp.flags |= TcpFlag.RETRANSMIT_DUE
        else:
            tcp.flags &= ~TcpFlag.RECOVERY
            tcp.cwnd = tcp.ssthresh
        return
    slow, steady = min(acked, tcp.snd_mss), tcp.snd_mss**2 // tcp.cwnd + 1
    tcp.cwnd = min(tcp.cwnd + (slow if tcp.cwnd < tcp.ssthresh else steady), 2 * TX_BYTES)


@model
def tcp_acknowledge(w: World, shard: int, count: int) -> None:
    """Drop bytes from the queue, stop the timers, and take the ACK of our FIN."""
    tcp = tcp_of(w, shard)
    queued = tcp.tx_end - tcp.tx_start
    tcp.tx_start += min(count, queued)
    tcp.snd_una += count
    if later(tcp.snd_nxt, tcp.snd_una) < 0:
        tcp.snd_nxt = tcp.snd_una
    if tcp.rtt_at and later(tcp.snd_una, tcp.rtt_seq) >= 0:
        tcp_measure(w, shard)
    tcp.backoff = tcp.dup_acks = 0
    tcp.rtx_at = tcp.give_up_at = NEVER
    tcp_grow(w, shard, count)
    if count <= queued:
        return
    tcp.flags &= ~TcpFlag.FIN_QUEUED
    match tcp.state:
        case TcpState.LAST_ACK:
            tcp.state = TcpState.CLOSED
        case TcpState.FIN_WAIT_1:
            tcp.state = TcpState.FIN_WAIT_2
        case _:
            tcp.wait_at = after(w, TIME_WAIT_MS)
            tcp.state = TcpState.TIME_WAIT


@model
def tcp_duplicate(w: World, shard: int) -> None:
    """RFC 5681 2: nothing new, data outstanding, same open window; three begin a recovery."""
    tcp, got = tcp_of(w, shard), w.g(TCP_IN)
    window = got.window << tcp.snd_scale
    outstanding = (tcp.snd_max - tcp.snd_una) % 2**32
    if got.length or got.control & TcpControl.FIN or not outstanding:
        return
    if window != tcp.snd_wnd or not window or tcp.flags & TcpFlag.RECOVERY:
        return
    tcp.dup_acks += 1
    if tcp.dup_acks != 3:
        return
    tcp.flags |= TcpFlag.RECOVERY | TcpFlag.RETRANSMIT_DUE
    tcp.recover = tcp.snd_max
    tcp.ssthresh = tcp.cwnd = max(outstanding // 2, 2 * tcp.snd_mss)


@model
def tcp_peer_window(w: World, shard: int) -> None:
    """RFC 9293: newer by sequence, then by acknowledgement; a closed one keeps patience alive."""
    tcp, got = tcp_of(w, shard), w.g(TCP_IN)
    newer = later(got.sequence, tcp.snd_wl1)
    if newer > 0 or (newer == 0 and later(got.acknowledgement, tcp.snd_wl2) >= 0):
        window = got.window << tcp.snd_scale
        tcp.snd_wl1, tcp.snd_wl2 = got.sequence, got.acknowledgement
        if window and not tcp.snd_wnd:
            tcp.backoff = 0
            tcp.rtx_at = tcp.give_up_at = NEVER
        tcp.snd_wnd = window
        tcp.snd_wnd_max = max(tcp.snd_wnd_max, window)
    if not tcp.snd_wnd and tcp.give_up_at != NEVER:
        tcp.give_up_at = after(w, GIVE_UP_MS)
