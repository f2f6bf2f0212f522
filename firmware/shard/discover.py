"""A shard that needs the gateway's address: it asks for all, or waits for the one that does."""

from firmware.abi import CALLER_SAVED
from firmware.gateway.discovery_ask import discovery_begin, discovery_dial, discovery_send
from firmware.gateway.discovery_body import discovery_body
from firmware.gateway.discovery_head import discovery_head
from firmware.gateway.discovery_verdict import discovery_later, discovery_share
from firmware.layouts.config import CONFIG, ConfigBlob
from firmware.layouts.discovery import (
    DISCOVERY,
    DISCOVERY_ABANDONED,
    Discovery,
    DiscoveryMode,
    DiscoveryState,
)
from firmware.layouts.node import CORE, CoreState, Slot, core
from firmware.layouts.permit import PERMITS, Permits
from firmware.layouts.policy import STARTUP, Startup
from firmware.layouts.shard import Phase, ShardContext, ShardState
from firmware.layouts.tcp import TcpContext, TcpState
from firmware.shard.allowance import allowance_hold
from firmware.shard.backoff import RECOVERING
from firmware.shard.permit import permit_release, permit_take
from firmware.shard.resume import shard_is_resumable
from firmware.shard.startup import (
    attempt_budget,
    attempt_restart,
    startup_adjust,
    wait_budget,
)
from firmware.tls.transport import tls_ready
from firmware.websocket.request import ws_build_request
from toolchain.asm import (
    AL,
    CF,
    EAX,
    ECX,
    EDX,
    NC,
    NE,
    NZ,
    R9D,
    R12,
    R12D,
    RAX,
    RBX,
    RCX,
    RDX,
    A,
    Asm,
    C,
    E,
    In,
    Out,
    Z,
    routine,
)

D = DISCOVERY.it


def end_question(a: Asm, shard: ShardContext) -> None:
    """End the question of a shard whose TLS failed while it asked: all who wait share the reason.

    The shard's evidence is copied. What `discovery_later` clobbers changes.
    """
    with a.block() as other:
        a.cmp(shard.evidence.tls_site, 0)
        a.leave(E, other)
        a.cmp(shard.phase, Phase.RESOLVE)
        a.leave(NE, other)
        a.mov(EAX, D.state)
        a.sub(EAX, DiscoveryState.RESOLVE)
        a.cmp(EAX, DiscoveryState.BODY - DiscoveryState.RESOLVE)
        a.leave(A, other)
        a.movzx(EAX, shard.slot)
        a.inc(EAX)
        a.cmp(EAX, D.owner)
        a.leave(NE, other)
        a.mov(EAX, shard.required_wait_ms)
        a.mov(D.retry_after_ms, RAX)
        a.mov(R9D, shard.last_error)
        a.call(discovery_later)


