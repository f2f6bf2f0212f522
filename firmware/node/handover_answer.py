"""Answers of the store: what a record says, whether a write was granted."""

from firmware.abi import CALLER_SAVED
from firmware.fleet.answer import answer_read
from firmware.fleet.tokens import key_number
from firmware.layouts.bus import BUS_IN, BusMessage
from firmware.layouts.events import EventStream
from firmware.layouts.handover import (
    AGAIN_MS,
    HANDOVER,
    NOT_FOUND,
    SAVE_MS,
    FoundSession,
    Handover,
    HandoverProblem,
    HandoverRequest,
    HandoverRow,
    HandoverStep,
)
from firmware.layouts.log import HANDOVER_IGNORED, HANDOVER_LOST, HANDOVER_TAKEN
from firmware.layouts.node import CLOCK, CORE, SLOT_ACTIVE, Clock, CoreState, Slot, core
from firmware.layouts.shard import SSES_VALID, Session, SessionLoad, ShardContext, ShardState
from firmware.layouts.text import TEXT_OUT
from firmware.log import log, log_write
from firmware.node.handover_text import session_parse
from firmware.node.slots import slot_wake
from firmware.shard.snapshot import restored
from toolchain.asm import (
    AL,
    AX,
    BE,
    CF,
    EAX,
    EBX,
    ECX,
    EDX,
    NC,
    NE,
    R8,
    R8D,
    R12,
    R12D,
    R13,
    R13D,
    RAX,
    RBP,
    RBX,
    RCX,
    RDI,
    RSI,
    A,
    Asm,
    B,
    C,
    E,
    In,
    Out,
    Reg32,
    Z,
    routine,
)
from toolchain.layout.data import constant

REVISION = constant(
    "handover_revision", b"\r\nNats-Sequence:", "header of a record: its stream sequence"
)
STATE, FOUND = HANDOVER.it, HANDOVER.it.found


@routine(
    inputs=[In(RBX, ShardContext, "the shard")],
    outputs=[Out(CF, "1 = it does not wait for its session, or not any more")],
    reads=[ShardContext.state, ShardContext.load],
    source="firmware/docs/fleet.md#sessions",
)
def handover_waits(a: Asm, shard: ShardContext) -> None:
    """Tell whether the shard may still take a session."""
    started = a.label("started")
    a.cmp(shard.state, ShardState.ASSIGNED)
    a.j(NE, started)
    a.cmp(shard.load, SessionLoad.SETTLED)
    a.j(E, started)
    a.clc()
    a.ret()
    a.place(started)
    a.stc()
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "the shard"), In(RBP, HandoverRow, "its row")],
    clobbers=[RAX, RCX],
    writes=[HandoverRow.step, HandoverRow.stale, ShardContext.load],
    calls=[handover_waits, slot_wake],
    source="firmware/docs/fleet.md#sessions",
)
def handover_settle(a: Asm, shard: ShardContext, row: HandoverRow) -> None:
    """Keep the record from here on; a shard that waits gets no session and starts."""
    a.mov(row.step, HandoverStep.KEEP)
    a.mov(row.stale, 1)
    a.call(handover_waits)
    with a.if_(C):
        a.ret()
    a.mov(shard.load, SessionLoad.SETTLED)
    a.jmp(slot_wake)


