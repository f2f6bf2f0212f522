"""From the outbox to NATS, and the stream's answers back.

A publication may take several turns to leave; `BusLink.midway` keeps every other word off the link
until it is whole.
"""

from firmware.abi import CALLER_SAVED
from firmware.bus.link import bus_fail
from firmware.bus.send import bus_close, bus_open
from firmware.bus.turn import bus_next
from firmware.events.acks import entry_at, outbox_answer, outbox_overdue
from firmware.layouts.bus import (
    BUS,
    BUS_IN,
    DATA,
    INBOX_SID,
    BusKind,
    BusLink,
    BusMessage,
    LinkState,
)
from firmware.layouts.events import PUBLISH_CUT, PUBLISH_UNTAKEN
from firmware.layouts.fleet_config import FLEET_CONFIG, FleetConfig
from firmware.layouts.node import CLOCK, Clock, CoreState, core
from firmware.layouts.outbox import (
    ENTRIES,
    OUTBOX,
    OUTBOX_RING,
    UNTAKEN_MS,
    EntryState,
    Outbox,
    OutboxEntry,
)
from firmware.layouts.shard import ShardContext
from firmware.layouts.text import TEXT_OUT
from firmware.limits import OUTBOX_BYTES
from toolchain.asm import (
    AE,
    AL,
    BE,
    EAX,
    ECX,
    EDX,
    ESI,
    NE,
    R12,
    R12D,
    R13,
    RAX,
    RBP,
    RBX,
    RCX,
    RDX,
    RSI,
    A,
    Asm,
    B,
    C,
    E,
    In,
    Out,
    Z,
    routine,
)

PIECE = 2048
"""Bytes that go to the link at once: head and tag of a record do not count then."""
ENTRY_SHIFT = OutboxEntry.SIZE.bit_length() - 1
OUT = OUTBOX.it


def data(a: Asm) -> BusLink:
    """RBP, RBX := the link DATA and its workspace."""
    link = BusLink.at(RBP)
    a.lea(RBP, BUS.it.links.m8(DATA * BusLink.SIZE))
    a.mov(RBX, link.context)
    return link


@routine(
    inputs=[In(RBP, BusLink, "the link DATA")],
    clobbers=[RAX, RCX, RDX],
    reads=[Outbox.next, Outbox.sent, Outbox.sending, OutboxEntry.end],
    writes=[Outbox.sending, BusLink.midway],
    source="firmware/docs/events.md#links",
)
def outbox_pass(a: Asm, link: BusLink) -> None:
    """Find the publication that the next byte belongs to, and whether it has begun."""
    entry = OutboxEntry.at(RDX)
    a.mov(EAX, 1)
    with a.loop() as passed:
        a.mov(ECX, OUT.sending)
        a.cmp(ECX, OUT.next)
        a.leave(E, passed)
        a.and_(ECX, ENTRIES - 1)
        a.shl(ECX, ENTRY_SHIFT)
        a.lea(RDX, OUT.entries.address)
        a.add(RDX, RCX)
        a.mov(RCX, entry.end)
        a.cmp(RCX, OUT.sent)
        a.leave(A, passed)
        a.set(NE, AL)
        a.inc(OUT.sending)
        a.jmp(passed.top)
    a.mov(link.midway, AL)
    a.ret()


@routine(
    inputs=[In(RBP, BusLink, "the link DATA, in the middle of nothing")],
    clobbers=[RAX, RCX, RDX],
    reads=[Outbox.first, Outbox.next, Outbox.freed, OutboxEntry.state],
    writes=[
        Outbox.sent,
        Outbox.sending,
        Outbox.again_at,
        Outbox.acknowledged,
        OutboxEntry.state,
        BusLink.midway,
    ],
    source="firmware/docs/events.md#refusals",
)
def outbox_again(a: Asm, link: BusLink) -> None:
    """Go back to the oldest publication that waits, and await every answer anew."""
    a.mov(RAX, OUT.freed)
    a.mov(OUT.sent, RAX)
    a.mov(EAX, OUT.first)
    a.mov(OUT.sending, EAX)
    a.mov(link.midway, 0)
    a.mov(OUT.again_at, 0)
    # One that is answered already would be freed while it leaves a second time.
    with a.loop() as each:
        a.cmp(EAX, OUT.next)
        a.leave(E, each)
        a.mov(ECX, EAX)
        entry = entry_at(a)
        a.cmp(entry.state, EntryState.DONE)
        with a.if_(E):
            a.dec(OUT.acknowledged)
        a.mov(entry.state, EntryState.WAITING)
        a.inc(EAX)
        a.jmp(each.top)
    a.ret()


