"""The host's side of saved sessions: it offers them at the start and takes them at the stop."""

from firmware.abi import CALLER_SAVED
from firmware.layouts.config import CONFIG, ConfigBlob
from firmware.layouts.control import ControlRequest, ControlResult
from firmware.layouts.log import SESSION_IGNORED, SESSION_SAVE_FAILED, SESSION_SAVED
from firmware.layouts.node import (
    CLOCK,
    CORE,
    LEASE,
    SLOT_ACTIVE,
    Clock,
    CoreState,
    Lease,
    Slot,
    core,
)
from firmware.layouts.plan import Leaving
from firmware.layouts.policy import SessionProvider
from firmware.layouts.sessions import (
    ANY_SHARD,
    HANDED_OVER,
    SAVE_TIMEOUT_MS,
    SESSIONS,
    SaveState,
    SessionProblem,
    Sessions,
    SessionSnapshot,
)
from firmware.layouts.shard import SessionLoad, ShardContext, ShardState
from firmware.layouts.tcp import TcpContext, TcpState
from firmware.log import log, log_write
from firmware.node.lease import slots_wake
from firmware.node.slots import slot_find, slot_wake
from firmware.node.verbs import HANDLER_INPUTS, HANDLER_OUTPUTS
from firmware.shard.resume import shard_is_resumable
from firmware.shard.snapshot import snapshot_problem, snapshot_restore, snapshot_take
from firmware.shard.stop import hold_at_rest
from toolchain.asm import (
    BE,
    DL,
    EAX,
    EBX,
    ECX,
    EDX,
    NC,
    NE,
    NZ,
    R12,
    R13,
    R13D,
    R14,
    R14D,
    RAX,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    Asm,
    B,
    E,
    In,
    Label,
    Out,
    Reg32,
    Reg64,
    Z,
    routine,
)

PAYLOAD = ControlRequest.SIZE


def _answer(a: Asm, *results: tuple[Label, ControlResult]) -> None:
    """Return a result without value and payload for each label that was jumped to."""
    for label, result in results:
        a.place(label)
        a.mov(EAX, result)
        a.xor(EDX, EDX)
        a.xor(ECX, ECX)
        a.ret()


@routine(
    clobbers=CALLER_SAVED,
    reads=[CoreState.slots_used, Slot.flags, Slot.context, ShardContext.state],
    writes=[ShardContext.load],
    calls=[slots_wake],
    source="firmware/docs/lifecycle.md#session-load",
)
def sessions_none(a: Asm) -> None:
    """Let every shard that waits for a saved session start without one."""
    slot, shard = Slot.at(RCX), ShardContext.at(RAX)
    a.lea(RCX, CORE.it.slots.address)
    a.mov(EDX, core.slots_used)
    with a.loop() as rows:
        a.sub(EDX, 1)
        a.leave(B, rows)
        a.test(slot.flags, SLOT_ACTIVE)
        with a.if_(NZ):
            a.mov(EAX, slot.context)
            a.cmp(shard.state, ShardState.ASSIGNED)
            with a.if_(E):
                a.mov(shard.load, SessionLoad.SETTLED)
        a.add(RCX, Slot.SIZE)
        a.jmp(rows.top)
    a.jmp(slots_wake)


