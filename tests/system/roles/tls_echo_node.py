"""The TLS echo role as a node: a datagram says whom to connect to, one line tells how it went.

The routines take the places of `shard_tick` and `diagnostics_input`. The line is `gateway.closed` with
the bytes that came when all went well, otherwise `lifecycle.connectionEnded` with the cause.
"""

from firmware.abi import CALLER_SAVED
from firmware.failure import shard_fail
from firmware.gateway.handshake import later
from firmware.layouts.config import HOST_MAX
from firmware.layouts.log import CONNECTION_ENDED, GATEWAY_CLOSED, TLS_STARTED
from firmware.layouts.node import CLOCK, CORE, NETWORK, Clock, CoreState, Network, Slot, core
from firmware.layouts.shard import End, Evidence, Phase, ShardContext, Stop
from firmware.layouts.tcp import TcpContext, TcpState
from firmware.layouts.tls import TlsContext, TlsState
from firmware.layouts.tls_arena import TlsArena
from firmware.layouts.tls_echo import (
    SAY_MAX,
    TLS_ECHO,
    TLS_ECHO_MAGIC,
    TlsEcho,
    TlsEchoControl,
    TlsEchoPhase,
)
from firmware.layouts.tls_pool import ARENAS_MAX, TLS_POOL, TlsPool
from firmware.layouts.trust import TrustStore
from firmware.log import log, log_write
from firmware.net.dns import dns_resolve
from firmware.shard.dial import NO_ADDRESS, NO_CONNECTION
from firmware.shard.evidence import copy_evidence
from firmware.shard.reset import wipe_transport
from firmware.tcp.connect import tcp_connect
from firmware.tcp.timers import tcp_tick
from firmware.test_roles.tls_echo import tls_echo_poll, tls_echo_say, tls_echo_trust
from firmware.tls.judge import tls_wakes
from firmware.tls.prepare import tls_prepare
from firmware.tls.transport import tls_abort, tls_close, tls_ready
from toolchain.asm import (
    AE,
    AL,
    AX,
    EAX,
    ECX,
    EDX,
    NC,
    NE,
    NZ,
    R8D,
    R9D,
    R12,
    R13,
    R13D,
    RAX,
    RBX,
    RCX,
    RDI,
    RSI,
    A,
    Asm,
    C,
    E,
    In,
    Out,
    Reg32,
    routine,
)

POLL_MS, FAREWELL_MS = 100, 3_000
TEXTS_BYTES = 2 * HOST_MAX + SAY_MAX
"""host, name and say follow each other in both structs."""