@routine(
    inputs=[In(RBP, BusLink, "the link DATA")],
    outputs=[Out(RAX, "position that nothing may pass for now")],
    clobbers=[RCX, RDX],
    reads=[
        BusLink.midway,
        BusLink.wanted,
        CoreState.now,
        Outbox.again_at,
        Outbox.sent,
        Outbox.sending,
        Outbox.end,
        OutboxEntry.end,
    ],
    calls=[outbox_again],
    source="firmware/docs/events.md#refusals; firmware/docs/events.md#links",
)
def outbox_limit(a: Asm, link: BusLink) -> None:
    """Let what has begun end when somebody waits for a gap, or after a refusal.

    Then nothing leaves until he was heard, or until it is time to go back.
    """
    whole = a.label("whole")
    with a.block() as plain:
        a.mov(RCX, OUT.again_at)
        a.cmp(link.wanted, 0)
        a.j(NE, whole)
        a.test(RCX, RCX)
        a.leave(Z, plain)
        a.place(whole)
        a.cmp(link.midway, 0)
        with a.if_(NE):
            a.mov(ECX, OUT.sending)
            a.mov(RAX, entry_at(a).end)
            a.ret()
        a.mov(RAX, OUT.sent)
        a.cmp(link.wanted, 0)
        with a.if_(NE):
            a.ret()
        a.cmp(RCX, core.now)
        with a.if_(A):
            a.ret()
        a.call(outbox_again)
    a.mov(RAX, OUT.end)
    a.ret()


@routine(
    inputs=[In(RBP, BusLink, "the link DATA"), In(RBX, ShardContext, "its workspace")],
    clobbers=CALLER_SAVED,
    reads=[
        BusLink.state,
        BusLink.ups,
        BusLink.midway,
        Outbox.base,
        Outbox.ups,
        Outbox.sent,
        Outbox.first,
        Outbox.freed,
        CoreState.now,
        OUTBOX_RING,
    ],
    writes=[
        Outbox.ups,
        Outbox.since,
        Outbox.sent,
        Outbox.sending,
        Outbox.refusals,
        Outbox.too_large,
        TEXT_OUT,
    ],
    calls=[bus_open, bus_close, bus_fail, outbox_again, outbox_limit, outbox_pass],
    saves=[R12, R13],
    source="firmware/docs/events.md#links",
)
def outbox_send(a: Asm, link: BusLink, shard: ShardContext) -> None:
    """Send what has room; on another connection everything that waits."""
    other, go = a.label("other"), a.label("go")
    a.cmp(link.state, LinkState.UP)
    with a.if_(NE):
        a.ret()
    a.mov(EAX, link.ups)
    a.cmp(EAX, OUT.ups)
    a.j(NE, other)
    a.mov(RAX, OUT.sent)
    a.cmp(RAX, OUT.freed)
    a.j(AE, go)
    # What was given up has left in part: the server waits for the rest of it.
    a.cmp(link.midway, 0)
    with a.if_(NE):
        a.mov(EDX, PUBLISH_CUT.code)
        a.jmp(bus_fail)
    a.mov(RAX, OUT.freed)
    a.mov(OUT.sent, RAX)
    a.mov(EAX, OUT.first)
    a.mov(OUT.sending, EAX)
    a.jmp(go)
    # Another server may take what the last one did not.
    a.place(other)
    a.mov(EAX, link.ups)
    a.mov(OUT.ups, EAX)
    a.mov(RAX, core.now)
    a.mov(OUT.since, RAX)
    a.mov(OUT.refusals, 0)
    a.mov(OUT.too_large, 0)
    a.call(outbox_again)
    a.place(go)
    a.call(outbox_limit)
    a.mov(R13, RAX)
    with a.loop() as pieces:
        a.mov(RCX, R13)
        a.sub(RCX, OUT.sent)
        a.leave(Z, pieces)
        a.mov(R12D, PIECE)
        a.cmp(RCX, R12)
        a.cmov(B, R12, RCX)
        a.mov(ECX, R12D)
        a.call(bus_open)
        a.leave(C, pieces)
        a.mov(RSI, OUT.sent)
        a.and_(ESI, OUTBOX_BYTES - 1)
        a.add(RSI, OUT.base)
        a.mov(ECX, R12D)
        a.rep_movsb()
        a.add(OUT.sent, R12)
        a.call(bus_close)
        a.call(outbox_pass)
        a.jmp(pieces.top)
    a.ret()


