"""From permission to a dialled connection: may it start, the permit, the address, the SYN."""

from firmware.abi import CALLER_SAVED
from firmware.errors import Layer, site
from firmware.failure import shard_fail
from firmware.layouts.config import CONFIG, ConfigBlob
from firmware.layouts.events import EventStream, Stuck
from firmware.layouts.log import SHARD_ATTEMPT
from firmware.layouts.node import CLOCK, LEASE, NETWORK, Clock, CoreState, Lease, Network, core
from firmware.layouts.policy import STARTUP, OnLimit, Startup
from firmware.layouts.shard import (
    End,
    Hold,
    Phase,
    Session,
    ShardContext,
    ShardFlag,
    ShardState,
)
from firmware.layouts.survivor import SURVIVAL, Survival
from firmware.layouts.tcp import TcpContext, TcpState
from firmware.layouts.token import TOKEN, BotToken
from firmware.log import log, log_write
from firmware.net.dns import dns_resolve
from firmware.shard.allowance import allowance_hold
from firmware.shard.backoff import RECOVERING
from firmware.shard.discover import shard_discover
from firmware.shard.load import session_wait
from firmware.shard.permit import permit_release, permit_take
from firmware.shard.reset import reset_shard
from firmware.shard.resume import shard_is_resumable
from firmware.shard.snapshot import session_confirm
from firmware.shard.startup import (
    attempt_budget,
    attempt_restart,
    keep_to_startup,
    startup_begin,
    wait_budget,
)
from firmware.tcp.connect import tcp_connect
from firmware.tls.pool import tls_arena_give
from firmware.tls.prepare import tls_prepare
from firmware.tls.transport import tls_abort
from firmware.websocket.request import ws_base
from toolchain.asm import (
    AL,
    AX,
    CL,
    EAX,
    ECX,
    EDX,
    NC,
    NZ,
    R8D,
    R9D,
    R12,
    R13,
    R13D,
    RAX,
    RBX,
    RDX,
    RSI,
    Asm,
    B,
    C,
    E,
    In,
    Out,
    Z,
    routine,
)

NO_ADDRESS = site(Layer.SHARD, 1, "no_address", "the gateway's name has no address")
NO_CONNECTION = site(
    Layer.SHARD, 2, "no_connection", "no local port or no entropy for a connection"
)
ATTEMPT_TIMEOUT = site(Layer.SHARD, 3, "attempt_timeout", "the attempt took longer than it may")
CONNECTION_GONE = site(
    Layer.SHARD, 4, "connection_gone", "the WebSocket ended without a close code"
)


