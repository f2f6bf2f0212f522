"""The timers of one connection."""

from emulator.effects import World, model
from emulator.models.tcp.arithmetic import SPACE, after, now, tcp_of
from emulator.models.tcp.ending import tcp_fail
from emulator.models.tcp.output import tcp_output, tcp_repair, tcp_timeout
from emulator.models.tcp.send import tcp_ack, tcp_send, tcp_syn
from firmware.layouts.clock import NEVER
from firmware.layouts.tcp import (
    BLOCKED_MS,
    KEEP_PROBE_MS,
    KEEP_PROBES,
    TCP_KEEPALIVE,
    TCP_TIMED_OUT,
    TcpControl,
    TcpFlag,
    TcpState,
)

_OVER = {TcpState.CLOSED, TcpState.FAILED}


@model
def tcp_keepalive(w: World, shard: int) -> None:
    """An ACK with a number already used; failure after three without an answer."""
    tcp = tcp_of(w, shard)
    if tcp.keep_tries >= KEEP_PROBES:
        tcp_fail(w, shard, TCP_KEEPALIVE.code)
        return
    tcp.keep_tries += 1
    tcp.keep_at = after(w, KEEP_PROBE_MS)
    tcp_send(w, shard, (tcp.snd_una - 1) % SPACE, 0, 0, TcpControl.ACK)


@model
def tcp_deadline(w: World, shard: int) -> int:
    """The earliest of all timers."""
    tcp = tcp_of(w, shard)
    if tcp.state in _OVER:
        return NEVER
    times = [tcp.rtx_at, tcp.give_up_at, tcp.ack_at, tcp.keep_at, tcp.wait_at]
    if tcp.flags & TcpFlag.BLOCKED:
        # What is due could not leave: it is tried again with the rest.
        times = [time for time in times if time > now(w)]
        times.append(after(w, BLOCKED_MS))
    return int(min(times))


@model
def tcp_tick(w: World, shard: int) -> int:
    """Ends first, then repetitions, then new data, then an ACK that no data carried."""
    tcp, t = tcp_of(w, shard), now(w)
    _timers(w, shard)
    if tcp.state not in _OVER:
        for flag, act in ((TcpFlag.SYN_DUE, tcp_syn), (TcpFlag.RETRANSMIT_DUE, tcp_repair)):
            if tcp.flags & flag:
                act(w, shard)
        tcp_output(w, shard)
        if tcp.flags & TcpFlag.ACK_NOW or t >= tcp.ack_at:
            tcp_ack(w, shard)
    return tcp_deadline(w, shard)


def _timers(w: World, shard: int) -> None:
    tcp, t = tcp_of(w, shard), now(w)
    if tcp.state in _OVER:
        return
    if t >= tcp.give_up_at:
        tcp_fail(w, shard, TCP_TIMED_OUT.code)
        return
    if t >= tcp.wait_at:
        tcp.state = TcpState.CLOSED
        return
    tcp.flags &= ~TcpFlag.BLOCKED
    if t >= tcp.rtx_at:
        tcp_timeout(w, shard)
    if t >= tcp.keep_at:
        tcp_keepalive(w, shard)
