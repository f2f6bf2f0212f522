"""Commands over the bus: each shard of this node has a subject, and answers what becomes of a request."""

from firmware.abi import CALLER_SAVED
from firmware.bus.names import put_bot
from firmware.bus.send import bus_close, bus_open
from firmware.events.deliver import data
from firmware.failure import shard_fail
from firmware.gateway.submit import gateway_submit
from firmware.layouts.bus import BUS, BUS_IN, Bus, BusLink, BusMessage, LinkState
from firmware.layouts.bus_sites import MESSAGE_TOO_LONG
from firmware.layouts.commands import (
    COMMAND_LINE_MAX,
    COMMAND_RESTART,
    COMMAND_SID,
    COMMANDS,
    OP_RESTART,
    RESTART_PACE_MS,
    Commands,
)
from firmware.layouts.fleet_config import FLEET_CONFIG, FLEET_MAGIC, FleetConfig
from firmware.layouts.gateway import CLOSE_KEEPING_SESSION
from firmware.layouts.node import CLOCK, CORE, SLOT_ACTIVE, Clock, CoreState, Slot, core
from firmware.layouts.send import SendResult
from firmware.layouts.shard import End, ShardContext, ShardState
from firmware.layouts.text import TEXT_OUT
from firmware.limits import SHARDS_MAX
from firmware.node.command_reply import answers_send, command_answer, command_reply_judge
from firmware.node.command_text import command_parse
from firmware.node.fleet_diag import diag_listen
from firmware.node.slots import slot_wake
from firmware.text import put, put_byte, put_crlf, put_decimal
from toolchain.asm import (
    AE,
    CF,
    DX,
    EAX,
    EBX,
    ECX,
    EDX,
    NC,
    NE,
    NZ,
    R8D,
    R9D,
    R12,
    R12D,
    R13,
    R13D,
    R13W,
    R14,
    RAX,
    RBP,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    A,
    Asm,
    B,
    C,
    E,
    In,
    Out,
    Reg32,
    Region,
    Z,
    mem8,
    routine,
)
from toolchain.layout.data import constant

SUB = constant("command_sub", b"SUB shardfw.", "subscribes the subject of a shard")
SUBJECT = constant("command_subject", b".cmd.", "what tells commands from events")
UNSUB = constant("command_unsub", b"UNSUB ", "gives it up")
COMPUTED = Region("nothing", "LEA only computes")
ROWS = COMMANDS.it.shards
GIVEN_UP = 2
"""Of a row in `Commands.shards`: where its subscriptions are counted."""
ROW_BITS = (SHARDS_MAX - 1).bit_length()
"""Of a subscription, above COMMAND_SID; how many the row gave up before is above them."""


def _put_sid(a: Asm) -> None:
    """Write the number of the subscription that row R12 has, or takes."""
    a.lea(RAX, COMMANDS.it.ups)
    a.movzx(EAX, Commands.at(RAX).shards.m16(GIVEN_UP, index=R12, scale=4))
    a.shl(EAX, ROW_BITS)
    a.lea(EAX, mem8(RAX, COMMAND_SID, index=R12, ref=COMPUTED))
    a.call(put_decimal)


@routine(
    inputs=[
        In(RBP, BusLink, "the link DATA, UP, with nothing half said"),
        In(RBX, ShardContext, "its workspace"),
        In(R12D, int, "row of the scheduler's table"),
        In(R13D, int, "the shard that it holds + 1; 0 = none of a fleet"),
    ],
    outputs=[Out(CF, "1 = no room now")],
    clobbers=CALLER_SAVED,
    reads=[Commands.shards, FleetConfig.bot, FleetConfig.bot_len],
    writes=[Commands.shards, TEXT_OUT],
    calls=[bus_open, bus_close, put_decimal],
    source="firmware/docs/fleet.md#commands",
)
def command_subscribe(
    a: Asm, link: BusLink, workspace: ShardContext, row: Reg32, shard: Reg32
) -> None:
    """Give the row's old subject up and take the new one."""
    known = Commands.at(RAX).shards.m16(index=R12, scale=4)
    a.mov(ECX, 2 * COMMAND_LINE_MAX)
    a.call(bus_open)
    with a.if_(C):
        a.ret()
    a.lea(RAX, COMMANDS.it.ups)
    a.cmp(known, 0)
    with a.if_(NE):
        put(a, UNSUB)
        _put_sid(a)
        put_crlf(a)
        a.lea(RAX, COMMANDS.it.ups)
        a.inc(Commands.at(RAX).shards.m16(GIVEN_UP, index=R12, scale=4))
    a.test(shard, shard)
    with a.if_(NZ):
        put(a, SUB)
        put_bot(a)
        put(a, SUBJECT)
        a.lea(EAX, mem8(R13, -1, ref=COMPUTED))
        a.call(put_decimal)
        put_byte(a, " ")
        _put_sid(a)
        put_crlf(a)
    a.call(bus_close)
    a.lea(RAX, COMMANDS.it.ups)
    a.mov(known, R13W)
    a.clc()
    a.ret()


