"""What the node calls: at boot, for every message, in every turn, and when it stops."""

from firmware.abi import CALLER_SAVED
from firmware.bus.send import bus_close, bus_open, bus_request_id
from firmware.bus.turn import bus_next
from firmware.fleet.answer import lease_answered
from firmware.fleet.budget import budget_answered, budget_restate
from firmware.fleet.cas import control
from firmware.fleet.claim import claims_tick
from firmware.fleet.delivery import watch_heard
from firmware.fleet.enrol import enrol_begin, enrol_tick
from firmware.fleet.enrol_grant import enrol_input
from firmware.fleet.held import lease_mirror
from firmware.fleet.idle import watch_idle
from firmware.fleet.orders import orders_obey
from firmware.fleet.renew import held_tick_all
from firmware.fleet.texts import watch_text
from firmware.fleet.ticket import ticket_answered
from firmware.fleet.watch import watch_answered, watch_begin, watch_check
from firmware.layouts.bus import BUS_IN, INBOX_SID, BusLink, BusMessage
from firmware.layouts.clock import NEVER
from firmware.layouts.enrol import ENROL, Enrol, EnrolState
from firmware.layouts.fleet import (
    FLEET,
    LOOK_MS,
    WATCH_TEXT_MAX,
    Fleet,
    FleetKind,
    WatchState,
)
from firmware.layouts.fleet_config import FLEET_CONFIG, FLEET_MAGIC, FleetConfig
from firmware.layouts.node import CLOCK, LEASE, Clock, CoreState, Lease, core
from firmware.layouts.token import TOKEN, BotToken
from toolchain.asm import (
    EAX,
    ECX,
    NC,
    NE,
    R12,
    R13,
    R13D,
    RAX,
    RBP,
    RBX,
    RDI,
    Asm,
    B,
    C,
    E,
    Out,
    Z,
    routine,
)


@routine(
    clobbers=CALLER_SAVED,
    reads=[FleetConfig.magic],
    writes=[Lease.expired],
    calls=[enrol_begin],
    source="firmware/docs/fleet.md#the-nodes-lease",
)
def fleet_setup(a: Asm) -> None:
    """Begin without a lease: in a fleet nothing of a shard leaves before a slot is granted.

    Entropy, cryptography and the bus are ready: a node without a token makes its key pair here.
    """
    a.cmp(FLEET_CONFIG.it.magic, FLEET_MAGIC)
    with a.if_(E):
        a.mov(LEASE.it.expired, 1)
        a.call(enrol_begin)
    a.ret()


@routine(
    clobbers=CALLER_SAVED,
    reads=[BusLink.context],
    calls=[bus_open, bus_close, bus_request_id, watch_begin, watch_text],
    saves=[RBX, RBP, R12, R13],
    source="firmware/docs/fleet.md#watch",
)
def watch_open(a: Asm) -> None:
    """Ask for a watch; without room now it is asked for in the next turn."""
    refused = a.label("refused")
    control(a)
    a.mov(ECX, WATCH_TEXT_MAX)
    a.call(bus_open)
    a.j(C, refused)
    a.mov(R12, RDI)
    a.call(bus_request_id)
    a.mov(R13D, EAX)
    a.call(watch_begin)
    a.mov(RDI, R12)
    a.mov(EAX, R13D)
    a.call(watch_text)
    a.call(bus_close)
    a.place(refused)
    a.ret()


