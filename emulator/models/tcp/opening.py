"""The answer to our SYN."""

from emulator.effects import World, model
from emulator.models.tcp.arithmetic import after, cycles, tcp_of
from emulator.models.tcp.ending import tcp_fail, tcp_refuse
from emulator.models.tcp.options import tcp_options
from emulator.models.tcp.timing import tcp_measure
from firmware.layouts.clock import NEVER
from firmware.layouts.tcp import (
    KEEP_IDLE_MS,
    MSS_DEFAULT,
    MSS_LEAST,
    RTO_AFTER_SYN_LOSS_MS,
    SCALE_PRESENT,
    TCP_IN,
    TCP_REFUSED,
    TcpControl,
    TcpFlag,
    TcpState,
)
from firmware.limits import RING_BYTES, SEND_PAYLOAD_MAX


@model
def tcp_established(w: World, shard: int) -> None:
    """Both numbers are known; windows, sizes and timers take their first values."""
    tcp, got = tcp_of(w, shard), w.g(TCP_IN)
    mss, scale, sack = tcp_options(w, got.options, got.options_length)
    if scale:
        tcp.snd_scale = scale - SCALE_PRESENT
    tcp.flags = TcpFlag.ACK_NOW | (TcpFlag.SACK_OK if sack else 0)
    tcp.snd_mss = max(min(mss or MSS_DEFAULT, SEND_PAYLOAD_MAX), MSS_LEAST)
    tcp.cwnd, tcp.ssthresh = 10 * tcp.snd_mss, 0xFFFF
    tcp.snd_wl1, tcp.snd_wl2 = got.sequence, got.acknowledgement
    tcp.rcv_nxt = got.sequence + 1
    tcp.rcv_adv = tcp.rcv_nxt + RING_BYTES
    tcp.snd_una = tcp.snd_nxt = got.acknowledgement
    tcp.snd_wnd = tcp.snd_wnd_max = got.window
    if tcp.rtt_at:
        tcp_measure(w, shard)
    else:
        tcp.rto = cycles(w, RTO_AFTER_SYN_LOSS_MS)
    tcp.backoff = 0
    tcp.rtx_at = tcp.give_up_at = NEVER
    tcp.keep_at = after(w, KEEP_IDLE_MS)
    tcp.state = TcpState.ESTABLISHED


@model
def tcp_opening(w: World, shard: int) -> None:
    """RFC 9293 3.10.7.3 without simultaneous opens."""
    tcp, got = tcp_of(w, shard), w.g(TCP_IN)
    if not got.control & TcpControl.ACK:
        return
    if got.acknowledgement != tcp.snd_max:
        tcp_refuse(w)
    elif got.control & TcpControl.RST:
        tcp_fail(w, shard, TCP_REFUSED.code)
    elif got.control & TcpControl.SYN:
        tcp_established(w, shard)