@routine(
    inputs=[
        In(RSI, TlsEchoControl, "the datagram"),
        In(ECX, int, "its bytes"),
        In(EDX, int, "who sent it"),
        In(R8D, int, "from which port"),
    ],
    clobbers=CALLER_SAVED,
    reads=[TlsEchoControl, CoreState.now, TlsPool.trust, TrustStore.count],
    writes=[
        TlsEcho,
        TlsPool.hybrid,
        Clock.unix_time,
        Clock.unix_tsc,
        Slot.deadline,
        CoreState.slots_due,
    ],
    calls=[tls_echo_trust, log_write],
    saves=[R12, R13],
    source="firmware/docs/test-roles.md#tls-echo",
)
def diagnostics_input(
    a: Asm, request: TlsEchoControl, length: Reg32, source: Reg32, port: Reg32
) -> None:
    """Take a target and the date, and connect as soon as the last connection is over; or take anchors.

    Whatever is no target is answered by a line with the number of anchors: who sends hears that it came.
    """
    echo, bad, told = TLS_ECHO.it, a.label("bad"), a.label("told")
    a.mov(R12, RSI)
    a.mov(R13D, length)
    a.call(tls_echo_trust)
    a.j(NC, told)
    a.mov(RSI, R12)
    a.cmp(R13D, TlsEchoControl.SIZE)
    a.j(NE, told)
    a.cmp(request.magic, TLS_ECHO_MAGIC)
    a.j(NE, bad)
    for given, taken, most in (  # unrolled: three lengths
        (request.host_len, echo.host_len, HOST_MAX),
        (request.name_len, echo.name_len, HOST_MAX),
        (request.say_len, echo.say_len, SAY_MAX),
    ):
        a.mov(EAX, given)
        a.cmp(EAX, most)
        a.j(A, bad)
        a.mov(taken, EAX)
    a.mov(EAX, request.limit)
    a.mov(echo.limit, EAX)
    a.mov(AX, request.port)
    a.mov(echo.port, AX)
    a.mov(AL, request.quiet)
    a.mov(echo.quiet, AL)
    a.mov(AL, request.unnamed)
    a.mov(echo.unnamed, AL)
    a.movzx(EAX, request.hybrid)
    a.mov(TLS_POOL.it.hybrid, EAX)
    a.mov(RAX, request.unix_time)
    a.test(RAX, RAX)
    with a.if_(NZ):
        a.mov(CLOCK.it.unix_time, RAX)
        a.mov(RAX, core.now)
        a.mov(CLOCK.it.unix_tsc, RAX)
    a.lea(RSI, request.host.address)
    a.lea(RDI, echo.host.address)
    a.mov(ECX, TEXTS_BYTES)
    a.rep_movsb()
    a.mov(echo.dial, 1)
    a.lea(RCX, CORE.it.slots.address)
    a.mov(Slot.at(RCX).deadline, 0)
    a.mov(core.slots_due, 0)
    a.place(bad)
    a.ret()
    a.place(told)
    a.mov(RAX, TLS_POOL.it.trust)
    a.mov(ECX, TrustStore.at(RAX).count)
    a.mov(EDX, ARENAS_MAX)
    log(a, TLS_STARTED)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "the shard, whose connection failed")],
    clobbers=CALLER_SAVED,
    reads=[TcpContext.state, TcpContext.error, TlsContext.state, TlsContext.error],
    writes=[Evidence.stop, TlsEcho.phase],
    calls=[shard_fail, copy_evidence, tls_abort, log_write],
    source="firmware/docs/test-roles.md#tls-echo",
)
def tls_echo_failed(a: Asm, shard: ShardContext) -> None:
    """Say why: TLS, TCP, or what was noted already."""
    for state, failed, end, error in (  # unrolled: two layers
        (shard.tls.state, TlsState.FAILED, End.TLS_FAILED, shard.tls.error),
        (shard.tcp.state, TcpState.FAILED, End.TCP_FAILED, shard.tcp.error),
    ):
        a.cmp(state, failed)
        with a.if_(E):
            a.mov(EDX, end)
            a.xor(ECX, ECX)
            a.xor(R8D, R8D)
            a.mov(R9D, error)
            a.call(shard_fail)
    a.call(copy_evidence)
    a.mov(shard.evidence.stop, Stop.REFUSED)
    log(a, CONNECTION_ENDED, RBX)
    a.mov(TLS_ECHO.it.phase, TlsEchoPhase.IDLE)
    a.jmp(tls_abort)


