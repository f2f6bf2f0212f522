"""What an acknowledgement changes: the queue, the windows, the congestion state."""

from firmware.layouts.clock import NEVER
from firmware.layouts.node import CLOCK, Clock, CoreState, core
from firmware.layouts.shard import ShardContext
from firmware.layouts.tcp import (
    GIVE_UP_MS,
    TCP_IN,
    TIME_WAIT_MS,
    TcpContext,
    TcpControl,
    TcpFlag,
    TcpSegment,
    TcpState,
)
from firmware.limits import TX_BYTES
from firmware.tcp.timing import tcp_measure
from toolchain.asm import (
    CL,
    EAX,
    ECX,
    EDX,
    NE,
    NS,
    NZ,
    R12,
    R12D,
    R13,
    R13D,
    RAX,
    RBX,
    RCX,
    RDX,
    A,
    Asm,
    B,
    E,
    In,
    Reg32,
    S,
    Z,
    routine,
)

DUPLICATES = 3
"""RFC 5681 3.2."""
CWND_MOST = 2 * TX_BYTES
"""More can never be in flight; without a bound the window would grow for ever."""


@routine(
    inputs=[In(RBX, ShardContext, "the shard"), In(EDX, int, "bytes newly acknowledged, > 0")],
    clobbers=[RAX, RCX, RDX],
    reads=[
        TcpContext.cwnd,
        TcpContext.flags,
        TcpContext.snd_una,
        TcpContext.recover,
        TcpContext.ssthresh,
        TcpContext.snd_mss,
    ],
    writes=[TcpContext.flags, TcpContext.cwnd],
    source="RFC 5681 3.1; RFC 6582 3.2",
)
def tcp_grow(a: Asm, shard: ShardContext, acked: Reg32) -> None:
    """Open the congestion window, or go on with a recovery that is not complete."""
    tcp = shard.tcp
    a.test(tcp.flags, TcpFlag.RECOVERY)
    with a.if_(NZ):
        a.mov(EAX, tcp.snd_una)
        a.cmp(EAX, tcp.recover)
        with a.if_(S):
            # A partial acknowledgement: the next hole is lost too.
            a.or_(tcp.flags, TcpFlag.RETRANSMIT_DUE)
            a.ret()
        a.and_(tcp.flags, ~TcpFlag.RECOVERY)
        a.mov(EAX, tcp.ssthresh)
        a.mov(tcp.cwnd, EAX)
        a.ret()
    a.mov(EAX, tcp.snd_mss)
    a.mov(ECX, tcp.cwnd)
    a.cmp(ECX, tcp.ssthresh)
    with a.if_(B):
        a.cmp(EAX, EDX)
        a.cmov(A, EAX, EDX)  # slow start: what was acknowledged, at most one segment
    with a.else_():
        a.imul(EAX, EAX)
        a.xor(EDX, EDX)
        a.div(ECX)  # avoidance: about one segment for each window
        a.inc(EAX)
    a.add(EAX, ECX)
    a.mov(ECX, CWND_MOST)
    a.cmp(EAX, ECX)
    a.cmov(A, EAX, ECX)
    a.mov(tcp.cwnd, EAX)
    a.ret()


