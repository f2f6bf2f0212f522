"""Before any input or output of a turn: hard stops, and a clock that may have stood still."""

from firmware.abi import CALLER_SAVED
from firmware.cpu.rtc import rtc_unix
from firmware.fleet.held import each_held, lease_mirror, name_slot, site_number
from firmware.layouts.clock import (
    RTC_DATA,
    RTC_INDEX,
    RTC_REGISTERS,
    RTC_STATUS_A,
    RTC_UPDATING,
    SECOND_MS,
)
from firmware.layouts.fleet import (
    CLOCK_RATE_PERCENT,
    FLEET,
    FROZEN_MS,
    RTC_LEAP_S,
    RTC_LOOK_MS,
    RTC_SHARP_MS,
    RTC_STILL_MS,
    RTC_WINDOW_S,
    Fleet,
    HeldPhase,
    HeldSlot,
)
from firmware.layouts.fleet_config import FLEET_CONFIG, FLEET_MAGIC, FleetConfig
from firmware.layouts.fleet_sites import FLEET_EXPIRED, FLEET_FROZEN
from firmware.layouts.log import FLEET_EXPIRED as SAID_EXPIRED
from firmware.layouts.log import FLEET_FROZEN as SAID_FROZEN
from firmware.layouts.node import CLOCK, Clock
from firmware.log import log, log_write
from toolchain.asm import (
    AE,
    AL,
    CF,
    DL,
    EAX,
    ECX,
    EDX,
    GE,
    NE,
    NZ,
    R8,
    R8D,
    R9,
    R9D,
    R12,
    R13,
    R14,
    R14D,
    R15,
    RAX,
    RBX,
    RCX,
    RDI,
    RDX,
    A,
    Asm,
    B,
    C,
    E,
    In,
    L,
    Out,
    Reg32,
    Z,
    routine,
)

REGISTER_LIST = int.from_bytes(bytes(RTC_REGISTERS), "little")
RTC_LOW = 3
"""A look reads so many of them: second, minute and hour; a pause of whole days shows a second later."""


def _register(a: Asm, number: int) -> None:
    """AL := a register of the RTC."""
    a.mov(AL, number)
    a.out(RTC_INDEX, AL)
    a.in_(AL, RTC_DATA)


@routine(
    outputs=[
        Out(CF, "1 = not to be read now: an update is going on, or one came in between"),
        Out(RAX, "RTC_REGISTERS, one byte each; 0 = not read"),
    ],
    clobbers=[RCX, RDX, R8, R9],
    source="Motorola MC146818A data sheet, figure 13",
)
def rtc_glimpse(a: Asm) -> None:
    """Read the registers without waiting for anything; the second first too, to see that it holds."""
    busy = a.label("busy")
    _register(a, RTC_STATUS_A)
    a.test(AL, RTC_UPDATING)
    a.j(NZ, busy)
    _register(a, RTC_REGISTERS[0])
    a.movzx(R9D, AL)
    # From the last register to the first, so that the first ends up lowest.
    a.mov(R8, REGISTER_LIST)
    a.mov(ECX, len(RTC_REGISTERS))
    a.xor(EDX, EDX)
    with a.loop() as reading:
        a.rol(R8, 8)
        a.mov(EAX, R8D)
        a.out(RTC_INDEX, AL)
        a.in_(AL, RTC_DATA)
        a.shl(RDX, 8)
        a.mov(DL, AL)
        a.dec(ECX)
        a.again(NZ, reading)
    a.movzx(EAX, DL)
    a.cmp(EAX, R9D)
    a.j(NE, busy)
    a.mov(RAX, RDX)
    a.clc()
    a.ret()
    a.place(busy)
    a.xor(EAX, EAX)
    a.stc()
    a.ret()


