"""The lifecycle of one shard, one step: what the scheduler does next with it (seed A).

The tick takes one shard. The same pointer goes through lifecycle, TCP, TLS, WebSocket and Gateway,
so no layer scans the pool. `shards_tick` is the compatibility wrapper that sweeps all active shards.
"""

from firmware.abi import CALLER_SAVED
from firmware.failure import shard_fail
from firmware.gateway.poll import gateway_poll
from firmware.gateway.timers import gateway_tick
from firmware.layouts.gateway import GatewayContext, GatewayFlag
from firmware.layouts.node import CORE, SLOT_ACTIVE, Clock, CoreState, Slot, core
from firmware.layouts.plan import Leaving
from firmware.layouts.shard import End, Phase, ShardContext, ShardState
from firmware.layouts.stop import STOP, Stop, StopPhase
from firmware.layouts.tcp import TcpContext, TcpState
from firmware.layouts.tls import TlsContext, TlsState
from firmware.layouts.tls_sites import HANDSHAKE_TIMEOUT
from firmware.layouts.websocket import WebSocketContext, WsState
from firmware.shard.dial import ATTEMPT_TIMEOUT, CONNECTION_GONE, shard_begin, shard_may_start
from firmware.shard.lose import shard_lose
from firmware.shard.phases import (
    poll_deadline,
    shard_advance,
    shard_follow,
    shard_say_goodbye,
    tick_backoff,
)
from firmware.shard.startup import attempt_restart, wait_budget
from firmware.shard.stop import shard_drain
from firmware.tcp.timers import tcp_tick
from firmware.tls.judge import tls_wakes
from toolchain.asm import (
    AE,
    AL,
    EAX,
    EBX,
    ECX,
    EDX,
    NE,
    NZ,
    R8D,
    R9D,
    R12,
    R13,
    R13D,
    RAX,
    RBX,
    A,
    Asm,
    B,
    E,
    In,
    Out,
    Z,
    routine,
)

CLOSE_UNKNOWN_ERROR = 4000
"""The close code that keeps the session alive at the peer (decision 24)."""


