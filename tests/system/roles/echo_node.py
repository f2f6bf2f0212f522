"""The echo role as a node: a datagram says whom to dial, one `gateway.closed` line tells how it went.

The routines take the places of `shard_tick` and `diagnostics_input`.
"""

from firmware.abi import CALLER_SAVED
from firmware.gateway.handshake import later
from firmware.layouts.config import HOST_MAX, PATH_MAX
from firmware.layouts.echo import (
    ECHO,
    ECHO_MAGIC,
    Echo,
    EchoControl,
    EchoPhase,
)
from firmware.layouts.log import GATEWAY_CLOSED
from firmware.layouts.node import CORE, NETWORK, Clock, CoreState, Network, Slot, core
from firmware.layouts.shard import ShardContext
from firmware.layouts.tcp import TcpContext, TcpState
from firmware.layouts.websocket import WebSocketContext, WsState
from firmware.log import log, log_write
from firmware.net.dns import dns_resolve
from firmware.shard.reset import wipe_transport
from firmware.tcp.connect import tcp_connect
from firmware.tcp.timers import tcp_tick
from firmware.test_roles.echo import echo_begin, echo_poll
from firmware.tls.transport import tls_abort, tls_close, tls_start
from firmware.websocket.connection import ws_start
from toolchain.asm import (
    AE,
    AX,
    EAX,
    ECX,
    EDX,
    NE,
    R8D,
    RAX,
    RBX,
    RCX,
    RDI,
    RSI,
    A,
    Asm,
    C,
    In,
    Out,
    Reg32,
    routine,
)

POLL_MS, FAREWELL_MS = 100, 3_000
DIALS_MAX = 5