@routine(
    inputs=[In(RBX, ShardContext, "the shard"), In(RBP, HandoverRow, "its row")],
    clobbers=[RAX],
    reads=[CoreState.now, Clock.tsc_cycles_per_ms],
    writes=[HandoverRow.step, HandoverRow.tries, HandoverRow.try_at],
    source="firmware/docs/fleet.md#sessions",
)
def handover_again(a: Asm, shard: ShardContext, row: HandoverRow) -> None:
    """Read the record in a moment: the last request came to nothing."""
    a.mov(row.step, HandoverStep.READ)
    a.inc(row.tries)
    a.imul(RAX, CLOCK.it.tsc_cycles_per_ms, AGAIN_MS)
    a.add(RAX, core.now)
    a.mov(row.try_at, RAX)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "a shard that waits"), In(RBP, HandoverRow, "its row")],
    clobbers=[RAX, RCX, RSI, RDI],
    reads=[FoundSession, TEXT_OUT],
    writes=[
        HandoverRow.step,
        HandoverRow.live,
        Session.session_id,
        Session.session_id_len,
        Session.resume_host,
        Session.resume_host_len,
        Session.resume_port,
    ],
    source="firmware/docs/fleet.md#sessions",
)
def handover_lay_down(a: Asm, shard: ShardContext, row: HandoverRow) -> None:
    """Put what was read where the shard's session will be; it is none before the fence is granted."""
    session = shard.session
    a.mov(RSI, FOUND.id)
    a.mov(ECX, FOUND.id_len)
    a.mov(session.session_id_len, ECX)
    a.lea(RDI, session.session_id.address)
    a.rep_movsb()
    a.mov(RSI, FOUND.host)
    a.mov(ECX, FOUND.host_len)
    a.mov(session.resume_host_len, ECX)
    a.lea(RDI, session.resume_host.address)
    a.rep_movsb()
    a.mov(AX, FOUND.port)
    a.mov(session.resume_port, AX)
    a.mov(row.step, HandoverStep.FENCE)
    a.mov(row.live, 1)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "the shard"), In(RBP, HandoverRow, "its row")],
    clobbers=CALLER_SAVED,
    reads=[
        BusMessage.status,
        BusMessage.header,
        BusMessage.header_len,
        BusMessage.body,
        BusMessage.body_len,
        FoundSession,
        EventStream.fence,
        ShardContext.shard_total,
        HandoverRow.generation,
        HandoverRow.revision,
    ],
    writes=[
        HandoverRow.revision,
        HandoverRow.generation,
        HandoverRow.sequence,
        HandoverRow.live,
        HandoverRow.step,
        ShardContext.saved,
        Handover.ignored,
        Handover.lost,
    ],
    calls=[
        key_number,
        session_parse,
        handover_waits,
        handover_settle,
        handover_again,
        handover_lay_down,
        log_write,
    ],
    saves=[R12],
    source="firmware/docs/fleet.md#sessions",
)
def handover_read(a: Asm, shard: ShardContext, row: HandoverRow) -> None:
    """Take the answer in hand as the shard's record, or as the news that there is none.

    Whatever it says, a replica that is behind may have said it: a shard that waits writes it again, under
    its own generation, and goes by the answer to that.
    """
    again, ignored, settle, lost = map(a.label, ("again", "ignored", "settle", "lost"))
    a.xor(R12D, R12D)
    a.cmp(BUS_IN.it.status, NOT_FOUND)
    with a.if_(E):
        a.mov(row.revision, R12)
        a.jmp(settle)
    a.cmp(BUS_IN.it.status, 0)
    a.j(NE, again)
    a.mov(RSI, BUS_IN.it.header)
    a.mov(R8D, BUS_IN.it.header_len)
    a.add(R8, RSI)
    a.lea(RDI, REVISION.address)
    a.mov(EDX, REVISION.size)
    a.call(key_number)
    a.j(C, again)
    a.test(RAX, RAX)
    a.j(Z, again)
    a.mov(row.revision, RAX)
    a.mov(row.generation, R12D)
    a.mov(RSI, BUS_IN.it.body)
    a.mov(R8D, BUS_IN.it.body_len)
    a.add(R8, RSI)
    a.call(session_parse)
    a.mov(EDX, HandoverProblem.MALFORMED)
    a.j(C, ignored)
    a.mov(EAX, FOUND.generation)
    a.mov(row.generation, EAX)
    a.cmp(EAX, shard.events.fence)
    a.j(A, lost)
    a.mov(EDX, HandoverProblem.ANOTHER_TOTAL)
    a.mov(EAX, FOUND.total)
    a.cmp(EAX, shard.shard_total)
    a.j(NE, ignored)
    a.mov(EAX, FOUND.sequence)
    a.mov(row.sequence, EAX)
    a.cmp(FOUND.id_len, 0)
    a.j(E, settle)
    a.call(handover_waits)
    with a.if_(NC):
        a.jmp(handover_lay_down)
    a.inc(R12D)
    a.jmp(settle)

    a.place(again)
    a.jmp(handover_again)
    a.place(lost)
    a.mov(row.step, HandoverStep.OVER)
    a.mov(shard.saved, 1)  # nobody waits for it any more
    a.inc(STATE.lost)
    a.mov(EDX, shard.events.fence)
    a.mov(ECX, row.generation)
    log(a, HANDOVER_LOST, RBX)
    a.ret()
    a.place(ignored)
    a.inc(STATE.ignored)
    a.mov(RCX, row.revision)
    a.mov(R8D, row.generation)
    log(a, HANDOVER_IGNORED, RBX)
    a.place(settle)
    a.mov(EAX, R12D)
    a.mov(row.live, AL)
    a.call(handover_waits)
    with a.if_(C):
        a.jmp(handover_settle)
    a.mov(row.step, HandoverStep.FENCE)
    a.ret()


