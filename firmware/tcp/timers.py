"""The timers of one connection, and everything that is sent because of them."""

from firmware.abi import CALLER_SAVED
from firmware.layouts.clock import NEVER
from firmware.layouts.node import CLOCK, Clock, CoreState, core
from firmware.layouts.shard import ShardContext
from firmware.layouts.tcp import (
    BLOCKED_MS,
    KEEP_PROBE_MS,
    KEEP_PROBES,
    TCP_KEEPALIVE,
    TCP_TIMED_OUT,
    TcpContext,
    TcpControl,
    TcpFlag,
    TcpState,
)
from firmware.tcp.ending import tcp_fail
from firmware.tcp.output import tcp_output, tcp_repair, tcp_timeout
from firmware.tcp.send import tcp_ack, tcp_send, tcp_syn
from toolchain.asm import (
    AE,
    BE,
    EAX,
    ECX,
    EDX,
    ESI,
    NZ,
    R8D,
    R12,
    RAX,
    RBX,
    RCX,
    A,
    Asm,
    E,
    In,
    Out,
    routine,
)


@routine(
    inputs=[In(RBX, ShardContext, "the shard")],
    clobbers=CALLER_SAVED,
    reads=[Clock.tsc_cycles_per_ms, CoreState.now, TcpContext.snd_una, TcpContext.keep_tries],
    writes=[TcpContext.keep_tries, TcpContext.keep_at],
    calls=[tcp_fail, tcp_send],
    source="RFC 9293 3.8.4",
)
def tcp_keepalive(a: Asm, shard: ShardContext) -> None:
    """Ask a silent peer for an ACK, and fail when it gave none several times."""
    tcp = shard.tcp
    a.cmp(tcp.keep_tries, KEEP_PROBES)
    with a.if_(AE):
        a.mov(EDX, TCP_KEEPALIVE.code)
        a.jmp(tcp_fail)
    a.inc(tcp.keep_tries)
    a.imul(RAX, CLOCK.it.tsc_cycles_per_ms, KEEP_PROBE_MS)
    a.add(RAX, core.now)
    a.mov(tcp.keep_at, RAX)
    # One before what the peer expects: unacceptable, so it must be answered.
    a.mov(EDX, tcp.snd_una)
    a.dec(EDX)
    a.xor(ESI, ESI)
    a.xor(ECX, ECX)
    a.mov(R8D, TcpControl.ACK)
    a.call(tcp_send)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "the shard")],
    outputs=[Out(RAX, "TSC when the connection wants to run again; NEVER = on a segment only")],
    clobbers=[RCX],
    reads=[
        Clock.tsc_cycles_per_ms,
        CoreState.now,
        TcpContext.state,
        TcpContext.flags,
        TcpContext.rtx_at,
        TcpContext.give_up_at,
        TcpContext.ack_at,
        TcpContext.keep_at,
        TcpContext.wait_at,
    ],
    source="firmware/docs/layers.md",
)
def tcp_deadline(a: Asm, shard: ShardContext) -> None:
    """Return the earliest deadline of the connection."""
    tcp, earliest = shard.tcp, RAX
    a.mov(earliest, NEVER)
    a.mov(ECX, tcp.state)
    a.dec(ECX)
    a.cmp(ECX, TcpState.FAILED - 1)
    with a.if_(AE):  # CLOSED or FAILED
        a.ret()
    for deadline in (tcp.rtx_at, tcp.give_up_at, tcp.ack_at, tcp.keep_at, tcp.wait_at):  # unrolled
        a.cmp(earliest, deadline)
        a.cmov(A, earliest, deadline)
    a.test(tcp.flags, TcpFlag.BLOCKED)
    with a.if_(NZ):
        a.imul(RCX, CLOCK.it.tsc_cycles_per_ms, BLOCKED_MS)
        a.add(RCX, core.now)
        # What is due could not leave, an acknowledgement for one: it is tried again with the rest.
        a.cmp(earliest, core.now)
        a.cmov(BE, earliest, RCX)
        a.cmp(earliest, RCX)
        a.cmov(A, earliest, RCX)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "the shard")],
    outputs=[Out(RAX, "TSC when the connection wants to run again; NEVER = on a segment only")],
    clobbers=CALLER_SAVED,
    reads=[
        CoreState.now,
        TcpContext.state,
        TcpContext.give_up_at,
        TcpContext.wait_at,
        TcpContext.rtx_at,
        TcpContext.keep_at,
        TcpContext.ack_at,
        TcpContext.flags,
    ],
    writes=[TcpContext.state, TcpContext.flags],
    calls=[
        tcp_fail,
        tcp_timeout,
        tcp_keepalive,
        tcp_syn,
        tcp_repair,
        tcp_output,
        tcp_ack,
        tcp_deadline,
    ],
    saves=[R12],
    source="RFC 9293 3.10.8",
)
def tcp_tick(a: Asm, shard: ShardContext) -> None:
    """Run the timers that are due and send what may be sent."""
    tcp, now = shard.tcp, R12
    with a.block() as over:
        a.mov(EAX, tcp.state)
        a.dec(EAX)
        a.cmp(EAX, TcpState.FAILED - 1)
        a.leave(AE, over)  # CLOSED or FAILED
        a.mov(now, core.now)
        a.cmp(now, tcp.give_up_at)
        with a.if_(AE):
            a.mov(EDX, TCP_TIMED_OUT.code)
            a.call(tcp_fail)
            a.jmp(over)
        a.cmp(now, tcp.wait_at)
        with a.if_(AE):
            a.mov(tcp.state, TcpState.CLOSED)
            a.jmp(over)
        a.and_(tcp.flags, ~TcpFlag.BLOCKED)  # every refusal below sets it again
        a.cmp(now, tcp.rtx_at)
        with a.if_(AE):
            a.call(tcp_timeout)
        a.cmp(now, tcp.keep_at)
        with a.if_(AE):
            a.call(tcp_keepalive)
            a.cmp(tcp.state, TcpState.FAILED)
            a.leave(E, over)
        a.test(tcp.flags, TcpFlag.SYN_DUE)
        with a.if_(NZ):
            a.call(tcp_syn)
        a.test(tcp.flags, TcpFlag.RETRANSMIT_DUE)
        with a.if_(NZ):
            a.call(tcp_repair)
        a.call(tcp_output)

        # Data that just left carried the acknowledgement.
        owed, settled = a.label("owed"), a.label("settled")
        a.test(tcp.flags, TcpFlag.ACK_NOW)
        a.jnz(owed)
        a.cmp(now, tcp.ack_at)
        a.jb(settled)
        a.place(owed)
        a.call(tcp_ack)
        a.place(settled)
    a.jmp(tcp_deadline)