@routine(
    inputs=[In(EDX, int, "site code: why")],
    clobbers=CALLER_SAVED,
    reads=[HeldSlot.phase, HeldSlot.slot, HeldSlot.generation, HeldSlot.reason, HeldSlot.hard_stop],
    writes=[HeldSlot.phase, HeldSlot.reason, Fleet.expired],
    calls=[lease_mirror, log_write],
    saves=[RBX, R12, R13, R14],
    source="firmware/docs/fleet.md#hard-stop",
)
def leases_end(a: Asm, reason: Reg32) -> None:
    """End every lease whose hard stop has passed, or all of them when the clock stood still.

    A claim and a release that are on their way are forgotten with a clock that stood still: what they
    would be granted counts from a time that nobody knows any more.
    """
    held, now, changed = HeldSlot.at(RBX), R13, R14D
    a.mov(R14D, reason)
    a.rdtsc64()
    a.mov(now, RAX)
    with each_held(a) as following:
        over, forget = a.label("over"), a.label("forget")
        a.cmp(held.phase, HeldPhase.NONE)
        a.j(E, following)
        a.cmp(held.phase, HeldPhase.GONE)
        a.j(E, following)
        a.cmp(held.phase, HeldPhase.CLAIMING)
        a.j(E, forget)
        a.cmp(held.phase, HeldPhase.RELEASING)
        a.j(E, forget)
        a.cmp(changed, FLEET_FROZEN.code)
        a.j(E, over)
        a.cmp(now, held.hard_stop)
        a.j(B, following)
        a.place(over)
        a.mov(held.phase, HeldPhase.GONE)
        a.mov(held.reason, changed)
        a.inc(FLEET.it.expired)
        name_slot(a, held)
        a.mov(R8, now)
        a.sub(R8, held.hard_stop)
        with a.if_(B):
            a.xor(R8D, R8D)
        site_number(a, R9D, held.reason)
        log(a, SAID_EXPIRED)
        a.jmp(following)
        a.place(forget)
        a.cmp(changed, FLEET_FROZEN.code)
        a.j(NE, following)
        a.mov(held.phase, HeldPhase.NONE)
    a.jmp(lease_mirror)