@routine(
    clobbers=CALLER_SAVED,
    reads=[
        FleetConfig.magic,
        Bus.enrolling,
        BusLink.context,
        BusLink.state,
        BusLink.ups,
        BusLink.midway,
        BusLink.sent,
        Commands.ups,
        Commands.changed,
        Commands.shards,
        Commands.answers_end,
        Commands.listening,
        CoreState.slots_used,
        Slot.flags,
        Slot.context,
        ShardContext.held,
        ShardContext.shard_id,
    ],
    writes=[
        BusLink.wanted,
        Commands.ups,
        Commands.changed,
        Commands.shards,
        Commands.answers_end,
        Commands.listening,
    ],
    calls=[command_subscribe, answers_send, diag_listen],
    saves=[RBX, RBP, R12, R13, R14],
    source="firmware/docs/fleet.md#commands",
)
def commands_tick(a: Asm) -> None:
    """Keep the subscriptions as the rows are, and send answers, in a gap between publications.

    Rows are looked at when one of them or the connection is another one.
    """
    row, shard, out = Slot.at(RAX), ShardContext.at(RCX), a.label("out")
    late, answers = a.label("late"), a.label("answers")
    a.cmp(FLEET_CONFIG.it.magic, FLEET_MAGIC)
    a.jne(out)
    # A login that may enrol and nothing else may not listen here.
    a.cmp(BUS.it.enrolling, 0)
    a.jne(out)
    link = data(a)
    a.cmp(link.state, LinkState.UP)
    a.jne(out)
    a.mov(link.wanted, 0)
    a.mov(R14, link.sent)
    a.mov(EAX, link.ups)
    a.cmp(EAX, COMMANDS.it.ups)
    with a.if_(NE):
        # Another connection knows no subscription, and may not answer what this one brought.
        a.mov(COMMANDS.it.ups, EAX)
        a.mov(COMMANDS.it.answers_end, 0)
        a.mov(COMMANDS.it.listening, 0)
        a.lea(RDI, ROWS.address)
        a.mov(ECX, Commands.shards.size // 8)
        a.xor(EAX, EAX)
        a.rep_stosq()
        a.mov(COMMANDS.it.changed, 1)
    a.mov(EAX, COMMANDS.it.changed)
    a.or_(EAX, COMMANDS.it.answers_end)
    a.jz(out)
    a.cmp(link.midway, 0)
    a.j(NE, late)
    a.cmp(COMMANDS.it.changed, 0)
    a.j(E, answers)
    a.cmp(COMMANDS.it.listening, 0)
    with a.if_(E):
        a.call(diag_listen)
        a.j(C, late)
        a.mov(COMMANDS.it.listening, 1)
    a.xor(R12D, R12D)
    with a.loop() as rows:
        a.cmp(R12D, core.slots_used)
        a.leave(AE, rows)
        a.xor(R13D, R13D)
        a.mov(EAX, R12D)
        a.shl(EAX, 4)  # a slot row is 16 bytes
        a.lea(RCX, CORE.it.slots.address)
        a.add(RAX, RCX)
        with a.block() as none:
            a.test(row.flags, SLOT_ACTIVE)
            a.leave(Z, none)
            a.mov(ECX, row.context)
            a.cmp(shard.held, 0)
            a.leave(E, none)
            a.mov(R13D, shard.shard_id)
            a.inc(R13D)
        with a.block() as same:
            a.lea(RAX, COMMANDS.it.ups)
            a.cmp(Commands.at(RAX).shards.m16(index=R12, scale=4), R13W)
            a.leave(E, same)
            a.call(command_subscribe)
            a.j(C, late)
        a.inc(R12D)
        a.jmp(rows.top)
    a.mov(COMMANDS.it.changed, 0)
    a.place(answers)
    a.call(answers_send)
    a.j(NC, out)
    # Who was heard in this turn leaves the next gap to the events.
    a.place(late)
    a.cmp(R14, link.sent)
    with a.if_(E):
        a.mov(link.wanted, 1)
    a.place(out)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "the shard that is asked")],
    outputs=[Out(EAX, "SendResult"), Out(EDX, "milliseconds to wait when RATE_LIMITED")],
    clobbers=CALLER_SAVED,
    reads=[
        BusMessage.body,
        BusMessage.body_len,
        BusMessage.unreadable,
        ShardContext.state,
        ShardContext.failure,
        ShardContext.connected_at,
        CoreState.now,
        Clock.tsc_cycles_per_ms,
    ],
    calls=[command_parse, gateway_submit, shard_fail, slot_wake],
    source="firmware/docs/fleet.md#commands",
)
def command_run(a: Asm, shard: ShardContext) -> None:
    """Carry out the command in BUS_IN, or say why not."""
    refuse, restart = a.label("refuse"), a.label("restart")
    a.mov(EAX, SendResult.TOO_LARGE)
    a.cmp(BUS_IN.it.unreadable, MESSAGE_TOO_LONG.code)
    a.je(refuse)
    a.mov(RSI, BUS_IN.it.body)
    a.mov(ECX, BUS_IN.it.body_len)
    a.call(command_parse)
    with a.if_(C):
        a.mov(EAX, SendResult.BAD_BODY)
        a.jmp(refuse)
    a.cmp(EAX, OP_RESTART)
    a.je(restart)
    a.mov(EDX, ECX)
    a.mov(ECX, EAX)
    a.call(gateway_submit)
    a.test(EAX, EAX)
    with a.if_(NZ):
        a.ret()
    a.call(slot_wake)
    a.xor(EAX, EAX)
    a.xor(EDX, EDX)
    a.ret()
    a.place(restart)
    a.mov(EAX, SendResult.NOT_READY)
    a.cmp(shard.state, ShardState.READY)
    a.jne(refuse)
    a.cmp(shard.failure, End.NONE)
    a.jne(refuse)
    a.mov(RDX, core.now)
    a.sub(RDX, shard.connected_at)
    a.imul(RAX, CLOCK.it.tsc_cycles_per_ms, RESTART_PACE_MS)
    a.sub(RAX, RDX)
    with a.if_(A):
        a.xor(EDX, EDX)
        a.mov(RCX, CLOCK.it.tsc_cycles_per_ms)
        a.div(RCX)
        a.lea(EDX, mem8(RAX, 1, ref=COMPUTED))
        a.mov(EAX, SendResult.RATE_LIMITED)
        a.ret()
    a.mov(EDX, End.RECONNECT_REQUESTED)
    a.xor(ECX, ECX)
    a.mov(R8D, CLOSE_KEEPING_SESSION)
    a.mov(R9D, COMMAND_RESTART.code)
    a.call(shard_fail)
    a.call(slot_wake)
    a.xor(EAX, EAX)
    a.place(refuse)
    a.xor(EDX, EDX)
    a.ret()


