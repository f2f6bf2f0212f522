"""A received segment, in the processing order of RFC 9293 3.10.7."""

from emulator.effects import World, model
from emulator.models.tcp.ack import tcp_acknowledge, tcp_duplicate, tcp_peer_window
from emulator.models.tcp.arithmetic import SPACE, after, later, tcp_of
from emulator.models.tcp.demux import tcp_find, tcp_parse
from emulator.models.tcp.ending import tcp_challenge, tcp_fail, tcp_refuse
from emulator.models.tcp.opening import tcp_opening
from emulator.models.tcp.receive import tcp_data
from emulator.models.tcp.send import tcp_ack
from firmware.layouts.tcp import KEEP_IDLE_MS, TCP_IN, TCP_RESET, TcpControl, TcpState

_ENDING = {TcpState.CLOSING, TcpState.LAST_ACK, TcpState.TIME_WAIT}
_RECEIVING = {TcpState.ESTABLISHED, TcpState.FIN_WAIT_1, TcpState.FIN_WAIT_2}


@model
def tcp_segment(w: World, shard: int) -> None:
    """Sequence, RST, SYN, ACK, window, payload and FIN, in this order."""
    tcp, got = tcp_of(w, shard), w.g(TCP_IN)
    control = got.control
    ahead = later(got.sequence, tcp.rcv_nxt)
    length = got.length + sum(bool(control & c) for c in (TcpControl.SYN, TcpControl.FIN))
    window = (tcp.rcv_adv - tcp.rcv_nxt) % SPACE
    if not (0 <= ahead <= window or (ahead < 0 < ahead + length)):
        if not control & TcpControl.RST:
            (tcp_ack if length else tcp_challenge)(w, shard)
    elif control & TcpControl.RST and not ahead:
        if tcp.state in _ENDING:
            tcp.state = TcpState.CLOSED
        else:
            tcp_fail(w, shard, TCP_RESET.code)
    elif control & (TcpControl.RST | TcpControl.SYN):
        tcp_challenge(w, shard)
    elif control & TcpControl.ACK:
        _take(w, shard)


def _take(w: World, shard: int) -> None:
    """Check the acknowledgement (RFC 5961 5.2), then take what the segment brings."""
    tcp, got = tcp_of(w, shard), w.g(TCP_IN)
    news = later(got.acknowledgement, tcp.snd_una)
    if news < -tcp.snd_wnd_max or news > (tcp.snd_max - tcp.snd_una) % SPACE:
        tcp_challenge(w, shard)
        return
    tcp.keep_at, tcp.keep_tries = after(w, KEEP_IDLE_MS), 0
    if news > 0:
        tcp_acknowledge(w, shard, news)
    elif news == 0:
        tcp_duplicate(w, shard)
    if news >= 0:
        tcp_peer_window(w, shard)
    if tcp.state in _RECEIVING:
        tcp_data(w, shard)


@model
def tcp_input(w: World, segment: int, length: int, source: int, destination: int) -> int:
    """Parse, find, handle; strangers are refused."""
    if tcp_parse(w, segment, length, source, destination):
        return 0
    shard = int(tcp_find(w))
    if not shard:
        tcp_refuse(w)
    elif tcp_of(w, shard).state == TcpState.SYN_SENT:
        tcp_opening(w, shard)
    else:
        tcp_segment(w, shard)
    return shard
