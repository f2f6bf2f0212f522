"""The retransmission timer and the round trip it follows (RFC 6298), in TSC cycles."""

from firmware.layouts.clock import NEVER
from firmware.layouts.node import CLOCK, Clock, CoreState, core
from firmware.layouts.shard import ShardContext
from firmware.layouts.tcp import ADDRESS, GIVE_UP_MS, RTO_LEAST_MS, RTO_MOST_MS, TcpContext
from toolchain.asm import (
    CL,
    ECX,
    RAX,
    RBX,
    RCX,
    RDX,
    A,
    Asm,
    B,
    E,
    In,
    mem8,
    routine,
)


@routine(
    inputs=[In(RBX, ShardContext, "the shard")],
    clobbers=[RAX, RCX, RDX],
    reads=[
        Clock.tsc_cycles_per_ms,
        CoreState.now,
        TcpContext.rto,
        TcpContext.backoff,
        TcpContext.give_up_at,
    ],
    writes=[TcpContext.rtx_at, TcpContext.give_up_at],
    source="RFC 6298 5",
)
def tcp_arm(a: Asm, shard: ShardContext) -> None:
    """Start the retransmission timer; the first start since an ACK also bounds our patience."""
    tcp, delay, now = shard.tcp, RAX, RDX
    a.mov(now, core.now)
    a.mov(delay, tcp.rto)
    a.movzx(ECX, tcp.backoff)
    a.shl(delay, CL)
    a.imul(RCX, CLOCK.it.tsc_cycles_per_ms, RTO_MOST_MS)
    a.cmp(delay, RCX)
    a.cmov(A, delay, RCX)
    a.add(delay, now)
    a.mov(tcp.rtx_at, delay)
    a.cmp(tcp.give_up_at, NEVER)
    with a.if_(E):
        a.imul(RCX, CLOCK.it.tsc_cycles_per_ms, GIVE_UP_MS)
        a.add(RCX, now)
        a.mov(tcp.give_up_at, RCX)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "the shard")],
    clobbers=[RAX, RCX, RDX],
    reads=[
        Clock.tsc_cycles_per_ms,
        CoreState.now,
        TcpContext.rtt_at,
        TcpContext.srtt,
        TcpContext.rttvar,
    ],
    writes=[TcpContext.rtt_at, TcpContext.srtt, TcpContext.rttvar, TcpContext.rto],
    source="RFC 6298 2",
)
def tcp_measure(a: Asm, shard: ShardContext) -> None:
    """End the running measurement and follow it with srtt, rttvar and rto."""
    tcp, sample, old, limit = shard.tcp, RAX, RCX, RCX
    first, known = a.label("first"), a.label("known")
    a.mov(sample, core.now)
    a.sub(sample, tcp.rtt_at)
    a.mov(tcp.rtt_at, 0)
    # A clock that jumped must not poison the average.
    a.imul(limit, CLOCK.it.tsc_cycles_per_ms, RTO_MOST_MS)
    a.cmp(sample, limit)
    a.cmov(A, sample, limit)
    a.mov(old, tcp.srtt)
    a.test(old, old)
    a.jz(first)

    # rttvar = 3/4 rttvar + 1/4 |srtt - sample|, then srtt = 7/8 srtt + 1/8 sample
    a.mov(RDX, old)
    a.sub(RDX, sample)
    with a.if_(B):
        a.neg(RDX)
    a.shr(RDX, 2)
    a.shr(sample, 3)
    a.add(sample, old)
    a.shr(old, 3)
    a.sub(sample, old)
    a.mov(RCX, tcp.rttvar)
    a.add(RDX, RCX)
    a.shr(RCX, 2)
    a.sub(RDX, RCX)
    a.jmp(known)

    a.place(first)
    a.mov(RDX, sample)
    a.shr(RDX, 1)
    a.place(known)
    a.cmp(sample, 1)
    a.adc(sample, 0)  # 0 would mean "not measured"
    a.mov(tcp.srtt, sample)
    a.mov(tcp.rttvar, RDX)

    a.lea(RAX, mem8(sample, index=RDX, scale=4, ref=ADDRESS))
    a.imul(limit, CLOCK.it.tsc_cycles_per_ms, RTO_LEAST_MS)
    a.cmp(RAX, limit)
    a.cmov(B, RAX, limit)
    a.imul(limit, CLOCK.it.tsc_cycles_per_ms, RTO_MOST_MS)
    a.cmp(RAX, limit)
    a.cmov(A, RAX, limit)
    a.mov(tcp.rto, RAX)
    a.ret()