@routine(
    clobbers=CALLER_SAVED,
    reads=[
        BusMessage.sid,
        Commands.shards,
        CoreState.slots_used,
        Slot.flags,
        Slot.context,
        ShardContext.shard_id,
    ],
    writes=[Commands.taken, Commands.refused],
    calls=[command_reply_judge, command_run, command_answer],
    saves=[RBX, R12],
    source="firmware/docs/fleet.md#commands",
)
def command_take(a: Asm) -> None:
    """Take the message in BUS_IN as a command, when its subscription is one of a shard."""
    row, shard = Slot.at(RCX), ShardContext.at(RBX)
    out, gone, answer, foul = map(a.label, ("out", "gone", "answer", "foul"))
    a.mov(EAX, BUS_IN.it.sid)
    a.sub(EAX, COMMAND_SID)
    a.j(B, out)
    a.mov(R12D, EAX)
    a.call(command_reply_judge)
    a.j(C, foul)
    # The subscription may have been given up since the message was sent.
    a.mov(EAX, R12D)
    a.and_(R12D, SHARDS_MAX - 1)
    a.shr(EAX, ROW_BITS)
    a.lea(RCX, COMMANDS.it.ups)
    a.mov(EDX, Commands.at(RCX).shards.m32(index=R12, scale=4))
    a.mov(ECX, EDX)
    a.shr(ECX, 8 * GIVEN_UP)
    a.cmp(EAX, ECX)
    a.jne(gone)
    a.movzx(EDX, DX)
    a.mov(EAX, R12D)
    # And its row may have gone, or to another shard.
    a.cmp(EAX, core.slots_used)
    a.jae(gone)
    a.shl(EAX, 4)  # a slot row is 16 bytes
    a.lea(RCX, CORE.it.slots.address)
    a.add(RCX, RAX)
    a.test(row.flags, SLOT_ACTIVE)
    a.jz(gone)
    a.mov(EBX, row.context)
    a.dec(EDX)
    a.cmp(EDX, shard.shard_id)
    a.jne(gone)
    a.call(command_run)
    a.mov(ECX, EDX)
    a.mov(EDX, EAX)
    a.test(EAX, EAX)
    a.j(NZ, answer)
    a.inc(COMMANDS.it.taken)
    a.jmp(command_answer)
    a.place(gone)
    a.mov(EDX, SendResult.NOT_READY)
    a.xor(ECX, ECX)
    a.place(answer)
    a.inc(COMMANDS.it.refused)
    a.jmp(command_answer)
    a.place(foul)
    a.inc(COMMANDS.it.refused)
    a.place(out)
    a.ret()
