"""The Identify allowance: so many per day, counted over resets (decision 20)."""

from firmware.abi import CALLER_SAVED
from firmware.cpu.date import date_now
from firmware.fleet.budget import budget_spent, budget_tell
from firmware.layouts.clock import SECOND_MS
from firmware.layouts.config import CONFIG, ConfigBlob
from firmware.layouts.discovery import DISCOVERY, Discovery, DiscoveryMode, DiscoveryState
from firmware.layouts.fleet_config import FLEET_CONFIG, FLEET_MAGIC, FleetConfig
from firmware.layouts.fleet_tickets import BUDGET_ASK_MS, FLEET_BUDGET, BudgetOp
from firmware.layouts.log import IDENTIFY_REFUSED, IDENTIFY_SPENT
from firmware.layouts.node import CLOCK, Clock, CoreState, core
from firmware.layouts.permit import PERMITS, Permits
from firmware.layouts.shard import Hold, ShardContext
from firmware.layouts.survivor import ALLOWANCE_WINDOW_S, SURVIVOR, Survivor
from firmware.log import log, log_write
from firmware.memory.kept import survivor_store
from firmware.shard.resume import shard_is_resumable
from toolchain.asm import (
    AE,
    CF,
    EAX,
    ECX,
    EDX,
    NC,
    NE,
    R8,
    R8D,
    RAX,
    RBX,
    RCX,
    RDX,
    Asm,
    B,
    C,
    E,
    In,
    Out,
    Z,
    routine,
)


@routine(
    outputs=[Out(CF, "1 = the service has no session start left for us")],
    clobbers=[RAX, RCX],
    reads=[
        FleetConfig.magic,
        Permits.total,
        Permits.owned,
        Permits.remaining,
        Permits.reset_at,
        CoreState.now,
        Clock.tsc_cycles_per_ms,
    ],
    writes=[Permits.remaining, Permits.reset_at],
    source="firmware/docs/lifecycle.md#allowance",
)
def starts_spent(a: Asm) -> None:
    """Tell whether what discovery said of session starts is used up; they come back once a day.

    In a fleet all nodes use them up together, and the budget's record counts them.
    """
    permits, unknown = PERMITS.it, a.label("unknown")
    a.cmp(FLEET_CONFIG.it.magic, FLEET_MAGIC)
    a.j(E, unknown)
    a.mov(ECX, permits.total)
    a.test(ECX, ECX)
    a.j(Z, unknown)
    a.mov(RAX, core.now)
    a.cmp(RAX, permits.reset_at)
    with a.if_(AE):
        a.mov(permits.remaining, ECX)
        a.imul(RCX, CLOCK.it.tsc_cycles_per_ms, ALLOWANCE_WINDOW_S * SECOND_MS)
        a.add(RAX, RCX)
        a.mov(permits.reset_at, RAX)
    a.mov(EAX, permits.owned)
    a.cmp(EAX, permits.remaining)
    a.cmc()
    a.ret()
    a.place(unknown)
    a.clc()
    a.ret()


@routine(
    outputs=[Out(CF, "1 = no Identify is left in this window")],
    clobbers=[RAX, RCX, RDX],
    reads=[ConfigBlob.identify_allowance, Permits.owned, Survivor.identified, Survivor.window_at],
    writes=[Survivor.identified, Survivor.window_at],
    calls=[date_now, starts_spent],
    source="firmware/docs/lifecycle.md#allowance",
)
def allowance_spent(a: Asm) -> None:
    """Tell whether the Identifies sent, and those that hold a permit, use the allowance up."""
    facts, left = SURVIVOR.it, a.label("left")
    a.mov(EAX, CONFIG.it.identify_allowance)
    a.test(EAX, EAX)
    a.j(Z, left)  # no bound

    # A window that is over starts anew. When the date went back the count stays, to be safe.
    a.call(date_now)
    a.mov(RCX, RAX)
    a.sub(RAX, facts.window_at)
    with a.if_(B):
        a.mov(facts.window_at, RCX)
    with a.else_():
        a.cmp(RAX, ALLOWANCE_WINDOW_S)
        with a.if_(AE):
            a.mov(facts.identified, 0)
            a.mov(facts.window_at, RCX)

    a.mov(EAX, facts.identified)
    a.add(EAX, PERMITS.it.owned)
    a.cmp(EAX, CONFIG.it.identify_allowance)
    a.j(B, left)
    a.stc()
    a.ret()
    a.place(left)
    a.jmp(starts_spent)


