"""A received segment, in the processing order of RFC 9293 3.10.7."""

from firmware.abi import CALLER_SAVED
from firmware.layouts.node import CLOCK, Clock, CoreState, core
from firmware.layouts.shard import ShardContext
from firmware.layouts.tcp import (
    ADDRESS,
    KEEP_IDLE_MS,
    TCP_IN,
    TCP_RESET,
    TcpContext,
    TcpControl,
    TcpSegment,
    TcpState,
)
from firmware.tcp.ack import tcp_acknowledge, tcp_duplicate, tcp_peer_window
from firmware.tcp.demux import tcp_find, tcp_parse
from firmware.tcp.ending import tcp_challenge, tcp_fail, tcp_refuse
from firmware.tcp.opening import tcp_opening
from firmware.tcp.receive import tcp_data
from firmware.tcp.send import tcp_ack
from toolchain.asm import (
    AE,
    BE,
    EAX,
    ECX,
    EDX,
    ESI,
    NS,
    NZ,
    R8D,
    RAX,
    RBX,
    RCX,
    RDX,
    RSI,
    A,
    Asm,
    B,
    E,
    G,
    In,
    Out,
    Reg32,
    Reg64,
    Z,
    mem8,
    routine,
)

RECEIVING = sum(1 << s for s in (TcpState.ESTABLISHED, TcpState.FIN_WAIT_1, TcpState.FIN_WAIT_2))
"""States in which the peer may still send, as a bit set."""


@routine(
    inputs=[In(RBX, ShardContext, "the shard; state ESTABLISHED or later")],
    clobbers=CALLER_SAVED,
    reads=[
        Clock.tsc_cycles_per_ms,
        CoreState.now,
        TcpSegment.sequence,
        TcpSegment.length,
        TcpSegment.control,
        TcpSegment.acknowledgement,
        TcpContext.rcv_nxt,
        TcpContext.rcv_adv,
        TcpContext.state,
        TcpContext.snd_una,
        TcpContext.snd_max,
        TcpContext.snd_wnd_max,
    ],
    writes=[TcpContext.state, TcpContext.keep_at, TcpContext.keep_tries],
    calls=[
        tcp_ack,
        tcp_challenge,
        tcp_fail,
        tcp_acknowledge,
        tcp_duplicate,
        tcp_peer_window,
        tcp_data,
    ],
    source="RFC 9293 3.10.7.4; RFC 5961 3-5",
)
def tcp_segment(a: Asm, shard: ShardContext) -> None:
    """Handle TCP_IN: sequence, RST, SYN, ACK, window, payload, FIN, in this order."""
    tcp, got = shard.tcp, TCP_IN.it
    ahead, length, control = EDX, ECX, ESI
    inside, outside, doubtful = a.label("inside"), a.label("outside"), a.label("doubtful")
    a.mov(control, got.control)
    a.mov(ahead, got.sequence)
    a.sub(ahead, tcp.rcv_nxt)
    a.mov(length, control)
    a.and_(length, TcpControl.FIN)
    a.mov(EAX, control)
    a.and_(EAX, TcpControl.SYN)
    a.shr(EAX, 1)
    a.add(length, EAX)
    a.add(length, got.length)
    a.test(ahead, ahead)
    with a.if_(NS):
        # It begins in the window or at its edge: a peer that filled the window acknowledges there.
        a.mov(EAX, tcp.rcv_adv)
        a.sub(EAX, tcp.rcv_nxt)
        a.cmp(ahead, EAX)
        a.j(BE, inside)
        a.jmp(outside)
    # It begins before the window: some of it must be new.
    a.lea(EAX, mem8(RDX, index=RCX, ref=ADDRESS))
    a.test(EAX, EAX)
    a.j(G, inside)

    a.place(outside)
    a.test(control, TcpControl.RST)
    with a.if_(NZ):
        a.ret()
    # Data that came again lost its ACK: always answer. Anything else is answered now and then.
    a.test(length, length)
    a.jz(doubtful)
    a.jmp(tcp_ack)
    a.place(doubtful)
    a.jmp(tcp_challenge)

    a.place(inside)
    a.test(control, TcpControl.RST)
    with a.if_(NZ):
        a.test(ahead, ahead)
        a.jnz(doubtful)  # only the exact number resets (RFC 5961 3.2)
        a.cmp(tcp.state, TcpState.CLOSING)
        with a.if_(B):
            a.mov(EDX, TCP_RESET.code)
            a.jmp(tcp_fail)
        a.mov(tcp.state, TcpState.CLOSED)
        a.ret()
    a.test(control, TcpControl.SYN)
    a.jnz(doubtful)
    a.test(control, TcpControl.ACK)
    with a.if_(Z):
        a.ret()

    moved, told, data = a.label("moved"), a.label("told"), a.label("data")
    a.mov(EDX, got.acknowledgement)
    a.sub(EDX, tcp.snd_una)
    a.test(EDX, EDX)
    a.j(G, moved)
    a.mov(EAX, EDX)
    a.neg(EAX)
    a.cmp(EAX, tcp.snd_wnd_max)
    a.j(A, doubtful)  # older than anything we remember (RFC 5961 5.2)
    _heard(a, tcp)
    a.test(EDX, EDX)
    a.jnz(data)  # an old ACK tells nothing
    a.call(tcp_duplicate)
    a.jmp(told)
    a.place(moved)
    a.mov(EAX, tcp.snd_max)
    a.sub(EAX, tcp.snd_una)
    a.cmp(EDX, EAX)
    a.j(A, doubtful)  # never sent
    _heard(a, tcp)
    a.call(tcp_acknowledge)
    a.place(told)
    a.call(tcp_peer_window)
    a.place(data)
    a.mov(ECX, tcp.state)
    a.mov(EAX, RECEIVING)
    a.bt(EAX, ECX)
    with a.if_(AE):
        a.ret()
    a.jmp(tcp_data)


def _heard(a: Asm, tcp: TcpContext) -> None:
    """Restart the keepalive. Clobbers RAX."""
    a.imul(RAX, CLOCK.it.tsc_cycles_per_ms, KEEP_IDLE_MS)
    a.add(RAX, core.now)
    a.mov(tcp.keep_at, RAX)
    a.mov(tcp.keep_tries, 0)


@routine(
    inputs=[
        In(RSI, int, "the segment, in the received frame"),
        In(ECX, int, "its bytes"),
        In(EDX, int, "source address, as loaded from the wire"),
        In(R8D, int, "destination address, as loaded from the wire"),
    ],
    outputs=[Out(RAX, "the ShardContext that it belonged to, to be ticked next; 0 = none")],
    clobbers=CALLER_SAVED,
    reads=[TcpContext.state],
    calls=[tcp_parse, tcp_find, tcp_refuse, tcp_opening, tcp_segment],
    saves=[RBX],
    source="RFC 9293 3.10.7",
)
def tcp_input(a: Asm, segment: Reg64, length: Reg32, source: Reg32, destination: Reg32) -> None:
    """Hand one TCP segment to its connection; answer strangers with a reset."""
    with a.block() as nobody:
        a.call(tcp_parse)
        a.leave(B, nobody)
        a.call(tcp_find)
        a.test(RAX, RAX)
        with a.if_(Z):
            a.call(tcp_refuse)
            a.jmp(nobody)
        a.mov(RBX, RAX)
        a.cmp(ShardContext.at(RBX).tcp.state, TcpState.SYN_SENT)
        with a.if_(E):
            a.call(tcp_opening)
        with a.else_():
            a.call(tcp_segment)
        a.mov(RAX, RBX)
        a.ret()
    a.xor(EAX, EAX)
    a.ret()
