"""What time does to entries: renewals, releases, claims that nobody answered, and their ends."""

from firmware.abi import CALLER_SAVED
from firmware.fleet.cas import cas_send, control
from firmware.fleet.held import each_held, name_slot
from firmware.fleet.idle import server_leave
from firmware.fleet.operation import op_send
from firmware.fleet.texts import lease_text
from firmware.fleet.watch import try_another
from firmware.layouts.bus import BusLink, LinkState
from firmware.layouts.clock import NEVER
from firmware.layouts.fleet import (
    CLAIM_ANSWER_MS,
    FLEET,
    HELD_MAX,
    LOOK_MS,
    MOVE_MS,
    RELEASE_ANSWER_MS,
    RELEASE_WAIT_MS,
    Fleet,
    HeldPhase,
    HeldSlot,
)
from firmware.layouts.fleet_sites import FLEET_UNCONFIRMED
from firmware.layouts.log import FLEET_FORGOTTEN, FLEET_RELEASED
from firmware.layouts.node import CLOCK, Clock, CoreState, core
from firmware.log import log, log_write
from toolchain.asm import (
    AE,
    BE,
    CF,
    EAX,
    ECX,
    EDX,
    NE,
    NZ,
    R8,
    R8D,
    R12,
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
    routine,
)


@routine(
    inputs=[In(RBX, HeldSlot, "a slot in HELD, RUNNING or STOPPING")],
    outputs=[Out(RAX, "TSC of its next renewal")],
    clobbers=CALLER_SAVED,
    reads=[
        HeldSlot.renew_at,
        HeldSlot.retry_at,
        HeldSlot.revision,
        CoreState.now,
        Clock.tsc_cycles_per_ms,
    ],
    writes=[HeldSlot.retry_at],
    calls=[op_send],
    source="firmware/docs/fleet.md#renewals",
)
def held_renew(a: Asm, held: HeldSlot) -> None:
    """Renew from a quarter of the duration on, and again until it is granted."""
    a.mov(RAX, held.renew_at)
    a.cmp(RAX, held.retry_at)
    a.cmov(B, RAX, held.retry_at)
    a.cmp(RAX, core.now)
    with a.if_(BE):
        a.mov(RAX, held.revision)
        a.call(op_send)
        with a.if_(C):
            a.imul(RAX, CLOCK.it.tsc_cycles_per_ms, LOOK_MS)
            a.add(RAX, core.now)
            a.mov(held.retry_at, RAX)
        a.mov(RAX, held.retry_at)  # not before now, so not before `renew_at`, which has passed
    a.ret()


@routine(
    inputs=[In(RBX, HeldSlot, "a slot in STOPPING without a shard")],
    outputs=[Out(RAX, "TSC of the next look at it")],
    clobbers=CALLER_SAVED,
    reads=[
        HeldSlot.granted_op,
        HeldSlot.last_op,
        HeldSlot.sent_at,
        HeldSlot.revision,
        CoreState.now,
        Clock.tsc_cycles_per_ms,
        Fleet.op,
    ],
    writes=[
        Fleet.op,
        HeldSlot.phase,
        HeldSlot.expected,
        HeldSlot.released_at,
        HeldSlot.release_inbox,
    ],
    calls=[lease_text, cas_send],
    source="firmware/docs/fleet.md#release",
)
def held_release(a: Asm, held: HeldSlot) -> None:
    """Give the record back, once: a renewal that is on its way is waited for, because it comes first."""
    send, again = a.label("send"), a.label("again")
    a.mov(EAX, held.last_op)
    a.cmp(EAX, held.granted_op)
    a.j(BE, send)
    a.imul(RAX, CLOCK.it.tsc_cycles_per_ms, RELEASE_WAIT_MS)
    a.add(RAX, held.sent_at)
    a.cmp(RAX, core.now)
    with a.if_(A):
        a.ret()
    a.place(send)
    a.mov(EDX, FLEET.it.op)
    a.inc(EDX)
    a.mov(FLEET.it.op, EDX)
    a.xor(ECX, ECX)
    a.call(lease_text)
    a.mov(RAX, held.revision)
    a.mov(held.expected, RAX)
    a.call(cas_send)
    a.j(C, again)
    a.mov(held.release_inbox, EAX)
    a.mov(held.phase, HeldPhase.RELEASING)
    a.imul(RAX, CLOCK.it.tsc_cycles_per_ms, RELEASE_ANSWER_MS)
    a.mov(RCX, core.now)
    a.mov(held.released_at, RCX)
    a.add(RAX, RCX)
    a.ret()
    # No room, or no connection: the lease ends by itself if that lasts.
    a.place(again)
    a.imul(RAX, CLOCK.it.tsc_cycles_per_ms, LOOK_MS)
    a.add(RAX, core.now)
    a.ret()