@routine(
    outputs=[Out(EAX, "FleetKind: whose the message in BUS_IN is; NONE = there is none")],
    clobbers=CALLER_SAVED,
    reads=[
        BusMessage.sid,
        BusMessage.inbox,
        BusLink.context,
        Fleet.watch,
        Fleet.watch_sid,
        Fleet.watch_inbox,
    ],
    calls=[
        bus_next,
        watch_heard,
        watch_answered,
        lease_answered,
        ticket_answered,
        budget_answered,
        enrol_input,
    ],
    saves=[RBX, RBP],
    source="firmware/docs/fleet.md#messages",
)
def fleet_next(a: Asm) -> None:
    """Deal with what came on the control link up to the first answer that is the node's."""
    inbox, none = a.label("inbox"), a.label("none")
    with a.loop() as messages:
        control(a)
        a.call(bus_next)
        a.test(EAX, EAX)
        a.j(Z, none)
        a.mov(EAX, BUS_IN.it.sid)
        a.cmp(EAX, INBOX_SID)
        a.j(E, inbox)
        # What an earlier watch still delivers is no evidence.
        a.cmp(EAX, FLEET.it.watch_sid)
        a.again(NE, messages)
        a.cmp(FLEET.it.watch, WatchState.OFF)
        a.again(E, messages)
        a.call(watch_heard)
        a.jmp(messages.top)

        a.place(inbox)
        a.mov(EAX, BUS_IN.it.inbox)
        a.test(EAX, EAX)
        a.again(Z, messages)
        with a.block() as other:
            a.cmp(EAX, FLEET.it.watch_inbox)
            a.leave(NE, other)
            a.call(watch_answered)
            a.jmp(messages.top)
        for answered in (lease_answered, ticket_answered, budget_answered):  # unrolled
            a.mov(EAX, BUS_IN.it.inbox)
            a.call(answered)
            a.again(NC, messages)
        a.call(enrol_input)
        a.again(NC, messages)
    a.mov(EAX, FleetKind.REPLY)
    a.ret()
    a.place(none)
    a.xor(EAX, EAX)
    a.ret()


@routine(
    outputs=[Out(RAX, "TSC by which it wants to run again; all ones = never")],
    clobbers=CALLER_SAVED,
    reads=[
        FleetConfig.magic,
        CoreState.now,
        Clock.tsc_cycles_per_ms,
        Enrol.state,
        BotToken.length,
        BusLink.context,
    ],
    writes=[Fleet.next_deadline],
    calls=[
        enrol_tick,
        watch_check,
        watch_open,
        orders_obey,
        budget_restate,
        claims_tick,
        watch_idle,
        held_tick_all,
        lease_mirror,
    ],
    saves=[RBX, RBP, R12],
    source="firmware/docs/fleet.md#turn",
)
def fleet_tick(a: Asm) -> None:
    """Do what time and operators ask for: the watch, orders, renewals, releases, claims, the node's lease.

    Without a token there is nothing but the wait for it.
    """
    a.mov(RAX, NEVER)
    a.cmp(FLEET_CONFIG.it.magic, FLEET_MAGIC)
    with a.if_(NE):
        a.ret()
    with a.block() as enrolled:
        a.cmp(ENROL.it.state, EnrolState.OFF)
        a.leave(E, enrolled)
        control(a)
        a.call(enrol_tick)
        a.cmp(TOKEN.it.length, 0)
        a.leave(NE, enrolled)
        a.mov(FLEET.it.next_deadline, RAX)
        a.ret()
    a.call(watch_check)
    with a.if_(C):
        a.call(watch_open)
    a.call(orders_obey)
    a.call(budget_restate)
    a.call(held_tick_all)
    a.mov(R12, RAX)
    a.call(lease_mirror)
    a.call(claims_tick)
    a.cmp(RAX, R12)
    a.cmov(B, R12, RAX)
    a.call(watch_idle)
    a.imul(RAX, CLOCK.it.tsc_cycles_per_ms, LOOK_MS)
    a.add(RAX, core.now)
    a.cmp(R12, RAX)
    a.cmov(B, RAX, R12)
    a.mov(FLEET.it.next_deadline, RAX)
    a.ret()


@routine(
    outputs=[Out(EAX, "slots that are not given back yet")],
    reads=[Fleet.holding],
    source="firmware/docs/fleet.md#release",
)
def fleet_left(a: Asm) -> None:
    """Count the slots that this node still has; a node alone has none."""
    a.mov(EAX, FLEET.it.holding)
    a.ret()


@routine(
    clobbers=CALLER_SAVED,
    writes=[Fleet.closing],
    calls=[orders_obey],
    source="firmware/docs/fleet.md#release",
)
def fleet_close(a: Asm) -> None:
    """Give every slot back and claim none any more, because the node stops."""
    a.mov(FLEET.it.closing, 1)
    a.jmp(orders_obey)
