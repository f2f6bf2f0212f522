"""Sessions of a fleet: taken from the store when a shard begins, written there while it runs."""

from firmware.abi import CALLER_SAVED
from firmware.fleet.cas import cas_send
from firmware.layouts.clock import NEVER
from firmware.layouts.config import CONFIG, ConfigBlob
from firmware.layouts.fleet_config import FLEET_CONFIG, FLEET_MAGIC, FleetConfig
from firmware.layouts.gateway import GatewayContext, GatewayState
from firmware.layouts.handover import (
    ANSWER_MS,
    HANDOVER,
    LOOK_MS,
    UNDER_WAY_MAX,
    Handover,
    HandoverRequest,
    HandoverRow,
    HandoverStep,
)
from firmware.layouts.log import SESSION_SAVED
from firmware.layouts.node import CLOCK, CORE, SLOT_ACTIVE, Clock, CoreState, Slot, core
from firmware.layouts.policy import SessionProvider
from firmware.layouts.sessions import SaveState
from firmware.layouts.shard import ShardContext
from firmware.log import log, log_write
from firmware.node.handover_answer import handover_waits
from firmware.node.handover_text import session_ask, session_key, session_text
from firmware.node.sessions import session_due
from firmware.shard.resume import shard_is_resumable
from toolchain.asm import (
    AE,
    AL,
    BE,
    CF,
    CL,
    EAX,
    EBX,
    ECX,
    EDX,
    NC,
    NE,
    R12,
    R12D,
    R13,
    R13D,
    RAX,
    RBP,
    RBX,
    RCX,
    RDI,
    A,
    Asm,
    B,
    C,
    E,
    In,
    Label,
    Out,
    Z,
    routine,
)

ROW_SHIFT = HandoverRow.SIZE.bit_length() - 1
STATE = HANDOVER.it


