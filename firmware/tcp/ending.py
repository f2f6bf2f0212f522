"""How a connection ends: failure, reset, challenge, and segments that belong to nobody."""

from firmware.abi import CALLER_SAVED
from firmware.layouts.node import CLOCK, Clock, CoreState, core
from firmware.layouts.shard import ShardContext
from firmware.layouts.tcp import (
    CHALLENGE_MS,
    REFUSE_MS,
    TCP_IN,
    TCP_OUT,
    TCP_PORTS,
    TcpContext,
    TcpControl,
    TcpHeader,
    TcpPorts,
    TcpSegment,
    TcpState,
)
from firmware.tcp.emit import tcp_emit
from firmware.tcp.send import tcp_ack
from toolchain.asm import (
    AX,
    EAX,
    EBX,
    ECX,
    EDX,
    ESI,
    NZ,
    RAX,
    RBX,
    RCX,
    Asm,
    B,
    In,
    Reg32,
    routine,
)


@routine(
    inputs=[
        In(RBX, ShardContext, "the shard"),
        In(EDX, int, "layer << 24 | site << 16 | detail"),
    ],
    writes=[TcpContext.error, TcpContext.state],
    source="firmware/docs/layers.md",
)
def tcp_fail(a: Asm, shard: ShardContext, error: Reg32) -> None:
    """End the connection for a reason; what was received stays readable."""
    a.mov(shard.tcp.error, error)
    a.mov(shard.tcp.state, TcpState.FAILED)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "the shard")],
    clobbers=CALLER_SAVED,
    reads=[Clock.tsc_cycles_per_ms, CoreState.now, TcpContext.challenge_at],
    writes=[TcpContext.challenge_at],
    calls=[tcp_ack],
    source="RFC 5961 7",
)
def tcp_challenge(a: Asm, shard: ShardContext) -> None:
    """Answer a doubtful segment with an ACK, not too often: two sides could go on for ever."""
    now, challenge_at = RAX, shard.tcp.challenge_at
    a.mov(now, core.now)
    a.cmp(now, challenge_at)
    with a.if_(B):
        a.ret()
    a.imul(RCX, CLOCK.it.tsc_cycles_per_ms, CHALLENGE_MS)
    a.add(RCX, now)
    a.mov(challenge_at, RCX)
    a.jmp(tcp_ack)


@routine(
    clobbers=CALLER_SAVED,
    reads=[
        Clock.tsc_cycles_per_ms,
        CoreState.now,
        TcpPorts.refuse_at,
        TcpSegment.control,
        TcpSegment.acknowledgement,
        TcpSegment.sequence,
        TcpSegment.length,
        TcpSegment.source_ip,
        TcpSegment.source_port,
        TcpSegment.destination_port,
    ],
    writes=[
        TcpPorts.refuse_at,
        TcpPorts.refused,
        TcpHeader.control,
        TcpHeader.sequence,
        TcpHeader.acknowledgement,
        TcpHeader.window,
        TcpHeader.source,
        TcpHeader.destination,
        TcpHeader.offset,
    ],
    calls=[tcp_emit],
    saves=[RBX],
    source="RFC 9293 3.10.7.1",
)
def tcp_refuse(a: Asm) -> None:
    """Answer the segment in TCP_IN with a reset, never a reset itself and not too often."""
    got, header, ports, now = TCP_IN.it, TCP_OUT.it, TCP_PORTS.it, RAX
    control = ECX
    a.test(got.control, TcpControl.RST)
    with a.if_(NZ):
        a.ret()
    a.mov(now, core.now)
    a.cmp(now, ports.refuse_at)
    with a.if_(B):
        a.ret()
    a.imul(RCX, CLOCK.it.tsc_cycles_per_ms, REFUSE_MS)
    a.add(RCX, now)
    a.mov(ports.refuse_at, RCX)
    a.inc(ports.refused)

    a.mov(control, got.control)
    a.test(control, TcpControl.ACK)
    with a.if_(NZ):
        # Its acknowledgement is the number that the peer will believe.
        a.mov(EDX, got.acknowledgement)
        a.xor(EAX, EAX)
        a.mov(header.control, TcpControl.RST)
    with a.else_():
        a.xor(EDX, EDX)
        a.mov(EAX, got.sequence)
        a.add(EAX, got.length)
        a.mov(ESI, ECX)
        a.and_(ESI, TcpControl.FIN)
        a.add(EAX, ESI)
        a.and_(control, TcpControl.SYN)
        a.shr(control, 1)
        a.add(EAX, control)
        a.mov(header.control, TcpControl.RST | TcpControl.ACK)
    a.bswap(EDX)
    a.mov(header.sequence, EDX)
    a.bswap(EAX)
    a.mov(header.acknowledgement, EAX)
    a.mov(header.window, 0)
    a.mov(header.offset, 5 << 4)
    a.mov(AX, got.destination_port)
    a.rol(AX, 8)
    a.mov(header.source, AX)
    a.mov(AX, got.source_port)
    a.rol(AX, 8)
    a.mov(header.destination, AX)
    a.mov(EDX, got.source_ip)
    a.xor(ESI, ESI)
    a.xor(ECX, ECX)
    a.xor(EBX, EBX)  # nobody's
    a.call(tcp_emit)
    a.ret()