@routine(
    inputs=[In(RBX, ShardContext, "the one shard of the node")],
    outputs=[Out(RAX, "TSC when it next wants to run; all ones = never")],
    clobbers=CALLER_SAVED,
    reads=[
        TlsEcho.dial, TlsEcho.phase, TlsEcho.host_len, TlsEcho.name_len, TlsEcho.port, TlsEcho.received,
        TlsEcho.unnamed, TlsContext.arena_ptr, Network.configured, CoreState.now, Clock.tsc_cycles_per_ms, TcpContext.state, TlsContext.state,
        ShardContext.failure, ShardContext.close_deadline,
    ],
    writes=[
        TlsEcho.dial, TlsEcho.phase, TlsEcho.received, TcpContext.remote_ip, TcpContext.remote_port,
        ShardContext.phase, ShardContext.connected_at, ShardContext.close_deadline, TlsArena.is_address,
    ],
    calls=[
        wipe_transport, dns_resolve, tls_prepare, tcp_connect, tls_ready, tls_echo_say, tls_echo_poll,
        tls_close, tls_abort, tcp_tick, tls_wakes, shard_fail, tls_echo_failed, log_write,
    ],
    saves=[R12],
    source="firmware/docs/test-roles.md#tls-echo",
)  # fmt: skip
def shard_tick(a: Asm, shard: ShardContext) -> None:
    """Connect, shake hands, talk, end: one step of the one connection."""
    echo, phases = TLS_ECHO.it, {}
    idle, run, soon, failed, over, refused = map(
        a.label, ("idle", "run", "soon", "failed", "over", "refused")
    )
    a.mov(EAX, echo.phase)
    for phase in list(TlsEchoPhase)[1:]:  # unrolled: the phases
        phases[phase] = a.label(phase.name.lower())
        a.cmp(EAX, phase)
        a.j(E, phases[phase])
    a.cmp(echo.dial, 0)
    a.j(E, idle)
    a.cmp(NETWORK.it.configured, 0)
    a.j(E, soon)
    a.mov(echo.dial, 0)
    a.mov(echo.received, 0)
    a.call(wipe_transport)
    a.mov(shard.phase, Phase.RESOLVE)
    a.mov(echo.phase, TlsEchoPhase.RESOLVE)

    a.place(phases[TlsEchoPhase.RESOLVE])
    a.lea(RSI, echo.host.address)
    a.mov(ECX, echo.host_len)
    a.call(dns_resolve)
    a.cmp(EAX, 1)
    a.j(E, soon)
    a.mov(R9D, NO_ADDRESS.code)
    a.j(A, refused)
    a.mov(shard.tcp.remote_ip, EDX)
    a.mov(AX, echo.port)
    a.mov(shard.tcp.remote_port, AX)
    a.mov(echo.phase, TlsEchoPhase.PREPARE)

    a.place(phases[TlsEchoPhase.PREPARE])
    a.lea(RSI, echo.name.address)
    a.mov(ECX, echo.name_len)
    a.call(tls_prepare)
    with a.if_(C):
        a.cmp(shard.failure, 0)
        a.j(NE, failed)
        a.jmp(soon)
    a.cmp(echo.unnamed, 0)
    with a.if_(NE):
        a.mov(RCX, shard.tls.arena_ptr)
        a.mov(TlsArena.at(RCX).is_address, 1)
    a.call(tcp_connect)
    a.mov(R9D, NO_CONNECTION.code)
    a.j(C, refused)
    a.mov(shard.phase, Phase.TCP)
    a.mov(echo.phase, TlsEchoPhase.CONNECT)
    a.jmp(run)

    a.place(phases[TlsEchoPhase.CONNECT])
    a.cmp(shard.tcp.state, TcpState.FAILED)
    a.j(E, failed)
    a.cmp(shard.tcp.state, TcpState.ESTABLISHED)
    a.j(NE, run)
    a.mov(shard.phase, Phase.TLS)
    a.mov(echo.phase, TlsEchoPhase.HANDSHAKE)

    a.place(phases[TlsEchoPhase.HANDSHAKE])
    a.call(tls_ready)
    with a.if_(C):
        a.cmp(shard.tls.state, TlsState.FAILED)
        a.j(E, failed)
        a.cmp(shard.tcp.state, TcpState.FAILED)
        a.j(E, failed)
        a.jmp(run)
    a.mov(shard.phase, Phase.NONE)
    a.mov(RAX, core.now)
    a.mov(shard.connected_at, RAX)
    a.mov(echo.phase, TlsEchoPhase.SAY)

    a.place(phases[TlsEchoPhase.SAY])
    a.call(tls_echo_say)
    a.j(C, run)
    a.mov(echo.phase, TlsEchoPhase.TALK)

    a.place(phases[TlsEchoPhase.TALK])
    a.call(tls_echo_poll)
    with a.if_(C):
        a.cmp(shard.tls.state, TlsState.FAILED)
        a.j(E, failed)
        a.cmp(shard.tcp.state, TcpState.FAILED)
        a.j(E, failed)
        a.jmp(run)
    # What was said last still has to leave, then close_notify and our FIN.
    later(a, FAREWELL_MS)
    a.mov(shard.close_deadline, RAX)
    a.mov(echo.phase, TlsEchoPhase.END)

    a.place(phases[TlsEchoPhase.END])
    a.call(tls_close)
    a.call(tcp_tick)
    for state in (TcpState.CLOSED, TcpState.FAILED, TcpState.TIME_WAIT):  # unrolled: three states
        a.cmp(shard.tcp.state, state)
        a.j(E, over)
    a.mov(RCX, shard.close_deadline)
    a.cmp(RCX, core.now)
    with a.if_(A):
        a.cmp(RAX, RCX)
        a.cmov(AE, RAX, RCX)
        a.ret()
    a.place(over)
    a.mov(EDX, echo.received)
    a.mov(ECX, shard.failure)
    log(a, GATEWAY_CLOSED, RBX)
    a.mov(echo.phase, TlsEchoPhase.IDLE)
    a.call(tls_abort)
    a.mov(RAX, core.now)
    a.ret()

    a.place(refused)
    a.mov(EDX, End.NETWORK)
    a.xor(ECX, ECX)
    a.xor(R8D, R8D)
    a.call(shard_fail)
    a.place(failed)
    a.call(tls_echo_failed)
    a.mov(RAX, core.now)
    a.ret()
    a.place(run)
    a.call(tcp_tick)
    a.mov(R12, RAX)
    a.call(tls_wakes)
    a.cmp(RAX, R12)
    a.cmov(AE, RAX, R12)
    a.ret()
    a.place(soon)
    later(a, POLL_MS)
    a.ret()
    a.place(idle)
    a.mov(RAX, -1)
    a.ret()