@routine(
    inputs=[In(RBX, ShardContext, "a shard in STARTING or READY")],
    clobbers=CALLER_SAVED,
    reads=[
        ShardContext.attempt_deadline,
        CoreState.now,
        TcpContext.state,
        TcpContext.error,
        TlsContext.state,
        TlsContext.error,
        TlsContext.arena_ptr,
        TlsContext.deadline,
        WebSocketContext.state,
    ],
    calls=[shard_fail],
    source="firmware/docs/lifecycle.md#detecting-failed-transport",
)
def shard_find_failure(a: Asm, shard: ShardContext) -> None:
    """Turn a failed layer or an overdue attempt into the shard's failure, unless one is known."""
    fail = a.label("fail")

    # The lowest layer first: FAILED of TCP or TLS is seed A's reason for a backoff.
    a.mov(EDX, End.TCP_FAILED)
    a.mov(R9D, shard.tcp.error)
    a.xor(R8D, R8D)
    a.cmp(shard.tcp.state, TcpState.FAILED)
    a.j(E, fail)
    a.mov(EDX, End.TLS_FAILED)
    a.mov(R9D, shard.tls.error)
    a.cmp(shard.tls.state, TlsState.FAILED)
    a.j(E, fail)
    a.mov(EDX, End.NETWORK)
    a.mov(R9D, CONNECTION_GONE.code)
    a.cmp(shard.websocket.state, WsState.CLOSED)
    a.j(AE, fail)

    # Before ClientHello nobody else looks at the time of TLS, which includes the SYN's.
    a.mov(EDX, End.TIMEOUT)
    with a.block() as in_time:
        a.cmp(shard.tls.state, TlsState.IDLE)
        a.leave(NE, in_time)
        a.cmp(shard.tls.arena_ptr, 0)
        a.leave(E, in_time)
        a.mov(RAX, core.now)
        a.cmp(RAX, shard.tls.deadline)
        a.leave(B, in_time)
        a.mov(R9D, HANDSHAKE_TIMEOUT.code)
        a.jmp(fail)

    # Only an attempt has a deadline; READY keeps it at zero.
    a.mov(RAX, shard.attempt_deadline)
    a.test(RAX, RAX)
    with a.if_(Z):
        a.ret()
    a.cmp(RAX, core.now)
    with a.if_(A):
        a.ret()
    a.mov(R9D, ATTEMPT_TIMEOUT.code)
    a.mov(R8D, CLOSE_UNKNOWN_ERROR)
    a.place(fail)
    a.xor(ECX, ECX)
    a.call(shard_fail)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "a shard in STARTING or READY")],
    outputs=[Out(RAX, "TSC when it next wants to run")],
    clobbers=CALLER_SAVED,
    reads=[
        ShardContext.state,
        ShardContext.phase,
        ShardContext.failure,
        ShardContext.attempt_deadline,
        GatewayContext.flags,
        CoreState.now,
        Clock.tsc_cycles_per_ms,
    ],
    writes=[ShardContext.attempt_started, ShardContext.attempt_deadline],
    calls=[
        gateway_poll,
        shard_find_failure,
        shard_follow,
        shard_lose,
        shard_advance,
        gateway_tick,
        wait_budget,
        tcp_tick,
        tls_wakes,
    ],
    saves=[R12],
    source="firmware/docs/lifecycle.md#tick",
)
def tick_connection(a: Asm, shard: ShardContext) -> None:
    """Read what came, look for failure, advance, send what is due."""
    failed, soon = a.label("failed"), a.label("soon")
    # What the peer said last (a close code, an op 9) counts before the state of its transport.
    a.cmp(shard.state, ShardState.READY)
    with a.block() as early:
        open_ = a.label("open")
        a.j(E, open_)
        a.cmp(shard.phase, Phase.WS)
        a.leave(B, early)
        a.cmp(shard.phase, Phase.PERMIT)
        a.leave(E, early)
        a.place(open_)
        a.call(gateway_poll)
    a.call(shard_find_failure)
    a.cmp(shard.failure, 0)
    a.j(NE, failed)

    a.cmp(shard.state, ShardState.STARTING)
    with a.if_(Z):
        a.call(shard_advance)
    a.call(gateway_tick)
    a.mov(R12, RAX)
    a.cmp(shard.failure, 0)
    a.j(NE, failed)
    # Other nodes' Identifies are waited for at nobody's expense.
    a.test(shard.gateway.flags, GatewayFlag.TICKET_WAIT)
    with a.if_(NZ):
        attempt_restart(a, shard)
    a.call(tcp_tick)
    a.cmp(RAX, R12)
    a.cmov(B, R12, RAX)
    a.call(tls_wakes)
    a.cmp(RAX, R12)
    a.cmov(B, R12, RAX)

    # An attempt ends by its deadline; while nobody will wake it, it looks again by itself, as one
    # does that went back to ASSIGNED.
    again = a.label("again")
    a.cmp(shard.state, ShardState.STARTING)
    a.j(B, again)
    a.j(NE, soon)
    a.mov(RAX, shard.attempt_deadline)
    a.dec(RAX)  # zero (no attempt yet) becomes the far end
    a.cmp(RAX, R12)
    a.cmov(B, R12, RAX)
    a.cmp(shard.phase, Phase.RESOLVE)
    with a.block() as announced:
        a.j(E, again)
        a.cmp(shard.phase, Phase.PERMIT)
        a.leave(NE, announced)
        a.place(again)
        poll_deadline(a)
        a.cmp(RAX, R12)
        a.cmov(B, R12, RAX)
    a.place(soon)
    a.mov(RAX, R12)
    a.ret()

    # What came before the failure counts: the upgrade, an Identify that was sent, READY.
    a.place(failed)
    a.cmp(shard.state, ShardState.STARTING)
    with a.if_(Z):
        a.call(shard_follow)
    a.call(shard_lose)
    a.mov(RAX, core.now)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "the shard")],
    outputs=[Out(RAX, "TSC when it next wants to run; all ones = never")],
    clobbers=CALLER_SAVED,
    reads=[
        ShardContext.state,
        ShardContext.leaving,
        CoreState.now,
        Clock.tsc_cycles_per_ms,
        Stop.phase,
    ],
    writes=[ShardContext.hold],
    calls=[
        shard_may_start,
        shard_begin,
        tick_connection,
        tick_backoff,
        shard_say_goodbye,
        shard_drain,
    ],
    source="firmware/docs/lifecycle.md#tick",
)
def shard_tick(a: Asm, shard: ShardContext) -> None:
    """Do one step for one shard, by its state; a node that stops, or a shard that leaves, only drains."""
    a.cmp(STOP.it.phase, StopPhase.RUNNING)
    with a.if_(NE):
        a.jmp(shard_drain)
    a.cmp(shard.leaving, Leaving.NO)
    with a.if_(NE):
        a.jmp(shard_drain)
    a.mov(EAX, shard.state)
    a.cmp(EAX, ShardState.BACKOFF)
    with a.if_(E):
        a.jmp(tick_backoff)
    with a.if_(A):
        a.jmp(shard_say_goodbye)  # FATAL retries nothing; it only finishes its farewell
    a.cmp(EAX, ShardState.ASSIGNED)
    with a.if_(NE):
        a.jmp(tick_connection)

    a.call(shard_may_start)
    a.test(EAX, EAX)
    with a.if_(NZ):
        a.mov(shard.hold, AL)
        poll_deadline(a)
        a.ret()
    a.call(shard_begin)
    a.jmp(tick_connection)


@routine(
    clobbers=CALLER_SAVED,
    reads=[CoreState.slots_used, Slot.flags, Slot.context],
    writes=[Slot.deadline, CoreState.slots_due],
    calls=[shard_tick],
    saves=[RBX, R12, R13],
    source="firmware/docs/lifecycle.md#per-shard-failure-isolation",
)
def shards_tick(a: Asm) -> None:
    """Sweep all active shards, whatever their deadlines: the compatibility wrapper."""
    slot = Slot.at(R12)
    a.mov(core.slots_due, 0)
    a.lea(R12, CORE.it.slots.address)
    a.mov(R13D, core.slots_used)
    a.test(R13D, R13D)
    with a.if_(NZ), a.loop() as top:
        a.test(slot.flags, SLOT_ACTIVE)
        with a.if_(NZ):
            a.mov(EBX, slot.context)
            a.call(shard_tick)
            a.mov(slot.deadline, RAX)
        a.add(R12, Slot.SIZE)
        a.dec(R13D)
        a.again(NZ, top)
    a.ret()