@routine(
    inputs=HANDLER_INPUTS,
    outputs=HANDLER_OUTPUTS,
    clobbers=CALLER_SAVED,
    reads=[
        ControlRequest.slot,
        ControlRequest.argument,
        SessionSnapshot.sequence,
        ConfigBlob.session_provider,
        ShardContext.state,
        ShardContext.load,
    ],
    writes=[ShardContext.load],
    calls=[
        sessions_none,
        slot_find,
        slot_wake,
        snapshot_problem,
        snapshot_restore,
        log_write,
    ],
    saves=[RBX, R12, R13],
    source="firmware/docs/lifecycle.md#session-load",
)
def control_session_offer(
    a: Asm, request: ControlRequest, length: Reg32, answer: Reg64, room: Reg32
) -> None:
    """Give a saved session of some age to a shard that waits; the value is what is wrong with it."""
    asked, shard = ControlRequest.at(R12), ShardContext.at(RBX)
    snapshot = SessionSnapshot.at(R12, PAYLOAD)
    nobody, unwanted, settled, wrong = map(a.label, ("nobody", "unwanted", "settled", "wrong"))
    a.mov(R12, RSI)
    a.mov(R13D, length)
    a.cmp(CONFIG.it.session_provider, SessionProvider.HOST)
    a.j(NE, unwanted)
    a.mov(ECX, asked.slot)
    a.test(R13D, R13D)
    with a.if_(Z):
        a.cmp(ECX, ANY_SHARD)
        with a.if_(E):
            a.call(sessions_none)
            a.xor(EDX, EDX)
            a.xor(ECX, ECX)
            a.xor(EAX, EAX)  # ControlResult.DONE
            a.ret()
    a.call(slot_find)
    a.test(RDX, RDX)
    a.j(Z, nobody)
    a.mov(RBX, RDX)
    a.cmp(shard.state, ShardState.ASSIGNED)
    a.j(NE, unwanted)
    a.cmp(shard.load, SessionLoad.SETTLED)
    a.j(E, unwanted)
    a.test(R13D, R13D)
    a.j(Z, settled)  # nothing was saved for this shard

    a.mov(EAX, SessionProblem.MALFORMED)
    a.xor(ECX, ECX)
    a.cmp(R13D, SessionSnapshot.SIZE)
    a.j(NE, wrong)
    a.lea(RSI, snapshot.magic)
    a.mov(RDX, asked.argument)
    a.call(snapshot_problem)
    a.mov(ECX, snapshot.sequence)
    a.test(EAX, EAX)
    a.j(NZ, wrong)
    a.lea(RSI, snapshot.magic)
    a.mov(RDX, asked.argument)
    a.call(snapshot_restore)
    a.xor(R13D, R13D)
    a.jmp(settled)
    a.place(wrong)
    a.mov(R13D, EAX)
    a.mov(EDX, EAX)
    log(a, SESSION_IGNORED, RBX)
    a.place(settled)
    a.mov(shard.load, SessionLoad.SETTLED)
    a.call(slot_wake)
    a.mov(EDX, R13D)
    a.xor(ECX, ECX)
    a.xor(EAX, EAX)  # ControlResult.DONE
    a.ret()
    _answer(a, (nobody, ControlResult.ARGUMENT), (unwanted, ControlResult.SESSION_UNWANTED))


@routine(
    inputs=[In(RBX, ShardContext, "any shard")],
    outputs=[Out(EAX, "SaveState; LIVE also for a shard that neither leaves nor stops")],
    clobbers=CALLER_SAVED,
    reads=[
        ShardContext.state,
        ShardContext.hold,
        ShardContext.leaving,
        ShardContext.close_deadline,
        TcpContext.state,
        Lease.expired,
    ],
    calls=[shard_is_resumable],
    source="firmware/docs/lifecycle.md#session-save",
)
def session_due(a: Asm, shard: ShardContext) -> None:
    """Tell whether a session can be saved: nobody uses it any more, the lease holds, the total stays."""
    nothing, live = a.label("nothing"), a.label("live")
    a.cmp(LEASE.it.expired, 0)
    a.j(NE, nothing)
    a.cmp(shard.state, ShardState.FATAL)
    a.j(E, nothing)
    a.cmp(shard.leaving, Leaving.ENDING)
    a.j(E, nothing)
    a.cmp(shard.state, ShardState.ASSIGNED)
    a.j(NE, live)
    hold_at_rest(a, shard)
    a.cmp(shard.hold, DL)
    a.j(NE, live)
    a.cmp(shard.close_deadline, 0)
    a.j(NE, live)
    a.cmp(shard.tcp.state, TcpState.CLOSED)
    a.j(NE, live)
    a.call(shard_is_resumable)
    a.j(NC, nothing)
    a.mov(EAX, SaveState.DUE)
    a.ret()
    a.place(nothing)
    a.xor(EAX, EAX)  # SaveState.NOTHING
    a.ret()
    a.place(live)
    a.mov(EAX, SaveState.LIVE)
    a.ret()


