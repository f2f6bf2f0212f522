"""The node's own numbers on the bus: one line, every ten seconds, said over CONTROL and heard over DATA."""

from firmware.abi import CALLER_SAVED
from firmware.bus.link import bus_fail
from firmware.bus.names import put_bot, put_node
from firmware.bus.send import bus_close, bus_open
from firmware.layouts.bus import BUS, BUS_IN, CONTROL, DATA, Bus, BusLink, BusMessage, LinkState
from firmware.layouts.commands import COMMANDS, Commands
from firmware.layouts.events import DATA_UNHEARD
from firmware.layouts.fleet import FLEET, Fleet
from firmware.layouts.fleet_config import FLEET_CONFIG, FLEET_MAGIC, FleetConfig
from firmware.layouts.fleet_diag import (
    DIAG_EVERY_MS,
    DIAG_FIELDS,
    DIAG_FORMAT,
    DIAG_LINE_MAX,
    DIAG_MAX,
    DIAG_SID,
    FLEET_DIAG,
    UNHEARD_MAX,
    FleetDiag,
)
from firmware.layouts.handover import HANDOVER, Handover
from firmware.layouts.log import LOG_ON_BUS, LogOnBus
from firmware.layouts.node import CLOCK, CORE, SLOT_ACTIVE, Clock, CoreState, Slot, core
from firmware.layouts.outbox import OUTBOX, Outbox
from firmware.layouts.shard import ShardContext, ShardState
from firmware.layouts.text import TEXT_OUT
from firmware.text import put, put_byte, put_crlf, put_decimal
from toolchain.asm import (
    BE,
    CF,
    EAX,
    ECX,
    EDI,
    EDX,
    NC,
    NE,
    R8,
    R8D,
    R12,
    R12D,
    R13,
    R13D,
    R14,
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
    Z,
    mem64,
    routine,
)
from toolchain.layout.data import constant

PUB = constant("diag_pub", b"PUB shardfw.", "the node's numbers")
SUBJECT = constant("diag_subject", b".diag.", "what tells them from events")
SUB = constant("diag_sub", b"SUB shardfw.", "listens to them")
SID = constant("diag_sid", b" %d\r\n" % DIAG_SID, "the subscription's number")
TEXT_AT = 160
"""Where the line is written before its length is known."""


@routine(
    outputs=[Out(EAX, "rows in use"), Out(EDX, "of them READY")],
    clobbers=[RCX, RSI, R8],
    reads=[CoreState.slots_used, Slot.flags, Slot.context, ShardContext.state],
    source="firmware/docs/fleet.md#diagnostics",
)
def shards_count(a: Asm) -> None:
    """Count shards, and those that are READY."""
    row = Slot.at(RSI)
    a.xor(EAX, EAX)
    a.xor(EDX, EDX)
    a.lea(RSI, CORE.it.slots.address)
    a.mov(R8D, core.slots_used)
    with a.loop() as rows:
        a.sub(R8D, 1)
        a.leave(B, rows)
        with a.block() as free:
            a.test(row.flags, SLOT_ACTIVE)
            a.leave(Z, free)
            a.inc(EAX)
            a.mov(ECX, row.context)
            a.cmp(ShardContext.at(RCX).state, ShardState.READY)
            a.leave(NE, free)
            a.inc(EDX)
        a.add(RSI, Slot.SIZE)
        a.jmp(rows.top)
    a.ret()


def _load(a: Asm, field: str) -> None:
    """RAX := one number. RDX and RCX may change; R12D rows, R13D READY."""
    box, commands = OUTBOX.it, COMMANDS.it
    numbers = {
        "published": box.published,
        "acknowledged": box.acknowledged,
        "duplicates": box.duplicates,
        "refused": box.refused,
        "overdue": box.overdue,
        "dropped": box.dropped,
        "oversize": box.oversize,
        "commands": commands.taken,
        "refused_commands": commands.refused,
        "log_lines": LOG_ON_BUS.it.lines,
    }
    sessions = {
        "sessions_taken": HANDOVER.it.taken,
        "sessions_saved": HANDOVER.it.saves,
        "sessions_refused": HANDOVER.it.refused,
        "sessions_late": HANDOVER.it.late,
        "sessions_lost": HANDOVER.it.lost,
        "sessions_ignored": HANDOVER.it.ignored,
    }
    if field in numbers:
        a.mov(RAX, numbers[field])
    elif field in sessions:
        a.mov(EAX, sessions[field])
    elif field == "uptime_ms":
        a.mov(RAX, core.now)
        a.sub(RAX, CLOCK.it.boot_tsc)
        a.xor(EDX, EDX)
        a.div(CLOCK.it.tsc_cycles_per_ms)
    elif field == "waiting":
        a.mov(EAX, box.next)
        a.sub(EAX, box.first)
    elif field == "slots":
        a.mov(EAX, FLEET.it.holding)
    elif field in ("control_ups", "data_ups"):
        index = CONTROL if field == "control_ups" else DATA
        a.mov(EAX, BusLink.at(RBP, (index - CONTROL) * BusLink.SIZE).ups)
    else:
        a.mov(EAX, {"rows": R12D, "ready": R13D}[field])