@routine(
    inputs=[In(RBX, ShardContext, "a shard in ASSIGNED")],
    outputs=[Out(EAX, "Hold: why it may not start; 0 = it may")],
    clobbers=CALLER_SAVED,
    reads=[
        Lease.expired,
        Clock.tsc_cycles_per_ms,
        Network.configured,
        Survival.held,
        BotToken.length,
    ],
    calls=[session_wait, allowance_hold],
    source="firmware/docs/lifecycle.md#start",
)
def shard_may_start(a: Asm, shard: ShardContext) -> None:
    """Tell whether lease, clock, crashes, network, token, load and allowance let a shard leave ASSIGNED."""
    a.mov(EAX, Hold.LEASE_EXPIRED)
    a.cmp(LEASE.it.expired, 0)
    with a.if_(NZ):
        a.ret()
    a.mov(EAX, Hold.NO_CLOCK)
    a.cmp(CLOCK.it.tsc_cycles_per_ms, 0)
    with a.if_(Z):
        a.ret()
    a.mov(EAX, Hold.CRASH_LOOP)
    a.cmp(SURVIVAL.it.held, 0)
    with a.if_(NZ):
        a.ret()
    a.mov(EAX, Hold.NO_NETWORK)
    a.cmp(NETWORK.it.configured, 0)
    with a.if_(Z):
        a.ret()
    a.mov(EAX, Hold.NO_TOKEN)
    a.cmp(TOKEN.it.length, 0)
    with a.if_(Z):
        a.ret()
    a.call(session_wait)
    a.test(EAX, EAX)
    with a.if_(Z):
        a.jmp(allowance_hold)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "the shard that starts or starts over")],
    clobbers=CALLER_SAVED,
    reads=[
        TcpContext.state,
        CoreState.now,
        ShardContext.flags,
        Startup.deadline,
        ConfigBlob.on_limit,
    ],
    writes=[
        ShardContext.state,
        ShardContext.phase,
        ShardContext.hold,
        ShardContext.permit_since,
        ShardContext.attempt_deadline,
    ],
    calls=[tls_abort, tls_arena_give, reset_shard, startup_begin],
    source="firmware/docs/lifecycle.md#start",
)
def shard_begin(a: Asm, shard: ShardContext) -> None:
    """Drop what is left of the old connection, reset, and queue for the permit."""
    a.cmp(shard.tcp.state, TcpState.CLOSED)
    with a.if_(NZ):
        a.call(tls_abort)
    with a.else_():
        a.call(tls_arena_give)  # a failure before the SYN left its arena or place behind
    a.call(reset_shard)
    a.mov(shard.state, ShardState.STARTING)
    a.mov(shard.phase, Phase.PERMIT)
    a.mov(shard.hold, Hold.NONE)
    a.mov(RAX, core.now)
    a.mov(shard.permit_since, RAX)
    a.cmp(STARTUP.it.deadline, 0)
    with a.if_(E):
        a.call(startup_begin)
    # The wait for a permit ends with the startup when its end is to be fatal.
    a.cmp(CONFIG.it.on_limit, OnLimit.FATAL)
    with a.if_(E):
        a.test(shard.flags, RECOVERING)
        with a.if_(Z):
            a.mov(RAX, STARTUP.it.deadline)
            a.mov(shard.attempt_deadline, RAX)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "a shard in phase PERMIT")],
    clobbers=CALLER_SAVED,
    reads=[
        ShardContext.flags,
        ShardContext.attempt_deadline,
        CoreState.now,
        Startup.deadline,
    ],
    writes=[
        ShardContext.state,
        ShardContext.hold,
        ShardContext.phase,
        ShardContext.attempts,
        ShardContext.recovery_attempts,
        ShardContext.attempt_started,
        ShardContext.attempt_deadline,
    ],
    calls=[shard_is_resumable, allowance_hold, permit_take, permit_release, attempt_budget],
    source="firmware/docs/lifecycle.md#permits",
)
def shard_ask_permit(a: Asm, shard: ShardContext) -> None:
    """Start the attempt's clock once an Identify may be sent; a Resume needs no permit."""
    granted = a.label("granted")
    a.call(shard_is_resumable)
    a.j(C, granted)
    a.call(allowance_hold)
    a.test(EAX, EAX)
    with a.if_(NZ):
        # Nothing is dialled yet: the shard goes back to where it waits for the next window.
        a.mov(shard.hold, AL)
        a.mov(shard.state, ShardState.ASSIGNED)
        a.mov(shard.phase, Phase.NONE)
        a.jmp(permit_release)
    a.call(permit_take)
    a.j(NC, granted)
    a.cmp(shard.attempt_deadline, 0)
    with a.if_(NZ):
        keep_to_startup(a, shard)
    a.ret()

    a.place(granted)
    a.inc(shard.attempts)
    a.test(shard.flags, ShardFlag.ESTABLISHED)
    with a.if_(NZ):
        a.inc(shard.recovery_attempts)
    a.mov(RAX, core.now)
    a.mov(shard.attempt_started, RAX)
    a.call(attempt_budget)
    a.mov(shard.attempt_deadline, RAX)
    a.mov(shard.phase, Phase.RESOLVE)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "a shard in phase RESOLVE")],
    clobbers=CALLER_SAVED,
    reads=[
        ShardContext.session_ptr,
        ShardContext.flags,
        Session.resume_host_len,
        Session.resume_port,
        ShardContext.failure,
        CoreState.now,
        TcpContext.remote_ip,
        TcpContext.remote_port,
    ],
    writes=[
        ShardContext.phase,
        ShardContext.connection,
        EventStream.stuck,
        ShardContext.attempt_started,
        ShardContext.attempt_deadline,
        TcpContext.remote_ip,
        TcpContext.remote_port,
    ],
    calls=[
        shard_is_resumable,
        shard_discover,
        session_confirm,
        ws_base,
        dns_resolve,
        tls_prepare,
        wait_budget,
        tcp_connect,
        shard_fail,
        log_write,
    ],
    saves=[R12, R13],
    source="firmware/docs/lifecycle.md#dial",
)
def shard_dial(a: Asm, shard: ShardContext) -> None:
    """Resolve the resume host or the base host, make TLS ready, connect; what is pending is asked again."""
    host, host_bytes = R12, R13D
    base, dial, unprepared, refused = map(a.label, ("base", "dial", "unprepared", "refused"))

    # A Resume goes to the host that READY named, when there is one.
    a.call(shard_is_resumable)
    a.j(NC, base)
    a.test(shard.flags, ShardFlag.RESTORED)
    with a.if_(NZ):
        # The token goes nowhere but to the gateway that this process knows or discovers.
        a.call(shard_discover)
        with a.if_(C):
            a.ret()
        a.call(session_confirm)
        with a.if_(C):
            a.mov(shard.phase, Phase.PERMIT)
            a.ret()
    session = Session.at(RDX)
    a.mov(RDX, shard.session_ptr)
    a.mov(ECX, session.resume_host_len)
    a.test(ECX, ECX)
    a.jz(base)
    a.mov(AX, session.resume_port)
    a.lea(RSI, session.resume_host.address)
    a.jmp(dial)
    a.place(base)
    a.call(shard_discover)
    with a.if_(C):
        a.ret()
    a.call(ws_base)
    a.mov(EAX, EDX)
    a.place(dial)
    a.mov(shard.tcp.remote_port, AX)
    a.mov(host, RSI)
    a.mov(host_bytes, ECX)
    a.call(dns_resolve)
    a.cmp(EAX, 1)
    with a.if_(E):
        a.ret()
    with a.if_(B):
        a.mov(shard.tcp.remote_ip, EDX)
        a.mov(RSI, host)
        a.mov(ECX, host_bytes)
        a.call(tls_prepare)
        a.j(C, unprepared)
        a.call(tcp_connect)
        a.j(C, refused)
        a.mov(shard.phase, Phase.TCP)
        # A publication of the connection before that failed since is repeated by this one.
        a.inc(shard.connection)
        a.mov(shard.events.stuck, Stuck.NO)
        a.mov(EDX, shard.flags)
        a.shr(EDX, ShardFlag.ESTABLISHED.bit_length() - 1)
        a.and_(EDX, 1)
        a.call(shard_is_resumable)
        a.set(C, CL)
        a.movzx(ECX, CL)
        a.mov(R8D, shard.tcp.remote_ip)
        a.movzx(R9D, shard.tcp.remote_port)
        log(a, SHARD_ATTEMPT, RBX)
        a.ret()
    a.mov(R9D, NO_ADDRESS.code)
    a.mov(EDX, End.NETWORK)
    a.xor(ECX, ECX)
    a.xor(R8D, R8D)
    a.call(shard_fail)
    a.ret()
    # Others' handshakes are waited for at nobody's expense.
    a.place(unprepared)
    a.cmp(shard.failure, 0)
    with a.if_(E):
        attempt_restart(a, shard)
    a.ret()
    a.place(refused)
    a.mov(R9D, NO_CONNECTION.code)
    a.mov(EDX, End.NETWORK)
    a.xor(ECX, ECX)
    a.xor(R8D, R8D)
    a.call(shard_fail)
    a.ret()