@routine(
    inputs=[In(RBP, BusLink, "the link DATA"), In(RBX, ShardContext, "its workspace")],
    outputs=[Out(RAX, "TSC when this server would be left; all ones = nothing is awaited")],
    clobbers=CALLER_SAVED,
    reads=[
        BusLink.state,
        FleetConfig.servers_used,
        Outbox.first,
        Outbox.next,
        Outbox.sending,
        Outbox.refusals,
        Outbox.since,
        OutboxEntry.queued_at,
        CoreState.now,
        Clock.tsc_cycles_per_ms,
    ],
    writes=[Outbox.since],
    calls=[bus_fail],
    source="firmware/docs/events.md#another-server",
)
def outbox_leave(a: Asm, link: BusLink, shard: ShardContext) -> None:
    """Leave a server by which the stream takes nothing, when there is another one.

    One that is cut off from the others answers every PING.
    """
    idle, never = a.label("idle"), a.label("never")
    a.cmp(link.state, LinkState.UP)
    a.j(NE, never)
    a.cmp(FLEET_CONFIG.it.servers_used, 1)
    a.j(BE, never)
    # There is nothing to answer before the oldest has left whole, unless that was refused.
    a.mov(ECX, OUT.first)
    a.cmp(ECX, OUT.next)
    a.j(E, idle)
    a.cmp(OUT.refusals, 0)
    with a.if_(E):
        a.cmp(ECX, OUT.sending)
        a.j(E, idle)
    entry = entry_at(a)
    a.mov(RAX, OUT.since)
    a.cmp(RAX, entry.queued_at)
    a.cmov(B, RAX, entry.queued_at)
    a.imul(RCX, CLOCK.it.tsc_cycles_per_ms, UNTAKEN_MS)
    a.add(RAX, RCX)
    a.cmp(RAX, core.now)
    with a.if_(A):
        a.ret()
    a.mov(EDX, PUBLISH_UNTAKEN.code)
    a.call(bus_fail)
    a.jmp(never)
    a.place(idle)
    a.mov(RAX, core.now)
    a.mov(OUT.since, RAX)
    a.place(never)
    a.mov(RAX, -1)
    a.ret()


@routine(
    outputs=[Out(EAX, "BusKind: MESSAGE = one is in BUS_IN that is no answer of the stream")],
    clobbers=CALLER_SAVED,
    reads=[Outbox.base, BusLink.context, BusMessage.sid],
    calls=[bus_next, outbox_answer],
    saves=[RBX, RBP],
    source="firmware/docs/events.md#links",
)
def publish_next(a: Asm) -> None:
    """Take the stream's answers, up to the first message that is somebody else's."""
    none = a.label("none")
    data(a)
    a.xor(EAX, EAX)
    a.test(RBX, RBX)
    a.j(Z, none)
    with a.loop() as messages:
        a.call(bus_next)
        a.cmp(EAX, BusKind.NONE)
        a.j(E, none)
        a.cmp(BUS_IN.it.sid, INBOX_SID)
        a.leave(NE, messages)
        a.cmp(OUT.base, 0)
        a.again(E, messages)
        a.call(outbox_answer)
        a.jmp(messages.top)
    a.mov(EAX, BusKind.MESSAGE)
    a.place(none)
    a.ret()


@routine(
    outputs=[Out(RAX, "TSC when it wants to be called again; all ones = nothing waits")],
    clobbers=CALLER_SAVED,
    reads=[Outbox.base, Outbox.again_at, CoreState.now, BusLink.context],
    calls=[outbox_overdue, outbox_send, outbox_leave],
    saves=[RBX, RBP, R12],
    source="firmware/docs/events.md#links",
)
def publish_tick(a: Asm) -> None:
    """Give up what is overdue, send what waits, or leave the server."""
    a.cmp(OUT.base, 0)
    with a.if_(E):
        a.mov(RAX, -1)
        a.ret()
    data(a)
    a.call(outbox_overdue)
    a.mov(R12, RAX)
    a.call(outbox_send)
    a.call(outbox_leave)
    a.cmp(RAX, R12)
    a.cmov(B, R12, RAX)
    a.mov(RAX, OUT.again_at)
    with a.block() as late:
        a.cmp(RAX, core.now)
        a.leave(BE, late)
        a.cmp(RAX, R12)
        a.cmov(B, R12, RAX)
    a.mov(RAX, R12)
    a.ret()