@routine(
    inputs=HANDLER_INPUTS,
    outputs=HANDLER_OUTPUTS,
    clobbers=CALLER_SAVED,
    reads=[
        ControlRequest.slot,
        ConfigBlob.session_provider,
        ShardContext.sequence,
        ShardContext.saved,
        ShardContext.leaving,
        ShardContext.disconnected_at,
        CoreState.now,
        Clock.tsc_cycles_per_ms,
    ],
    writes=[ShardContext.saved, SessionSnapshot.plan_generation],
    calls=[slot_find, session_due, snapshot_take, log_write],
    saves=[RBX, R12, R13],
    source="firmware/docs/lifecycle.md#session-save",
)
def control_session_take(
    a: Asm, request: ControlRequest, length: Reg32, answer: Reg64, room: Reg32
) -> None:
    """Hand a released session over; the value is its age. Asked again, it is the same."""
    shard = ShardContext.at(RBX)
    nobody, live, nothing = map(a.label, ("nobody", "live", "nothing"))
    a.mov(R12, answer)
    a.mov(R13D, room)
    a.cmp(CONFIG.it.session_provider, SessionProvider.HOST)
    a.j(NE, live)
    a.mov(ECX, request.slot)
    a.call(slot_find)
    a.test(RDX, RDX)
    a.j(Z, nobody)
    a.cmp(R13D, SessionSnapshot.SIZE)
    a.j(B, nobody)
    a.mov(RBX, RDX)
    a.call(session_due)
    a.cmp(EAX, SaveState.DUE)
    a.j(B, nothing)
    a.j(NE, live)

    a.mov(EDX, shard.sequence)
    a.mov(RDI, R12)
    a.call(snapshot_take)
    # Who gets the shard counts plans for itself.
    a.cmp(shard.leaving, Leaving.NO)
    with a.if_(NE):
        a.mov(SessionSnapshot.at(R12).plan_generation, HANDED_OVER)
    a.cmp(shard.saved, 0)
    with a.if_(E):
        a.mov(shard.saved, 1)
        log(a, SESSION_SAVED, RBX)
    # The age counts from the end of the connection.
    a.mov(RAX, shard.disconnected_at)
    a.test(RAX, RAX)
    with a.if_(NZ):
        a.neg(RAX)
        a.add(RAX, core.now)
        a.xor(EDX, EDX)
        a.div(CLOCK.it.tsc_cycles_per_ms)
    a.mov(RDX, RAX)
    a.mov(ECX, SessionSnapshot.SIZE)
    a.xor(EAX, EAX)  # ControlResult.DONE
    a.ret()
    _answer(
        a,
        (nobody, ControlResult.ARGUMENT),
        (live, ControlResult.SESSION_LIVE),
        (nothing, ControlResult.DONE),
    )


@routine(
    outputs=[Out(RAX, "TSC until which the stop waits for saves; 0 = not any more")],
    clobbers=CALLER_SAVED,
    reads=[
        ConfigBlob.session_provider,
        Sessions.save_deadline,
        CoreState.now,
        CoreState.slots_used,
        Slot.flags,
        Slot.context,
        ShardContext.saved,
        Clock.tsc_cycles_per_ms,
    ],
    writes=[Sessions.save_deadline, ShardContext.saved],
    calls=[session_due, log_write],
    saves=[RBX, R12, R13, R14],
    source="firmware/docs/lifecycle.md#session-save",
)
def stop_save(a: Asm) -> None:
    """Count the sessions that nobody has taken; when their time is over, give each up and say so."""
    slot, shard, deadline = Slot.at(R12), ShardContext.at(RBX), SESSIONS.it.save_deadline
    over, given_up = a.label("over"), a.label("given_up")
    a.cmp(CONFIG.it.session_provider, SessionProvider.NONE)
    a.j(E, over)
    a.cmp(deadline, 0)
    with a.if_(E):
        a.imul(RAX, CLOCK.it.tsc_cycles_per_ms, SAVE_TIMEOUT_MS)
        a.add(RAX, core.now)
        a.mov(deadline, RAX)
    a.lea(R12, CORE.it.slots.address)
    a.mov(R13D, core.slots_used)
    a.xor(R14D, R14D)
    with a.loop() as rows:
        a.sub(R13D, 1)
        a.leave(B, rows)
        with a.block() as next_:
            a.test(slot.flags, SLOT_ACTIVE)
            a.leave(Z, next_)
            a.mov(EBX, slot.context)
            a.cmp(shard.saved, 0)
            a.leave(NE, next_)
            a.call(session_due)
            a.cmp(EAX, SaveState.DUE)
            a.leave(NE, next_)
            a.mov(RAX, deadline)
            a.cmp(RAX, core.now)
            with a.if_(BE):
                a.mov(shard.saved, 1)
                log(a, SESSION_SAVE_FAILED, RBX)
                a.jmp(given_up)
            a.inc(R14D)
            a.place(given_up)
        a.add(R12, Slot.SIZE)
        a.jmp(rows.top)
    a.test(R14D, R14D)
    a.j(Z, over)
    a.mov(RAX, deadline)
    a.ret()
    a.place(over)
    a.xor(EAX, EAX)
    a.ret()
