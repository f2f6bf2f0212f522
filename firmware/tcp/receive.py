"""Payload and FIN of an acceptable segment."""

from firmware.abi import CALLER_SAVED
from firmware.layouts.node import CLOCK, Clock, CoreState, core
from firmware.layouts.shard import ShardContext
from firmware.layouts.tcp import (
    ACK_DELAY_MS,
    ADDRESS,
    TCP_IN,
    TIME_WAIT_MS,
    TcpContext,
    TcpControl,
    TcpFlag,
    TcpSegment,
    TcpState,
)
from firmware.tcp.ring import tcp_keep, tcp_merge
from firmware.tcp.send import tcp_ack
from toolchain.asm import (
    AL,
    EAX,
    ECX,
    EDI,
    EDX,
    ESI,
    NE,
    NZ,
    R12,
    R12D,
    R13,
    R13D,
    RAX,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    A,
    Asm,
    E,
    In,
    Reg32,
    S,
    Z,
    mem8,
    routine,
)


@routine(
    inputs=[In(RBX, ShardContext, "the shard; state receives")],
    clobbers=[RAX, RCX],
    reads=[
        TcpContext.state,
        TcpContext.rcv_nxt,
        TcpContext.flags,
        Clock.tsc_cycles_per_ms,
        CoreState.now,
        TcpContext.fin_seq,
    ],
    writes=[
        TcpContext.rcv_nxt,
        TcpContext.rcv_adv,
        TcpContext.flags,
        TcpContext.state,
        TcpContext.wait_at,
    ],
    source="RFC 9293 3.10.7.4",
)
def tcp_finish(a: Asm, shard: ShardContext) -> None:
    """Take the peer's FIN once every byte before it is here."""
    tcp, after, taken = shard.tcp, ECX, a.label("taken")
    a.test(tcp.flags, TcpFlag.FIN_SEEN)
    with a.if_(Z):
        a.ret()
    a.mov(EAX, tcp.fin_seq)
    a.cmp(EAX, tcp.rcv_nxt)
    with a.if_(NE):
        a.ret()
    # A FIN takes a number but no room: the edge of the window moves with it.
    a.inc(tcp.rcv_nxt)
    a.inc(tcp.rcv_adv)
    a.mov(EAX, tcp.flags)
    a.and_(EAX, ~TcpFlag.FIN_SEEN)
    a.or_(EAX, TcpFlag.ACK_NOW)
    a.mov(tcp.flags, EAX)
    a.mov(EAX, tcp.state)
    a.mov(after, TcpState.CLOSE_WAIT)
    a.cmp(EAX, TcpState.ESTABLISHED)
    a.je(taken)
    a.mov(after, TcpState.CLOSING)
    a.cmp(EAX, TcpState.FIN_WAIT_1)
    a.je(taken)
    a.imul(RAX, CLOCK.it.tsc_cycles_per_ms, TIME_WAIT_MS)
    a.add(RAX, core.now)
    a.mov(tcp.wait_at, RAX)
    a.mov(after, TcpState.TIME_WAIT)
    a.place(taken)
    a.mov(tcp.state, after)
    a.ret()