@routine(
    inputs=[
        In(RSI, EchoControl, "the datagram"),
        In(ECX, int, "its bytes"),
        In(EDX, int, "who sent it"),
        In(R8D, int, "from which port"),
    ],
    clobbers=CALLER_SAVED,
    reads=[EchoControl],
    writes=[Echo, Slot.deadline, CoreState.slots_due],
    source="firmware/docs/test-roles.md#echo",
)
def diagnostics_input(
    a: Asm, request: EchoControl, length: Reg32, source: Reg32, port: Reg32
) -> None:
    """Take a target, and dial it as soon as the last connection is over."""
    echo, bad = ECHO.it, a.label("bad")
    a.cmp(length, EchoControl.SIZE)
    a.jb(bad)
    a.cmp(request.magic, ECHO_MAGIC)
    a.jne(bad)
    a.mov(EAX, request.host_len)
    a.cmp(EAX, HOST_MAX)
    a.j(A, bad)
    a.mov(echo.host_len, EAX)
    a.mov(EAX, request.path_len)
    a.cmp(EAX, PATH_MAX)
    a.j(A, bad)
    a.mov(echo.path_len, EAX)
    a.mov(AX, request.port)
    a.mov(echo.port, AX)
    a.lea(RSI, request.host.address)
    a.lea(RDI, echo.host.address)
    a.mov(ECX, HOST_MAX + PATH_MAX)  # host and path follow each other in both structs
    a.rep_movsb()
    a.mov(echo.dial, 1)
    a.lea(RCX, CORE.it.slots.address)
    a.mov(Slot.at(RCX).deadline, 0)
    a.mov(core.slots_due, 0)
    a.place(bad)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "the one shard of the node")],
    outputs=[Out(RAX, "TSC when it next wants to run; all ones = never")],
    clobbers=CALLER_SAVED,
    reads=[
        Echo.dial,
        Echo.dials,
        Echo.phase,
        Echo.host_len,
        Echo.port,
        Network.configured,
        CoreState.now,
        Clock.tsc_cycles_per_ms,
        TcpContext.state,
        WebSocketContext.state,
        ShardContext.failure,
        ShardContext.peer_close,
        ShardContext.close_deadline,
    ],
    writes=[
        Echo.dial,
        Echo.dials,
        Echo.phase,
        Echo.verdicts,
        TcpContext.remote_ip,
        TcpContext.remote_port,
        ShardContext.close_deadline,
    ],
    calls=[
        wipe_transport, echo_begin, dns_resolve, tcp_connect, tls_start, ws_start, echo_poll, tls_close,
        tls_abort, tcp_tick, log_write,
    ],
    source="firmware/docs/test-roles.md#echo",
)  # fmt: skip
def shard_tick(a: Asm, shard: ShardContext) -> None:
    """Dial, talk, end: one step of the one connection."""
    echo = ECHO.it
    idle, again, resolve, connect, talk, end, run, soon, verdict = map(
        a.label,
        ("idle", "again", "resolve", "connect", "talk", "end", "run", "soon", "verdict"),
    )
    a.mov(EAX, echo.phase)
    for phase, label in (
        (EchoPhase.RESOLVE, resolve),
        (EchoPhase.CONNECT, connect),
        (EchoPhase.TALK, talk),
        (EchoPhase.END, end),
    ):  # fmt: skip - unrolled: four phases
        a.cmp(EAX, phase)
        a.je(label)
    a.cmp(echo.dial, 0)
    a.je(idle)
    a.cmp(NETWORK.it.configured, 0)
    a.je(soon)
    a.mov(echo.dial, 0)
    a.mov(echo.dials, 0)
    a.place(again)
    a.call(wipe_transport)
    a.call(echo_begin)
    a.mov(echo.phase, EchoPhase.RESOLVE)

    a.place(resolve)
    a.lea(RSI, echo.host.address)
    a.mov(ECX, echo.host_len)
    a.call(dns_resolve)
    a.cmp(EAX, 1)
    a.je(soon)
    a.j(A, verdict)
    a.mov(shard.tcp.remote_ip, EDX)
    a.mov(AX, echo.port)
    a.mov(shard.tcp.remote_port, AX)
    a.call(tcp_connect)
    a.j(C, verdict)
    a.mov(echo.phase, EchoPhase.CONNECT)
    a.jmp(run)

    a.place(connect)
    a.cmp(shard.tcp.state, TcpState.ESTABLISHED)
    with a.if_(NE):
        # A random port may meet the end of an earlier connection at the peer: take another one.
        a.cmp(shard.tcp.state, TcpState.FAILED)
        a.jne(run)
        a.inc(echo.dials)
        a.cmp(echo.dials, DIALS_MAX)
        a.jb(again)
        a.jmp(verdict)
    a.call(tls_start)
    a.call(ws_start)
    a.mov(echo.phase, EchoPhase.TALK)

    a.place(talk)
    a.call(echo_poll)
    a.cmp(shard.tcp.state, TcpState.FAILED)
    a.je(verdict)
    a.cmp(shard.websocket.state, WsState.CLOSED)
    a.jb(run)
    # What was said last still has to leave, then our FIN.
    a.call(tls_close)
    later(a, FAREWELL_MS)
    a.mov(shard.close_deadline, RAX)
    a.mov(echo.phase, EchoPhase.END)

    a.place(end)
    a.call(tcp_tick)
    for state in (TcpState.CLOSED, TcpState.FAILED, TcpState.TIME_WAIT):  # unrolled: three states
        a.cmp(shard.tcp.state, state)
        a.je(verdict)
    a.mov(RCX, shard.close_deadline)
    a.cmp(RCX, core.now)
    with a.if_(A):
        a.cmp(RAX, RCX)
        a.cmov(AE, RAX, RCX)
        a.ret()

    a.place(verdict)
    a.movzx(EDX, shard.peer_close)
    a.mov(ECX, shard.failure)
    log(a, GATEWAY_CLOSED, RBX)
    a.inc(echo.verdicts)
    a.mov(echo.phase, EchoPhase.IDLE)
    a.call(tls_abort)
    a.mov(RAX, core.now)
    a.ret()
    a.place(run)
    a.jmp(tcp_tick)
    a.place(soon)
    later(a, POLL_MS)
    a.ret()
    a.place(idle)
    a.mov(RAX, -1)
    a.ret()