@routine(
    inputs=[In(RBX, HeldSlot, "any entry")],
    outputs=[Out(RAX, "TSC when it next wants a look; all ones = never")],
    clobbers=CALLER_SAVED,
    reads=[
        HeldSlot.phase,
        HeldSlot.slot,
        HeldSlot.generation,
        HeldSlot.shards,
        HeldSlot.sent_at,
        HeldSlot.released_at,
        HeldSlot.hard_stop,
        CoreState.now,
        Clock.tsc_cycles_per_ms,
        Fleet.begun_at,
    ],
    writes=[HeldSlot.phase, Fleet.move],
    calls=[held_renew, held_release, log_write],
    source="firmware/docs/fleet.md#states",
)
def held_tick(a: Asm, held: HeldSlot) -> None:
    """Do what an entry's phase asks for now."""
    never, stopping, renew = a.label("never"), a.label("stopping"), a.label("renew")
    claiming, releasing, bounded = a.label("claiming"), a.label("releasing"), a.label("bounded")
    phases = {
        HeldPhase.CLAIMING: claiming, HeldPhase.HELD: renew, HeldPhase.RUNNING: renew,
        HeldPhase.STOPPING: stopping, HeldPhase.RELEASING: releasing,
    }  # fmt: skip
    a.movzx(EAX, held.phase)
    for phase, label in phases.items():  # five phases, unrolled
        a.cmp(EAX, phase)
        a.j(E, label)
    # GONE, and its shards are silent: it is over.
    a.cmp(EAX, HeldPhase.GONE)
    a.j(NE, never)
    a.cmp(held.shards, 0)
    with a.if_(E):
        a.mov(held.phase, HeldPhase.NONE)
    a.place(never)
    a.mov(RAX, NEVER)
    a.ret()

    a.place(claiming)
    a.imul(RAX, CLOCK.it.tsc_cycles_per_ms, CLAIM_ANSWER_MS)
    a.add(RAX, held.sent_at)
    a.cmp(RAX, core.now)
    with a.if_(A):
        a.ret()
    a.mov(held.phase, HeldPhase.NONE)
    # A cluster would have granted it, or shown who was faster.
    try_another(a)
    name_slot(a, held)
    a.mov(R8D, FLEET_UNCONFIRMED.number)
    log(a, FLEET_FORGOTTEN)
    a.jmp(never)

    a.place(releasing)
    a.imul(RAX, CLOCK.it.tsc_cycles_per_ms, RELEASE_ANSWER_MS)
    a.add(RAX, held.released_at)
    a.cmp(RAX, core.now)
    with a.if_(A):
        a.ret()
    a.mov(held.phase, HeldPhase.NONE)
    name_slot(a, held)
    a.xor(R8D, R8D)
    log(a, FLEET_RELEASED)
    a.jmp(never)

    a.place(stopping)
    a.cmp(held.shards, 0)
    with a.if_(E):
        a.call(held_release)
        a.jmp(bounded)
    a.place(renew)
    a.call(held_renew)
    a.place(bounded)
    # The hard stop is met in time even if nothing else happens.
    a.cmp(RAX, held.hard_stop)
    a.cmov(A, RAX, held.hard_stop)
    a.ret()


@routine(
    outputs=[Out(CF, "1 = another server is to be tried")],
    clobbers=[RAX, RCX, RDX, RSI, R8],
    reads=[
        HeldSlot.phase,
        HeldSlot.renew_at,
        Fleet.begun_at,
        Fleet.move,
        CoreState.now,
        Clock.tsc_cycles_per_ms,
    ],
    writes=[Fleet.move],
    source="firmware/docs/fleet.md#another-server",
)
def server_is_deaf(a: Asm) -> None:
    """Tell whether this server has granted no renewal for too long, grants no claim, or makes no watch."""
    held, span = HeldSlot.at(RSI), RDX
    a.movzx(EAX, FLEET.it.move)
    a.mov(FLEET.it.move, 0)
    a.imul(span, CLOCK.it.tsc_cycles_per_ms, MOVE_MS)
    a.mov(RCX, FLEET.it.begun_at)
    a.add(RCX, span)
    a.cmp(RCX, core.now)
    with a.if_(B):
        a.lea(RSI, FLEET.it.held.address)
        a.mov(R8D, HELD_MAX)
        with a.loop() as entries:
            with a.block() as idle:
                a.cmp(held.phase, HeldPhase.HELD)
                a.leave(B, idle)
                a.cmp(held.phase, HeldPhase.STOPPING)
                a.leave(A, idle)
                a.mov(RCX, held.renew_at)
                a.add(RCX, span)
                a.cmp(RCX, core.now)
                a.leave(AE, idle)
                a.mov(EAX, 1)
            a.add(RSI, HeldSlot.SIZE)
            a.dec(R8D)
            a.again(NZ, entries)
    a.neg(EAX)
    a.ret()


@routine(
    outputs=[Out(RAX, "TSC when an entry next wants a look; all ones = never")],
    clobbers=CALLER_SAVED,
    reads=[BusLink.context, BusLink.state],
    calls=[held_tick, server_is_deaf, server_leave],
    saves=[RBX, RBP, R12, R13],
    source="firmware/docs/fleet.md#states",
)
def held_tick_all(a: Asm) -> None:
    """Do what every entry asks for, and leave a server that does not answer to it."""
    soonest, out = R13, a.label("out")
    a.mov(soonest, NEVER)
    with each_held(a):
        a.call(held_tick)
        a.cmp(RAX, soonest)
        a.cmov(B, soonest, RAX)
    a.call(server_is_deaf)
    with a.if_(C):
        link = control(a)
        a.cmp(link.state, LinkState.UP)
        a.j(NE, out)
        a.call(server_leave)
    a.place(out)
    a.mov(RAX, soonest)
    a.ret()