@routine(
    inputs=[
        In(RBX, ShardContext, "the shard"),
        In(EDI, int, "where the run of received bytes ends now"),
        In(EAX, int, "islands that remain beyond it"),
    ],
    clobbers=[RCX, RDI],
    reads=[
        TcpContext.ack_owed,
        TcpContext.rcv_nxt,
        Clock.tsc_cycles_per_ms,
        CoreState.now,
        TcpContext.spans_used,
    ],
    writes=[
        TcpContext.rcv_nxt,
        TcpContext.ring_ready,
        TcpContext.spans_used,
        TcpContext.ack_owed,
        TcpContext.flags,
        TcpContext.ack_at,
    ],
    source="RFC 9293 3.8.6.3; RFC 5681 4.2",
)
def tcp_advance(a: Asm, shard: ShardContext, end: Reg32, kept: Reg32) -> None:
    """Make bytes readable; acknowledge every second segment, and each that fills a hole, at once."""
    tcp, holes = shard.tcp, ECX
    now, later = a.label("now"), a.label("later")
    a.movzx(holes, tcp.spans_used)
    a.mov(tcp.spans_used, AL)
    a.sub(end, tcp.rcv_nxt)
    a.add(tcp.ring_ready, end)
    a.add(tcp.rcv_nxt, end)
    a.inc(tcp.ack_owed)
    a.cmp(tcp.ack_owed, 2)
    a.jae(now)
    a.test(holes, holes)
    a.jz(later)
    a.place(now)
    a.or_(tcp.flags, TcpFlag.ACK_NOW)
    a.ret()
    a.place(later)
    a.imul(RCX, CLOCK.it.tsc_cycles_per_ms, ACK_DELAY_MS)
    a.add(RCX, core.now)
    a.mov(tcp.ack_at, RCX)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "the shard; TCP_IN is acceptable and its ACK was taken")],
    clobbers=CALLER_SAVED,
    reads=[
        TcpSegment.sequence,
        TcpSegment.length,
        TcpSegment.payload,
        TcpSegment.control,
        TcpContext.rcv_nxt,
        TcpContext.rcv_adv,
        TcpContext.ring_head,
        TcpContext.ring_ready,
        ShardContext.ring_base,
    ],
    writes=[TcpContext.fin_seq, TcpContext.flags],
    calls=[tcp_merge, tcp_keep, tcp_advance, tcp_ack, tcp_finish],
    saves=[R12, R13],
    source="RFC 9293 3.10.7.4",
)
def tcp_data(a: Asm, shard: ShardContext) -> None:
    """Put the part of the payload that the window has room for where it belongs in the ring."""
    tcp, got = shard.tcp, TCP_IN.it
    start, end, ahead, count, room = R12D, R13D, EDX, ECX, EAX
    a.mov(ahead, got.sequence)
    a.sub(ahead, tcp.rcv_nxt)
    a.mov(count, got.length)
    a.mov(RSI, got.payload)
    a.test(ahead, ahead)
    with a.if_(S):
        # The front is here already.
        a.neg(ahead)
        a.cmp(ahead, count)
        a.cmov(A, ahead, count)
        a.add(RSI, RDX)
        a.sub(count, ahead)
        a.xor(ahead, ahead)
    a.mov(room, tcp.rcv_adv)
    a.sub(room, tcp.rcv_nxt)
    a.sub(room, ahead)
    a.cmp(count, room)
    with a.if_(A):
        a.mov(count, room)  # a FIN behind what is cut off comes again
    with a.else_():
        a.test(got.control, TcpControl.FIN)
        with a.if_(NZ):
            a.mov(EAX, got.sequence)
            a.add(EAX, got.length)
            a.mov(tcp.fin_seq, EAX)
            a.or_(tcp.flags, TcpFlag.FIN_SEEN)

    arrived, nothing = a.label("arrived"), a.label("nothing")
    a.test(count, count)
    a.jnz(arrived)
    a.cmp(got.length, 0)
    a.je(nothing)
    a.or_(tcp.flags, TcpFlag.ACK_NOW)  # a probe of our closed window
    a.place(nothing)
    a.jmp(tcp_finish)

    # The window never exceeds the free part of the ring, so this ends before the unread bytes.
    a.place(arrived)
    a.mov(start, tcp.rcv_nxt)
    a.add(start, ahead)
    a.lea(end, mem8(R12, index=RCX, ref=ADDRESS))
    a.mov(EDI, tcp.ring_head)
    a.add(EDI, tcp.ring_ready)
    a.add(EDI, ahead)
    a.add(RDI, shard.ring_base)
    a.rep_movsb()
    a.mov(ESI, start)
    a.mov(EDI, end)
    a.call(tcp_merge)
    a.cmp(start, tcp.rcv_nxt)
    with a.if_(E):
        a.call(tcp_advance)
        a.jmp(tcp_finish)
    a.call(tcp_keep)
    a.jmp(tcp_ack)  # a duplicate ACK tells the peer of the hole