@routine(
    inputs=[In(RBP, BusLink, "the link DATA, UP")],
    outputs=[Out(CF, "1 = another server is to be tried")],
    clobbers=[RAX],
    reads=[
        BusLink.state,
        BusLink.ups,
        FleetConfig.servers_used,
        FleetDiag.ups,
        FleetDiag.unheard,
    ],
    writes=[FleetDiag.ups, FleetDiag.unheard],
    source="firmware/docs/fleet.md#diagnostics",
)
def diag_unheard(a: Asm, link: BusLink) -> None:
    """Tell whether DATA hears nothing of what CONTROL says, which leaves a server that is cut off."""
    other = BusLink.at(RBP, (CONTROL - DATA) * BusLink.SIZE)
    with a.block() as same:
        a.mov(EAX, link.ups)
        a.add(EAX, other.ups)
        with a.block() as anew:
            a.cmp(EAX, FLEET_DIAG.it.ups)
            a.leave(NE, anew)
            a.cmp(other.state, LinkState.UP)
            a.leave(E, same)
        a.mov(FLEET_DIAG.it.ups, EAX)
        a.mov(FLEET_DIAG.it.unheard, 0)
        a.clc()
        a.ret()
    with a.block() as alone:
        a.cmp(FLEET_CONFIG.it.servers_used, 1)
        a.leave(BE, alone)
        a.cmp(FLEET_DIAG.it.unheard, UNHEARD_MAX)
        a.cmc()
        a.ret()
    a.clc()
    a.ret()


def _put_subject(a: Asm) -> None:
    """Write the subject behind its first token."""
    put_bot(a)
    put(a, SUBJECT)
    put_node(a)


@routine(
    inputs=[
        In(RBP, BusLink, "the link DATA, UP, with nothing half said"),
        In(RBX, ShardContext, "its workspace"),
    ],
    outputs=[Out(CF, "1 = no room now")],
    clobbers=CALLER_SAVED,
    reads=[FleetConfig.bot, FleetConfig.bot_len, Bus.node, Bus.node_len],
    writes=[TEXT_OUT],
    calls=[bus_open, bus_close],
    source="firmware/docs/fleet.md#diagnostics",
)
def diag_listen(a: Asm, link: BusLink, workspace: ShardContext) -> None:
    """Subscribe the node's own numbers, which come over another server when CONTROL has another one."""
    a.mov(ECX, DIAG_LINE_MAX)
    a.call(bus_open)
    with a.if_(C):
        a.ret()
    put(a, SUB)
    _put_subject(a)
    put(a, SID)
    a.call(bus_close)
    a.clc()
    a.ret()


@routine(
    reads=[BusMessage.sid],
    writes=[FleetDiag.heard, FleetDiag.unheard],
    source="firmware/docs/fleet.md#diagnostics",
)
def diag_heard(a: Asm) -> None:
    """Note that the message in BUS_IN, which came over DATA, is of the node's own numbers, if it is."""
    a.cmp(BUS_IN.it.sid, DIAG_SID)
    with a.if_(E):
        a.mov(FLEET_DIAG.it.heard, 1)
        a.mov(FLEET_DIAG.it.unheard, 0)
    a.ret()