@routine(
    inputs=[In(RBX, ShardContext, "a shard in phase RESOLVE that knows the gateway")],
    outputs=[Out(CF, "1 = not now: its key is busy, or no Identify is left")],
    clobbers=CALLER_SAVED,
    reads=[CoreState.now, Permits.owned],
    writes=[
        ShardContext.state,
        ShardContext.hold,
        ShardContext.phase,
        ShardContext.attempt_started,
        ShardContext.attempt_deadline,
        Permits.owned,
    ],
    calls=[shard_is_resumable, permit_take, allowance_hold, permit_release, wait_budget],
    saves=[R12],
    source="firmware/docs/gateway.md#discovery-limits",
)
def shard_confirm_permit(a: Asm, shard: ShardContext) -> None:
    """Take the permit of the key that counts since discovery; without it the attempt waits."""
    free, busy, owned = a.label("free"), a.label("busy"), PERMITS.it.owned
    a.call(shard_is_resumable)
    a.j(C, free)
    a.mov(R12D, owned)
    a.call(permit_take)
    a.j(C, busy)
    a.cmp(R12D, owned)
    a.je(free)  # it was this shard's already
    # What the allowance said before was about a permit that is void now.
    a.mov(owned, R12D)
    a.call(allowance_hold)
    a.inc(owned)
    a.test(EAX, EAX)
    a.jz(free)
    a.mov(shard.hold, AL)
    a.mov(shard.state, ShardState.ASSIGNED)
    a.mov(shard.phase, Phase.NONE)
    a.call(permit_release)
    a.stc()
    a.ret()
    a.place(busy)
    attempt_restart(a, shard)
    a.stc()
    a.ret()
    a.place(free)
    a.clc()
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "a shard in phase RESOLVE")],
    outputs=[Out(CF, "1 = not yet, or the attempt failed")],
    clobbers=CALLER_SAVED,
    reads=[
        ShardContext.slot,
        ShardContext.attempts,
        ShardContext.state,
        ShardContext.phase,
        ShardContext.attempt_started,
        ShardContext.failure,
        ConfigBlob.discovery,
        Discovery.state,
        Discovery.owner,
        Discovery.attempt,
        Discovery.failed_at,
        Discovery.not_before,
        Discovery.retry_after_ms,
        CoreState.now,
        TcpContext.state,
        Slot.context,
        ShardContext.flags,
        Startup.deadline,
    ],
    writes=[ShardContext.attempt_started, ShardContext.attempt_deadline],
    calls=[
        discovery_begin,
        discovery_dial,
        tls_ready,
        discovery_send,
        discovery_head,
        discovery_body,
        discovery_later,
        discovery_share,
        shard_confirm_permit,
        startup_adjust,
        attempt_budget,
        wait_budget,
        ws_build_request,
    ],
    source="firmware/docs/gateway.md#discovery",
)
def shard_discover(a: Asm, shard: ShardContext) -> None:
    """Make sure that the gateway's address is known, or that the shard waits for it."""
    known, later, shared, mine, idle, ask, found = map(
        a.label, ("known", "later", "shared", "mine", "idle", "ask", "found")
    )
    other = ShardContext.at(RDX)
    a.cmp(CONFIG.it.discovery, DiscoveryMode.STATIC)
    a.je(known)
    a.cmp(D.state, DiscoveryState.FOUND)
    a.je(found)
    a.j(A, shared)

    # Is it asked already, and still by an attempt that lives?
    a.cmp(D.state, DiscoveryState.IDLE)
    a.je(idle)
    a.mov(ECX, D.owner)
    a.dec(ECX)
    a.movzx(EAX, shard.slot)
    a.cmp(ECX, EAX)
    a.je(mine)
    a.shl(ECX, 4)  # a slot row is 16 bytes
    a.lea(RDX, CORE.it.slots.address)
    a.mov(EDX, Slot.at(RDX, index=RCX).context)
    with a.block() as gone:
        a.cmp(other.state, ShardState.STARTING)
        a.leave(NE, gone)
        a.cmp(other.phase, Phase.RESOLVE)
        a.leave(NE, gone)
        a.mov(EAX, other.attempts)
        a.cmp(EAX, D.attempt)
        a.je(later)
    a.mov(R9D, DISCOVERY_ABANDONED.code)
    a.call(discovery_later)

    # Whoever waited while a question failed shares its end; whoever came later waits.
    a.place(idle)
    a.mov(RAX, D.failed_at)
    a.cmp(RAX, shard.attempt_started)
    a.j(A, shared)
    a.mov(RAX, core.now)
    a.cmp(RAX, D.not_before)
    a.jae(ask)
    attempt_restart(a, shard)
    # A wait that was asked for and outlasts the startup is the end of the startup, now.
    a.test(shard.flags, RECOVERING)
    a.j(NZ, later)
    a.cmp(D.retry_after_ms, 0)
    a.je(later)
    a.mov(RAX, D.not_before)
    a.cmp(RAX, STARTUP.it.deadline)
    a.jae(shared)
    a.place(later)
    a.stc()
    a.ret()

    a.place(mine)
    a.mov(EAX, shard.attempts)
    a.cmp(EAX, D.attempt)
    with a.if_(NE):
        a.place(ask)
        a.call(discovery_begin)
    a.cmp(D.state, DiscoveryState.RESOLVE)
    with a.if_(E):
        a.call(discovery_dial)
        with a.block() as ready:
            a.leave(NC, ready)
            a.cmp(shard.failure, 0)
            a.leave(NE, ready)
            # Others' handshakes are waited for at nobody's expense.
            attempt_restart(a, shard)
    with a.block() as connecting:
        a.cmp(D.state, DiscoveryState.CONNECT)
        a.leave(NE, connecting)
        a.cmp(shard.tcp.state, TcpState.SYN_SENT)
        a.je(later)
        a.call(tls_ready)
        a.j(C, later)
        a.call(discovery_send)
    a.cmp(D.state, DiscoveryState.HEAD)
    with a.if_(E):
        a.call(discovery_head)
    a.cmp(D.state, DiscoveryState.BODY)
    with a.if_(E):
        a.call(discovery_body)
    a.cmp(D.state, DiscoveryState.FOUND)
    a.jne(later)
    a.call(startup_adjust)

    a.place(found)
    a.test(shard.flags, RECOVERING)
    with a.if_(Z):
        a.call(attempt_budget)
        a.mov(shard.attempt_deadline, RAX)
    a.call(shard_confirm_permit)
    a.j(C, later)
    a.call(ws_build_request)
    a.place(known)
    a.clc()
    a.ret()

    a.place(shared)
    a.call(discovery_share)
    a.jmp(later)