@routine(
    outputs=[Out(CF, "1 = it is not asked now")],
    clobbers=[RAX, RCX],
    reads=[
        ConfigBlob.discovery,
        Discovery.state,
        Permits.total,
        Permits.reset_at,
        BudgetOp.ask_at,
        CoreState.now,
        Clock.tsc_cycles_per_ms,
    ],
    writes=[BudgetOp.ask_at, Discovery.state],
    source="firmware/docs/fleet.md#budget",
)
def allowance_ask(a: Asm) -> None:
    """Let a shard that the fleet's budget holds ask the service: at first, and when all starts are back."""
    asked, no = a.label("asked"), a.label("no")
    a.cmp(CONFIG.it.discovery, DiscoveryMode.HTTP)
    a.jne(no)
    a.cmp(DISCOVERY.it.state, DiscoveryState.FOUND)
    a.j(B, asked)  # nobody has asked yet, or somebody does
    a.jne(no)  # REFUSED
    a.cmp(PERMITS.it.total, 0)
    a.je(no)  # it says nothing about session starts
    a.mov(RAX, core.now)
    a.cmp(RAX, PERMITS.it.reset_at)
    a.j(B, no)
    a.cmp(RAX, FLEET_BUDGET.it.ask_at)
    a.j(B, no)
    a.imul(RCX, CLOCK.it.tsc_cycles_per_ms, BUDGET_ASK_MS)
    a.add(RAX, RCX)
    a.mov(FLEET_BUDGET.it.ask_at, RAX)
    a.mov(DISCOVERY.it.state, DiscoveryState.IDLE)
    a.place(asked)
    a.clc()
    a.ret()
    a.place(no)
    a.stc()
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "a shard that is about to start")],
    outputs=[Out(EAX, "Hold.NO_IDENT_BUDGET, or 0")],
    clobbers=CALLER_SAVED,
    reads=[ShardContext.hold, Survivor.identified, ConfigBlob.identify_allowance],
    calls=[
        shard_is_resumable,
        allowance_spent,
        allowance_ask,
        budget_spent,
        budget_tell,
        log_write,
    ],
    source="firmware/docs/lifecycle.md#allowance",
)
def allowance_hold(a: Asm, shard: ShardContext) -> None:
    """Hold a shard that needs an Identify when none is left; it says so once."""
    free = a.label("free")
    a.call(shard_is_resumable)
    a.j(C, free)
    a.call(allowance_spent)
    with a.if_(NC):
        a.call(budget_spent)
        a.j(NC, free)
        a.call(allowance_ask)
        a.j(NC, free)
        a.call(budget_tell)
        a.mov(EAX, Hold.NO_IDENT_BUDGET)
        a.ret()
    a.cmp(shard.hold, Hold.NO_IDENT_BUDGET)
    with a.if_(NE):
        a.mov(EDX, Hold.NO_IDENT_BUDGET)
        a.mov(ECX, SURVIVOR.it.identified)
        a.mov(R8D, CONFIG.it.identify_allowance)
        log(a, IDENTIFY_REFUSED, RBX)
    a.mov(EAX, Hold.NO_IDENT_BUDGET)
    a.ret()
    a.place(free)
    a.xor(EAX, EAX)
    a.ret()


@routine(
    clobbers=CALLER_SAVED,
    reads=[
        ConfigBlob.identify_allowance,
        Survivor.identified,
        Survivor.window_at,
        Permits.remaining,
    ],
    writes=[Survivor.identified, Survivor.window_at, Permits.remaining],
    calls=[date_now, survivor_store, log_write],
    source="firmware/docs/lifecycle.md#allowance",
)
def allowance_count(a: Asm) -> None:
    """Count an Identify that was sent; the last of the window is said aloud."""
    facts = SURVIVOR.it
    a.call(date_now)
    a.mov(R8, RAX)
    a.cmp(facts.identified, 0)
    with a.if_(E):
        a.mov(facts.window_at, RAX)
    a.cmp(PERMITS.it.remaining, 0)
    with a.if_(NE):
        a.dec(PERMITS.it.remaining)
    a.inc(facts.identified)
    a.mov(EDX, facts.identified)
    a.mov(ECX, CONFIG.it.identify_allowance)
    a.cmp(EDX, ECX)
    with a.if_(E):
        a.neg(R8)
        a.add(R8, facts.window_at)
        a.add(R8, ALLOWANCE_WINDOW_S)
        log(a, IDENTIFY_SPENT)
    a.jmp(survivor_store)