@routine(
    outputs=[Out(RAX, "TSC of the next time; all ones = never")],
    clobbers=CALLER_SAVED,
    reads=[
        FleetConfig.magic,
        FleetConfig.bot,
        FleetConfig.bot_len,
        Bus.enrolling,
        Bus.node,
        Bus.node_len,
        Bus.boot_text,
        BusLink.context,
        BusLink.state,
        BusLink.ups,
        Clock.tsc_cycles_per_ms,
        Clock.boot_tsc,
        CoreState.now,
        Fleet.holding,
        Outbox.published,
        Outbox.acknowledged,
        Outbox.duplicates,
        Outbox.refused,
        Outbox.overdue,
        Outbox.dropped,
        Outbox.oversize,
        Outbox.first,
        Outbox.next,
        Commands.taken,
        Commands.refused,
        LogOnBus.lines,
        Handover.taken,
        Handover.saves,
        Handover.refused,
        Handover.late,
        Handover.lost,
        Handover.ignored,
        FleetDiag.next_at,
        FleetDiag.heard,
    ],
    writes=[FleetDiag.next_at, FleetDiag.said, FleetDiag.unheard, TEXT_OUT],
    calls=[bus_open, bus_close, bus_fail, diag_unheard, put_decimal, shards_count],
    saves=[RBX, RBP, R12, R13, R14],
    source="firmware/docs/fleet.md#diagnostics",
)
def diag_publish(a: Asm) -> None:
    """Say the numbers when it is time and the link has room. DATA leaves a server where they are not heard."""
    link, later, never = BusLink.at(RBP), a.label("later"), a.label("never")
    a.cmp(FLEET_CONFIG.it.magic, FLEET_MAGIC)
    a.jne(never)
    a.cmp(CLOCK.it.tsc_cycles_per_ms, 0)
    a.je(never)
    a.mov(RAX, FLEET_DIAG.it.next_at)
    a.cmp(RAX, core.now)
    with a.if_(A):
        a.ret()
    # A login that may enrol and nothing else may not say this.
    a.cmp(BUS.it.enrolling, 0)
    a.jne(later)
    a.lea(RBP, BUS.it.links.m8(DATA * BusLink.SIZE))
    with a.block() as heard:
        a.cmp(link.state, LinkState.UP)
        a.leave(NE, heard)
        a.call(diag_unheard)
        a.leave(NC, heard)
        a.mov(RBX, link.context)
        a.mov(EDX, DATA_UNHEARD.code)
        a.call(bus_fail)
    a.lea(RBP, BUS.it.links.m8(CONTROL * BusLink.SIZE))
    a.cmp(link.state, LinkState.UP)
    a.jne(later)
    a.mov(RBX, link.context)
    a.mov(ECX, DIAG_MAX)
    a.call(bus_open)
    a.j(C, later)
    a.mov(R14, RDI)
    a.call(shards_count)
    a.mov(R12D, EAX)
    a.mov(R13D, EDX)

    a.lea(RDI, mem64(R14, TEXT_AT, ref=TEXT_OUT))
    a.mov(EAX, DIAG_FORMAT)
    a.call(put_decimal)
    put_byte(a, " ")
    a.mov(RAX, BUS.it.boot_text.m64())
    a.mov(mem64(RDI, ref=TEXT_OUT), RAX)
    a.add(RDI, 8)
    for field in DIAG_FIELDS:  # unrolled: each from its own place
        put_byte(a, " ")
        _load(a, field)
        a.call(put_decimal)
    a.lea(RSI, mem64(R14, TEXT_AT, ref=TEXT_OUT))
    a.sub(RDI, RSI)
    a.mov(R12D, EDI)

    a.mov(RDI, R14)
    put(a, PUB)
    _put_subject(a)
    put_byte(a, " ")
    a.mov(EAX, R12D)
    a.call(put_decimal)
    put_crlf(a)
    a.lea(RSI, mem64(R14, TEXT_AT, ref=TEXT_OUT))
    a.mov(ECX, R12D)
    a.rep_movsb()
    put_crlf(a)
    a.call(bus_close)
    a.inc(FLEET_DIAG.it.said)
    a.mov(EAX, FLEET_DIAG.it.heard)
    a.add(FLEET_DIAG.it.unheard, EAX)
    a.place(later)
    a.imul(RAX, CLOCK.it.tsc_cycles_per_ms, DIAG_EVERY_MS)
    a.add(RAX, core.now)
    a.mov(FLEET_DIAG.it.next_at, RAX)
    a.ret()
    a.place(never)
    a.mov(RAX, -1)
    a.ret()