@routine(
    clobbers=CALLER_SAVED,
    reads=[
        Clock.tsc_cycles_per_ms,
        Fleet.rtc_low,
        Fleet.rtc_look_at,
        Fleet.rtc_second,
        Fleet.rtc_tsc,
        Fleet.rtc_judges,
        Fleet.holding,
    ],
    writes=[
        Fleet.rtc_look_at,
        Fleet.rtc_seen,
        Fleet.rtc_doubt,
        Fleet.rtc_judges,
        Fleet.rtc_low,
        Fleet.rtc_second,
        Fleet.rtc_tsc,
        Fleet.frozen,
    ],
    calls=[rtc_glimpse, rtc_unix, leases_end, log_write],
    saves=[R12, R13, R14, R15],
    source="firmware/docs/fleet.md#frozen-clock",
)
def clocks_compare(a: Asm) -> None:
    """Compare, once in each second of the RTC, how far it and the TSC have come.

    A machine that was paused, saved or moved goes on with a TSC that knows nothing of it.
    """
    now, seconds, snapshot, sharp, ahead = R12, R13, R14, R15, RDI
    frozen, base, useless, out = map(a.label, ("frozen", "base", "useless", "out"))
    a.rdtsc64()
    a.mov(now, RAX)
    a.imul(RCX, CLOCK.it.tsc_cycles_per_ms, RTC_LOOK_MS)
    a.add(RAX, RCX)
    # The last look was RTC_LOOK_MS before the one that was due now.
    a.imul(RCX, CLOCK.it.tsc_cycles_per_ms, RTC_SHARP_MS - RTC_LOOK_MS)
    a.mov(sharp, FLEET.it.rtc_look_at)
    a.add(sharp, RCX)
    a.mov(FLEET.it.rtc_look_at, RAX)
    a.mov(FLEET.it.rtc_seen, 1)
    a.mov(FLEET.it.rtc_doubt, 0)
    # Nothing else is looked at as long as these are the same. The second comes first: so no other time
    # than the one before reads like it, even when it changes in between.
    for place, number in enumerate(RTC_REGISTERS[:RTC_LOW]):
        _register(a, number)
        a.movzx(EAX, AL)
        if place:
            a.shl(EAX, 8 * place)
            a.or_(R8D, EAX)
        else:
            a.mov(R8D, EAX)
    a.inc(R8D)
    with a.block() as another:
        a.cmp(R8D, FLEET.it.rtc_low)
        a.leave(NE, another)
        a.cmp(FLEET.it.rtc_judges, 0)
        a.j(NE, out)
        a.mov(RAX, now)
        a.sub(RAX, FLEET.it.rtc_tsc)
        a.imul(RCX, CLOCK.it.tsc_cycles_per_ms, RTC_STILL_MS)
        a.cmp(RAX, RCX)
        a.j(AE, useless)  # it stands still
        a.jmp(out)
    with a.block() as known:
        a.cmp(FLEET.it.rtc_low, 0)
        a.leave(NE, known)
        a.mov(FLEET.it.rtc_low, R8D)
        a.mov(FLEET.it.rtc_tsc, now)
        a.jmp(out)
    # An update is never waited for; until it is over nobody knows whether the clock stood still.
    a.call(rtc_glimpse)
    with a.if_(C):
        a.cmp(FLEET.it.rtc_second, 0)
        a.j(E, out)
        a.mov(FLEET.it.rtc_seen, 0)
        a.mov(FLEET.it.rtc_doubt, 1)
        a.jmp(out)
    a.mov(snapshot, RAX)
    a.call(rtc_unix)
    a.test(RAX, RAX)
    a.j(Z, useless)  # it holds no date: nothing to compare with
    a.mov(seconds, RAX)
    a.mov(EAX, R14D)
    a.and_(EAX, (1 << 8 * RTC_LOW) - 1)
    a.inc(EAX)
    a.mov(FLEET.it.rtc_low, EAX)
    a.cmp(FLEET.it.rtc_second, 0)
    a.j(E, base)

    a.mov(RAX, seconds)
    a.sub(RAX, FLEET.it.rtc_second)
    a.j(B, base)  # the RTC was set back
    a.mov(EDX, RTC_LEAP_S)
    a.cmp(RAX, RDX)
    a.j(AE, frozen)  # so far that the product below has no room
    # As slow as a TSC may be, it has come so far.
    a.imul(ahead, CLOCK.it.tsc_cycles_per_ms, SECOND_MS * (100 - CLOCK_RATE_PERCENT) // 100)
    a.imul(ahead, RAX)
    a.add(ahead, FLEET.it.rtc_tsc)
    a.sub(ahead, now)
    a.imul(RCX, CLOCK.it.tsc_cycles_per_ms, FROZEN_MS)
    a.cmp(ahead, RCX)
    a.j(GE, frozen)
    a.cmp(RAX, RTC_WINDOW_S)
    a.j(B, out)
    a.cmp(now, sharp)
    a.j(A, out)
    # Both go on from here; what no rate explains is kept, so that short pauses add up.
    a.xor(ECX, ECX)
    a.test(ahead, ahead)
    a.cmov(L, ahead, RCX)
    a.add(now, ahead)
    a.jmp(base)

    a.place(frozen)
    a.inc(FLEET.it.frozen)
    a.mov(RDX, RAX)
    a.mov(ECX, FLEET.it.holding)
    log(a, SAID_FROZEN)
    a.mov(EDX, FLEET_FROZEN.code)
    a.call(leases_end)
    # This look came at any moment of the second; the next change of it dates the clocks anew.
    a.xor(seconds, seconds)
    a.place(base)
    a.mov(FLEET.it.rtc_second, seconds)
    a.mov(FLEET.it.rtc_tsc, now)
    a.test(seconds, seconds)
    a.set(NZ, FLEET.it.rtc_judges)
    a.ret()
    a.place(useless)
    a.mov(FLEET.it.rtc_judges, 1)
    a.place(out)
    a.ret()


@routine(
    clobbers=CALLER_SAVED,
    reads=[FleetConfig.magic, Fleet.holding, Fleet.rtc_look_at, Clock.tsc_cycles_per_ms],
    writes=[Fleet.rtc_seen],
    calls=[leases_end, clocks_compare],
    source="firmware/docs/fleet.md#hard-stop",
)
def fleet_guard(a: Asm) -> None:
    """Begin a turn: end what is over, and look at the RTC ten times a second.

    Without a fleet it is one comparison.
    """
    out = a.label("out")
    a.cmp(FLEET_CONFIG.it.magic, FLEET_MAGIC)
    with a.if_(NE):
        a.place(out)
        a.ret()
    a.mov(FLEET.it.rtc_seen, 0)
    a.cmp(FLEET.it.holding, 0)
    with a.if_(NE):
        a.mov(EDX, FLEET_EXPIRED.code)
        a.call(leases_end)
    a.cmp(CLOCK.it.tsc_cycles_per_ms, 0)
    a.j(E, out)
    a.rdtsc64()
    a.cmp(RAX, FLEET.it.rtc_look_at)
    a.j(B, out)
    a.jmp(clocks_compare)


@routine(
    outputs=[
        Out(CF, "1 = it looked: slots may be GONE, and Fleet.rtc_doubt says whether it could tell")
    ],
    clobbers=CALLER_SAVED,
    reads=[FleetConfig.magic, Fleet.holding, Fleet.rtc_seen, Clock.tsc_cycles_per_ms],
    calls=[clocks_compare],
    source="firmware/docs/fleet.md#frozen-clock",
)
def fleet_look(a: Asm) -> None:
    """Look at the RTC before a shard may speak, once in a turn; for a node that holds something.

    Somebody else may speak for the slot when the machine was stopped since the last turn, and no interval
    of the TSC says whether it was: it is the TSC that stood still. So every turn in which a shard may
    speak looks for itself, and a turn in which none may needs no look, however many there are.
    """
    none = a.label("none")
    a.cmp(FLEET_CONFIG.it.magic, FLEET_MAGIC)
    a.j(NE, none)
    a.cmp(FLEET.it.holding, 0)
    a.j(E, none)
    a.cmp(FLEET.it.rtc_seen, 0)
    a.j(NE, none)
    a.cmp(CLOCK.it.tsc_cycles_per_ms, 0)
    a.j(E, none)
    a.call(clocks_compare)
    a.stc()
    a.ret()
    a.place(none)
    a.clc()
    a.ret()
