"""The answer to our SYN."""

from firmware.abi import CALLER_SAVED
from firmware.layouts.clock import NEVER
from firmware.layouts.node import CLOCK, Clock, CoreState, core
from firmware.layouts.shard import ShardContext
from firmware.layouts.tcp import (
    KEEP_IDLE_MS,
    MSS_DEFAULT,
    MSS_LEAST,
    RTO_AFTER_SYN_LOSS_MS,
    SCALE_PRESENT,
    TCP_IN,
    TCP_REFUSED,
    TcpContext,
    TcpControl,
    TcpFlag,
    TcpSegment,
    TcpState,
)
from firmware.limits import RING_BYTES, SEND_PAYLOAD_MAX
from firmware.tcp.ending import tcp_fail, tcp_refuse
from firmware.tcp.options import tcp_options
from firmware.tcp.timing import tcp_measure
from toolchain.asm import (
    DL,
    EAX,
    ECX,
    EDI,
    EDX,
    NE,
    NZ,
    RAX,
    RBX,
    RSI,
    A,
    Asm,
    B,
    In,
    Z,
    routine,
)

SACK_SHIFT = TcpFlag.SACK_OK.bit_length() - 1
INITIAL_SEGMENTS = 10
"""RFC 6928."""
THRESHOLD_INITIAL = 0xFFFF
"""RFC 5681 3.1: as high as possible at first."""


@routine(
    inputs=[In(RBX, ShardContext, "the shard; state SYN_SENT, TCP_IN is its SYN and ACK")],
    clobbers=CALLER_SAVED,
    reads=[
        Clock.tsc_cycles_per_ms,
        CoreState.now,
        TcpSegment.sequence,
        TcpSegment.acknowledgement,
        TcpSegment.window,
        TcpSegment.options,
        TcpSegment.options_length,
        TcpContext.rtt_at,
    ],
    writes=[TcpContext],
    calls=[tcp_options, tcp_measure],
    source="RFC 9293 3.10.7.3; RFC 6298 5.7",
)
def tcp_established(a: Asm, shard: ShardContext) -> None:
    """Take the peer's number, window and options; the connection is open."""
    tcp, got = shard.tcp, TCP_IN.it
    mss, scale = EAX, EDX
    a.mov(RSI, got.options)
    a.mov(ECX, got.options_length)
    a.call(tcp_options)
    with a.block() as plain:
        a.test(scale, scale)
        a.leave(Z, plain)
        a.xor(scale, SCALE_PRESENT)
        a.mov(tcp.snd_scale, DL)
    a.shl(EDI, SACK_SHIFT)
    a.or_(EDI, TcpFlag.ACK_NOW)
    a.mov(tcp.flags, EDI)
    a.test(mss, mss)
    a.mov(ECX, MSS_DEFAULT)
    a.cmov(Z, mss, ECX)
    a.mov(ECX, SEND_PAYLOAD_MAX)
    a.cmp(mss, ECX)
    a.cmov(A, mss, ECX)
    a.mov(ECX, MSS_LEAST)
    a.cmp(mss, ECX)
    a.cmov(B, mss, ECX)
    a.mov(tcp.snd_mss, mss)
    a.imul(EAX, EAX, INITIAL_SEGMENTS)
    a.mov(tcp.cwnd, EAX)
    a.mov(tcp.ssthresh, THRESHOLD_INITIAL)

    a.mov(EAX, got.sequence)
    a.mov(tcp.snd_wl1, EAX)
    a.inc(EAX)
    a.mov(tcp.rcv_nxt, EAX)
    a.add(EAX, RING_BYTES)
    a.mov(tcp.rcv_adv, EAX)
    a.mov(EAX, got.acknowledgement)
    a.mov(tcp.snd_wl2, EAX)
    a.mov(tcp.snd_una, EAX)
    a.mov(tcp.snd_nxt, EAX)
    a.mov(EAX, got.window)
    a.mov(tcp.snd_wnd, EAX)  # the window of a SYN is never scaled (RFC 7323 2.2)
    a.mov(tcp.snd_wnd_max, EAX)
    a.cmp(tcp.rtt_at, 0)
    with a.if_(NE):
        a.call(tcp_measure)
    with a.else_():
        # Our SYN was lost once: begin carefully.
        a.imul(RAX, CLOCK.it.tsc_cycles_per_ms, RTO_AFTER_SYN_LOSS_MS)
        a.mov(tcp.rto, RAX)
    a.mov(tcp.backoff, 0)
    a.mov(tcp.rtx_at, NEVER)
    a.mov(tcp.give_up_at, NEVER)
    a.imul(RAX, CLOCK.it.tsc_cycles_per_ms, KEEP_IDLE_MS)
    a.add(RAX, core.now)
    a.mov(tcp.keep_at, RAX)
    a.mov(tcp.state, TcpState.ESTABLISHED)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "the shard; state SYN_SENT")],
    clobbers=CALLER_SAVED,
    reads=[TcpSegment.control, TcpSegment.acknowledgement, TcpContext.snd_max],
    calls=[tcp_refuse, tcp_fail, tcp_established],
    source="RFC 9293 3.10.7.3",
)
def tcp_opening(a: Asm, shard: ShardContext) -> None:
    """Handle the answer to our SYN.

    A SYN without ACK (a simultaneous open) is ignored: a server never sends one.
    """
    tcp, got = shard.tcp, TCP_IN.it
    control = ECX
    with a.block() as ignore:
        a.mov(control, got.control)
        a.test(control, TcpControl.ACK)
        a.leave(Z, ignore)
        a.mov(EAX, got.acknowledgement)
        a.cmp(EAX, tcp.snd_max)
        with a.if_(NE):
            # The peer still has an old connection of ours: the reset frees it for the next SYN.
            a.jmp(tcp_refuse)
        a.test(control, TcpControl.RST)
        with a.if_(NZ):
            a.mov(EDX, TCP_REFUSED.code)
            a.jmp(tcp_fail)
        a.test(control, TcpControl.SYN)
        a.leave(Z, ignore)
        a.jmp(tcp_established)
    a.ret()