@routine(
    inputs=[In(RBX, ShardContext, "a shard that has just been made")],
    clobbers=[RAX, RCX, RDI],
    reads=[ShardContext.slot, HandoverRow.request],
    writes=[HandoverRow, Handover.under_way, Handover.look_at],
    source="firmware/docs/fleet.md#sessions",
)
def handover_begin(a: Asm, shard: ShardContext) -> None:
    """Know nothing of its record; an answer for whose place it took means nothing."""
    row = HandoverRow.at(RDI)
    a.movzx(EAX, shard.slot)
    a.shl(EAX, ROW_SHIFT)
    a.lea(RDI, STATE.rows.address)
    a.add(RDI, RAX)
    a.cmp(row.request, HandoverRequest.NONE)
    with a.if_(NE):
        a.dec(STATE.under_way)
    a.xor(EAX, EAX)
    a.mov(ECX, HandoverRow.SIZE // 8)
    a.rep_stosq()
    a.mov(STATE.look_at, RAX)
    a.ret()


@routine(
    inputs=[
        In(RBX, ShardContext, "a shard that keeps its record"),
        In(RBP, HandoverRow, "its row"),
    ],
    outputs=[
        Out(CF, "1 = the record is as it should be, or it is not time yet"),
        Out(EDX, "the sequence to write"),
        Out(ECX, "1 = with the session, 0 = there is none any more"),
    ],
    clobbers=CALLER_SAVED,
    reads=[
        HandoverRow.live,
        HandoverRow.stale,
        HandoverRow.connected,
        HandoverRow.sequence,
        HandoverRow.save_at,
        ShardContext.sequence,
        ShardContext.connected_at,
        ShardContext.saved,
        GatewayContext.state,
        GatewayContext.seq_acked,
        CoreState.now,
    ],
    writes=[ShardContext.saved],
    calls=[shard_is_resumable, session_due, log_write],
    saves=[R12],
    source="firmware/docs/fleet.md#sessions",
)
def handover_want(a: Asm, shard: ShardContext, row: HandoverRow) -> None:
    """Tell what has to be written of the shard's session; one that left unchanged is saved."""
    write, same, nothing = a.label("write"), a.label("same"), a.label("nothing")
    a.call(shard_is_resumable)
    with a.if_(NC):
        a.xor(EDX, EDX)
        a.xor(ECX, ECX)
        a.cmp(row.live, 1)  # CF = 1 when the record holds none either
        a.ret()
    # While connected a Resume would name what was acknowledged.
    a.mov(R12D, shard.sequence)
    with a.block() as apart:
        a.mov(EAX, shard.gateway.state)
        a.sub(EAX, GatewayState.WAIT_RESUMED)
        a.cmp(EAX, GatewayState.READY - GatewayState.WAIT_RESUMED)
        a.leave(A, apart)
        a.mov(R12D, shard.gateway.seq_acked)
    a.call(session_due)
    a.cmp(row.stale, 0)
    a.j(NE, write)
    a.mov(RCX, shard.connected_at)
    with a.block() as known:
        a.test(RCX, RCX)
        a.leave(Z, known)
        a.cmp(RCX, row.connected)
        a.j(NE, write)
    a.cmp(R12D, row.sequence)
    a.j(E, same)
    a.cmp(EAX, SaveState.DUE)
    a.j(E, write)
    a.mov(RAX, row.save_at)
    a.cmp(RAX, core.now)
    a.j(A, nothing)
    a.place(write)
    a.mov(EDX, R12D)
    a.mov(ECX, 1)
    a.clc()
    a.ret()
    a.place(same)
    a.cmp(EAX, SaveState.DUE)
    with a.if_(E):
        a.cmp(shard.saved, 0)
        with a.if_(E):
            a.mov(shard.saved, 1)
            log(a, SESSION_SAVED, RBX)
    a.place(nothing)
    a.xor(EDX, EDX)
    a.xor(ECX, ECX)
    a.stc()
    a.ret()


def _overdue(a: Asm, row: HandoverRow, waiting: Label) -> None:
    """Give a request up that nobody answered in time; go to `waiting` while it may be answered."""
    a.imul(RAX, CLOCK.it.tsc_cycles_per_ms, ANSWER_MS)
    a.add(RAX, row.sent_at)
    a.cmp(RAX, core.now)
    a.j(A, waiting)
    a.mov(row.request, HandoverRequest.NONE)
    a.mov(row.step, HandoverStep.READ)
    a.inc(row.tries)
    a.dec(STATE.under_way)
    a.inc(STATE.late)


@routine(
    inputs=[
        In(RBX, ShardContext, "a shard whose lease holds"),
        In(RBP, HandoverRow, "its row"),
    ],
    clobbers=CALLER_SAVED,
    reads=[
        HandoverRow.request,
        HandoverRow.step,
        HandoverRow.sent_at,
        HandoverRow.try_at,
        HandoverRow.revision,
        HandoverRow.sequence,
        HandoverRow.live,
        ShardContext.connected_at,
        Handover.under_way,
        CoreState.now,
        Clock.tsc_cycles_per_ms,
    ],
    writes=[
        HandoverRow.request,
        HandoverRow.step,
        HandoverRow.tries,
        HandoverRow.inbox,
        HandoverRow.sent_at,
        HandoverRow.sequence,
        HandoverRow.connected,
        HandoverRow.live,
        HandoverRow.stale,
        Handover.under_way,
        Handover.late,
    ],
    calls=[handover_waits, handover_want, session_ask, session_key, session_text, cas_send],
    saves=[R12, R13],
    source="firmware/docs/fleet.md#sessions",
)
def handover_shard(a: Asm, shard: ShardContext, row: HandoverRow) -> None:
    """Send what is due for one shard, if anything is."""
    out, fence, keep, sent = map(a.label, ("out", "fence", "keep", "sent"))
    a.cmp(row.request, HandoverRequest.NONE)
    with a.if_(NE):
        _overdue(a, row, out)
    a.cmp(STATE.under_way, UNDER_WAY_MAX)
    a.j(AE, out)
    a.mov(RAX, row.try_at)
    a.cmp(RAX, core.now)
    a.j(A, out)
    a.cmp(row.step, HandoverStep.FENCE)
    a.j(E, fence)
    a.cmp(row.step, HandoverStep.KEEP)
    a.j(E, keep)
    a.j(A, out)
    a.call(session_ask)
    a.j(C, out)
    a.mov(R12D, HandoverRequest.READ)
    a.jmp(sent)

    a.place(fence)
    a.call(handover_waits)
    with a.if_(NC):
        a.mov(EDX, row.sequence)
        a.movzx(ECX, row.live)
        a.call(session_text)
        a.call(session_key)
        a.mov(RAX, row.revision)
        a.call(cas_send)
        a.j(C, out)
        a.mov(R12D, HandoverRequest.FENCE)
        a.jmp(sent)
    # It started without: what the record holds is nobody's any more.
    a.mov(row.step, HandoverStep.KEEP)
    a.mov(row.stale, 1)

    a.place(keep)
    a.call(handover_want)
    a.j(C, out)
    a.mov(R12D, EDX)
    a.mov(R13D, ECX)
    a.call(session_text)
    a.call(session_key)
    a.mov(RAX, row.revision)
    a.call(cas_send)
    a.j(C, out)
    a.mov(row.sequence, R12D)
    a.mov(ECX, R13D)
    a.mov(row.live, CL)
    a.mov(RCX, shard.connected_at)
    a.mov(row.connected, RCX)
    a.mov(R12D, HandoverRequest.SAVE)

    a.place(sent)
    a.mov(row.inbox, EAX)
    a.mov(EAX, R12D)
    a.mov(row.request, AL)
    a.mov(RAX, core.now)
    a.mov(row.sent_at, RAX)
    a.inc(STATE.under_way)
    a.place(out)
    a.ret()


@routine(
    outputs=[Out(RAX, "TSC by which it wants to run again; all ones = never")],
    clobbers=CALLER_SAVED,
    reads=[
        FleetConfig.magic,
        ConfigBlob.session_provider,
        CoreState.now,
        CoreState.slots_used,
        Slot.flags,
        Slot.context,
        ShardContext.hard_stop,
        HandoverRow.request,
        Handover.look_at,
        Clock.tsc_cycles_per_ms,
    ],
    writes=[Handover.look_at, Handover.under_way, HandoverRow.request],
    calls=[handover_shard],
    saves=[RBX, RBP, R12, R13],
    source="firmware/docs/fleet.md#sessions",
)
def handover_tick(a: Asm) -> None:
    """Look at every shard's session twenty times a second, and at once after an answer."""
    slot, shard, row = Slot.at(R12), ShardContext.at(RBX), HandoverRow.at(RBP)
    never, later = a.label("never"), a.label("later")
    a.cmp(FLEET_CONFIG.it.magic, FLEET_MAGIC)
    a.j(NE, never)
    a.cmp(CONFIG.it.session_provider, SessionProvider.BUS)
    a.j(NE, never)
    a.mov(RAX, STATE.look_at)
    a.cmp(RAX, core.now)
    a.j(A, later)
    a.lea(R12, CORE.it.slots.address)
    a.lea(RBP, STATE.rows.address)
    a.mov(R13D, core.slots_used)
    with a.loop() as rows:
        a.sub(R13D, 1)
        a.leave(B, rows)
        with a.block() as done:
            with a.block() as over:
                a.test(slot.flags, SLOT_ACTIVE)
                a.leave(Z, over)
                a.mov(EBX, slot.context)
                a.mov(RAX, shard.hard_stop)
                a.cmp(RAX, core.now)
                a.leave(BE, over)
                a.call(handover_shard)
                a.jmp(done)
            # Whose lease is over has nothing to say, and nothing to hear.
            a.cmp(row.request, HandoverRequest.NONE)
            a.leave(E, done)
            a.mov(row.request, HandoverRequest.NONE)
            a.dec(STATE.under_way)
        a.add(RBP, HandoverRow.SIZE)
        a.add(R12, Slot.SIZE)
        a.jmp(rows.top)
    a.imul(RAX, CLOCK.it.tsc_cycles_per_ms, LOOK_MS)
    a.add(RAX, core.now)
    a.mov(STATE.look_at, RAX)
    a.place(later)
    a.ret()
    a.place(never)
    a.mov(RAX, NEVER)
    a.ret()