@routine(
    inputs=[
        In(RBX, ShardContext, "the shard"),
        In(EDX, int, "sequence numbers newly acknowledged, 1..snd_max - snd_una"),
    ],
    clobbers=[RAX, RCX, RDX],
    reads=[
        TcpContext.snd_nxt,
        TcpContext.snd_una,
        TcpContext.tx_start,
        Clock.tsc_cycles_per_ms,
        CoreState.now,
        TcpContext.rtt_at,
        TcpContext.rtt_seq,
        TcpContext.tx_end,
        TcpContext.state,
    ],
    writes=[
        TcpContext.tx_start,
        TcpContext.snd_una,
        TcpContext.snd_nxt,
        TcpContext.flags,
        TcpContext.backoff,
        TcpContext.dup_acks,
        TcpContext.rtx_at,
        TcpContext.give_up_at,
        TcpContext.state,
        TcpContext.wait_at,
    ],
    calls=[tcp_grow, tcp_measure],
    saves=[R12, R13],
    source="RFC 9293 3.10.7.4; RFC 6298 5",
)
def tcp_acknowledge(a: Asm, shard: ShardContext, count: Reg32) -> None:
    """Free what was acknowledged; the next output starts the timers again if anything is left."""
    tcp, acked, ends_fin, una = shard.tcp, R12D, R13D, EAX
    a.mov(acked, count)
    # Beyond the bytes of the queue only our FIN can be acknowledged.
    a.mov(ECX, tcp.tx_end)
    a.sub(ECX, tcp.tx_start)
    a.mov(ends_fin, acked)
    a.cmp(acked, ECX)
    a.cmov(B, ECX, acked)
    a.sub(ends_fin, ECX)
    a.add(tcp.tx_start, ECX)
    a.add(tcp.snd_una, acked)
    a.mov(una, tcp.snd_una)
    a.cmp(tcp.snd_nxt, una)
    with a.if_(S):
        a.mov(tcp.snd_nxt, una)

    a.cmp(tcp.rtt_at, 0)
    with a.if_(NE):
        a.cmp(una, tcp.rtt_seq)
        with a.if_(NS):
            a.call(tcp_measure)
    a.mov(tcp.backoff, 0)
    a.mov(tcp.dup_acks, 0)
    a.mov(tcp.rtx_at, NEVER)
    a.mov(tcp.give_up_at, NEVER)
    a.mov(EDX, acked)
    a.call(tcp_grow)

    a.test(ends_fin, ends_fin)
    with a.if_(NZ):
        a.and_(tcp.flags, ~TcpFlag.FIN_QUEUED)
        after = a.label("after")
        a.mov(EAX, tcp.state)
        a.mov(ECX, TcpState.CLOSED)
        a.cmp(EAX, TcpState.LAST_ACK)
        a.je(after)
        a.mov(ECX, TcpState.FIN_WAIT_2)
        a.cmp(EAX, TcpState.FIN_WAIT_1)
        a.je(after)
        # CLOSING: both FINs are acknowledged; stay for a FIN that the peer repeats.
        a.imul(RAX, CLOCK.it.tsc_cycles_per_ms, TIME_WAIT_MS)
        a.add(RAX, core.now)
        a.mov(tcp.wait_at, RAX)
        a.mov(ECX, TcpState.TIME_WAIT)
        a.place(after)
        a.mov(tcp.state, ECX)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "the shard")],
    clobbers=[RAX, RCX],
    reads=[
        TcpContext.dup_acks,
        TcpContext.flags,
        TcpSegment.length,
        TcpSegment.control,
        TcpSegment.window,
        TcpContext.snd_una,
        TcpContext.snd_max,
        TcpContext.snd_wnd,
        TcpContext.snd_scale,
        TcpContext.snd_mss,
    ],
    writes=[
        TcpContext.dup_acks,
        TcpContext.flags,
        TcpContext.recover,
        TcpContext.ssthresh,
        TcpContext.cwnd,
    ],
    source="RFC 5681 2, 3.2; RFC 6582 3.2",
)
def tcp_duplicate(a: Asm, shard: ShardContext) -> None:
    """Count an ACK that moved nothing; the third in a row asks for a fast retransmit."""
    tcp, got, window = shard.tcp, TCP_IN.it, EAX
    with a.block() as no:
        a.cmp(got.length, 0)
        a.leave(NE, no)
        a.test(got.control, TcpControl.FIN)
        a.leave(NZ, no)
        a.mov(EAX, tcp.snd_max)
        a.cmp(EAX, tcp.snd_una)
        a.leave(E, no)
        a.mov(window, got.window)
        a.movzx(ECX, tcp.snd_scale)
        a.shl(window, CL)
        a.cmp(window, tcp.snd_wnd)
        a.leave(NE, no)
        # A closed window answers probes so; that is no loss.
        a.test(window, window)
        a.leave(Z, no)
        a.test(tcp.flags, TcpFlag.RECOVERY)
        a.leave(NZ, no)
        a.inc(tcp.dup_acks)
        a.cmp(tcp.dup_acks, DUPLICATES)
        a.leave(NE, no)
        a.or_(tcp.flags, TcpFlag.RECOVERY | TcpFlag.RETRANSMIT_DUE)
        a.mov(EAX, tcp.snd_max)
        a.mov(tcp.recover, EAX)
        # Half of what is in flight, at least two segments.
        a.sub(EAX, tcp.snd_una)
        a.shr(EAX, 1)
        a.mov(ECX, tcp.snd_mss)
        a.add(ECX, ECX)
        a.cmp(EAX, ECX)
        a.cmov(B, EAX, ECX)
        a.mov(tcp.ssthresh, EAX)
        a.mov(tcp.cwnd, EAX)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "the shard")],
    clobbers=[RAX, RCX, RDX],
    reads=[
        TcpContext.give_up_at,
        TcpContext.snd_wnd_max,
        TcpContext.snd_wnd,
        TcpContext.snd_wl2,
        TcpContext.snd_wl1,
        Clock.tsc_cycles_per_ms,
        CoreState.now,
        TcpSegment.sequence,
        TcpSegment.acknowledgement,
        TcpSegment.window,
        TcpContext.snd_scale,
    ],
    writes=[
        TcpContext.snd_wl1,
        TcpContext.snd_wl2,
        TcpContext.snd_wnd,
        TcpContext.snd_wnd_max,
        TcpContext.backoff,
        TcpContext.rtx_at,
        TcpContext.give_up_at,
    ],
    source="RFC 9293 3.10.7.4, 3.8.6.1",
)
def tcp_peer_window(a: Asm, shard: ShardContext) -> None:
    """Take the peer's window from a segment that is not older than the last that told one."""
    tcp, got, window = shard.tcp, TCP_IN.it, EAX
    with a.block() as old:
        fresh = a.label("fresh")
        a.mov(EAX, got.sequence)
        a.mov(ECX, got.acknowledgement)
        a.cmp(EAX, tcp.snd_wl1)
        a.leave(S, old)
        a.j(NE, fresh)
        a.cmp(ECX, tcp.snd_wl2)
        a.leave(S, old)
        a.place(fresh)
        a.mov(tcp.snd_wl1, EAX)
        a.mov(tcp.snd_wl2, ECX)
        a.mov(window, got.window)
        a.movzx(ECX, tcp.snd_scale)
        a.shl(window, CL)
        a.test(window, window)
        with a.if_(NZ):
            a.cmp(tcp.snd_wnd, 0)
            with a.if_(E):  # it opened: forget the probes, send at once
                a.mov(tcp.backoff, 0)
                a.mov(tcp.rtx_at, NEVER)
                a.mov(tcp.give_up_at, NEVER)
        a.mov(tcp.snd_wnd, window)
        a.mov(ECX, tcp.snd_wnd_max)
        a.cmp(ECX, window)
        a.cmov(B, ECX, window)
        a.mov(tcp.snd_wnd_max, ECX)
    # A peer that keeps its window closed but answers is alive (RFC 9293 3.8.6.1).
    a.cmp(tcp.snd_wnd, 0)
    with a.if_(E):
        a.cmp(tcp.give_up_at, NEVER)
        with a.if_(NE):
            a.imul(RDX, CLOCK.it.tsc_cycles_per_ms, GIVE_UP_MS)
            a.add(RDX, core.now)
            a.mov(tcp.give_up_at, RDX)
    a.ret()