@routine(
    inputs=[
        In(RBX, ShardContext, "the shard"),
        In(RBP, HandoverRow, "its row"),
        In(EDX, int, "HandoverRequest: FENCE or SAVE"),
    ],
    clobbers=CALLER_SAVED,
    reads=[
        HandoverRow.live,
        HandoverRow.sequence,
        HandoverRow.generation,
        HandoverRow.revision,
        CoreState.now,
        Clock.tsc_cycles_per_ms,
    ],
    writes=[
        HandoverRow.revision,
        HandoverRow.save_at,
        HandoverRow.tries,
        HandoverRow.live,
        HandoverRow.stale,
        HandoverRow.step,
        Handover.saves,
        Handover.taken,
        Handover.refused,
        Session.valid,
        ShardContext.sequence,
        ShardContext.gap_from,
        ShardContext.flags,
        ShardContext.load,
    ],
    calls=[answer_read, handover_again, handover_settle, handover_waits, slot_wake, log_write],
    saves=[R12],
    source="firmware/docs/fleet.md#sessions",
)
def handover_written(a: Asm, shard: ShardContext, row: HandoverRow, request: Reg32) -> None:
    """Take the answer in hand as that to a write: a grant makes what was read true, and a session the shard's own."""
    a.mov(R12D, request)
    a.call(answer_read)
    with a.if_(C):
        a.inc(STATE.refused)
        a.jmp(handover_again)
    a.mov(row.revision, RAX)
    a.mov(row.tries, 0)
    a.imul(RAX, CLOCK.it.tsc_cycles_per_ms, SAVE_MS)
    a.add(RAX, core.now)
    a.mov(row.save_at, RAX)
    a.cmp(R12D, HandoverRequest.SAVE)
    with a.if_(E):
        a.inc(STATE.saves)
        a.mov(AL, row.live)
        a.xor(AL, 1)
        a.mov(row.stale, AL)
        a.ret()
    # It may not be taken any more, or there is none, which is true only now.
    a.call(handover_waits)
    with a.if_(C):
        a.jmp(handover_settle)
    a.cmp(row.live, 0)
    with a.if_(E):
        a.jmp(handover_settle)
    a.mov(row.step, HandoverStep.KEEP)
    a.mov(row.stale, 0)
    a.mov(shard.session.valid, SSES_VALID)
    a.mov(EAX, row.sequence)
    restored(a, shard)
    a.inc(STATE.taken)
    a.mov(EDX, row.sequence)
    a.mov(ECX, row.generation)
    a.mov(R8, row.revision)
    log(a, HANDOVER_TAKEN, RBX)
    a.jmp(slot_wake)


@routine(
    clobbers=CALLER_SAVED,
    reads=[
        BusMessage.inbox,
        HandoverRow.request,
        HandoverRow.inbox,
        CoreState.now,
        CoreState.slots_used,
        Slot.flags,
        Slot.context,
        ShardContext.hard_stop,
    ],
    writes=[HandoverRow.request, Handover.under_way, Handover.look_at],
    calls=[handover_read, handover_written],
    saves=[RBX, RBP, R12, R13],
    source="firmware/docs/fleet.md#sessions",
)
def handover_answer(a: Asm) -> None:
    """Give the answer in hand to the shard that asked, while its lease holds."""
    slot, shard, row = Slot.at(R12), ShardContext.at(RBX), HandoverRow.at(RBP)
    found, out = a.label("found"), a.label("out")
    a.lea(R12, CORE.it.slots.address)
    a.lea(RBP, STATE.rows.address)
    a.mov(R13D, core.slots_used)
    a.mov(EAX, BUS_IN.it.inbox)
    with a.loop() as rows:
        a.sub(R13D, 1)
        a.j(B, out)
        with a.block() as other:
            a.cmp(row.request, HandoverRequest.NONE)
            a.leave(E, other)
            a.cmp(row.inbox, EAX)
            a.j(E, found)
        a.add(RBP, HandoverRow.SIZE)
        a.add(R12, Slot.SIZE)
        a.jmp(rows.top)
    a.place(found)
    a.movzx(EDX, row.request)
    a.xor(EAX, EAX)
    a.mov(row.request, AL)
    a.mov(STATE.look_at, RAX)
    a.dec(STATE.under_way)
    a.test(slot.flags, SLOT_ACTIVE)
    a.j(Z, out)
    a.mov(EBX, slot.context)
    a.mov(RAX, shard.hard_stop)
    a.cmp(RAX, core.now)
    a.j(BE, out)
    a.cmp(EDX, HandoverRequest.READ)
    with a.if_(E):
        a.call(handover_read)
        a.jmp(out)
    a.call(handover_written)
    a.place(out)
    a.ret()
