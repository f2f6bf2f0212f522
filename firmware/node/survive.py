"""What a boot makes of the kept pages, and what the node keeps in them while it runs (decision 20)."""

from firmware.abi import CALLER_SAVED
from firmware.cpu.date import date_now
from firmware.layouts.clock import SECOND_MS
from firmware.layouts.fleet_config import FLEET_CONFIG, FLEET_MAGIC, NAME_MAX, FleetConfig
from firmware.layouts.log import BOOT_WARM, NODE_CRASH_LOOP, NODE_RELEASED
from firmware.layouts.node import CLOCK, Clock, CoreState, core
from firmware.layouts.survivor import (
    CRASH_WINDOW_S,
    CRASHES_HOLD,
    KEPT,
    SUMMED_QUADS,
    SURVIVAL,
    SURVIVOR,
    SURVIVOR_BYTES,
    SURVIVOR_MAGIC,
    HoldEnd,
    Survival,
    Survivor,
)
from firmware.layouts.token import TOKEN, BotToken
from firmware.limits import SURVIVOR_PAGE, TOKEN_MAX
from firmware.log import log, log_write
from firmware.memory.kept import kept_sum, survivor_store
from firmware.node.lease import slots_wake
from toolchain.asm import (
    EAX,
    ECX,
    EDI,
    EDX,
    NE,
    NZ,
    R8,
    R8D,
    R12,
    RAX,
    RCX,
    RDI,
    RSI,
    A,
    Asm,
    B,
    E,
    Z,
    routine,
)

LAST = 8 * (CRASHES_HOLD - 1)
"""Offset of the oldest crash that is known."""


@routine(
    clobbers=CALLER_SAVED,
    reads=[Survivor, BotToken, FleetConfig.magic],
    writes=[Survivor, Survival.page, Survival.taken_over, Survival.before_at, KEPT],
    calls=[kept_sum],
    saves=[R12],
    source="firmware/docs/boot.md#kept-pages",
)
def survive_adopt(a: Asm) -> None:
    """Take the kept pages over when they are whole and of this bot; else clear them."""
    kept, fresh, done = Survivor.at(RDI), a.label("fresh"), a.label("done")
    a.lea(RSI, TOKEN.it.text.address)
    a.mov(ECX, TOKEN_MAX // 8)
    a.call(kept_sum)
    a.mov(R12, RAX)
    # A node that enrols has no token yet: the fleet's name tells one bot from another.
    a.cmp(FLEET_CONFIG.it.magic, FLEET_MAGIC)
    with a.if_(E):
        a.lea(RSI, FLEET_CONFIG.it.bot.address)
        a.mov(ECX, NAME_MAX // 8)
        a.call(kept_sum)
        a.xor(R12, RAX)
    a.mov(EDI, SURVIVOR_PAGE)
    a.mov(SURVIVAL.it.page, RDI)
    a.mov(RAX, SURVIVOR_MAGIC)
    a.cmp(RAX, kept.magic)
    a.j(NE, fresh)
    a.cmp(R12, kept.bot)
    a.j(NE, fresh)
    a.lea(RSI, kept.boots)
    a.mov(ECX, SUMMED_QUADS)
    a.call(kept_sum)
    a.cmp(RAX, kept.sum)
    a.j(NE, fresh)
    a.mov(RSI, RDI)
    a.lea(RDI, SURVIVOR.address)
    a.mov(ECX, Survivor.SIZE // 8)
    a.rep_movsq()
    a.mov(SURVIVAL.it.taken_over, 1)
    a.mov(RAX, SURVIVOR.it.alive_at)
    a.mov(SURVIVAL.it.before_at, RAX)
    a.jmp(done)

    a.place(fresh)
    a.mov(ECX, SURVIVOR_BYTES // 8)
    a.xor(EAX, EAX)
    a.rep_stosq()
    a.mov(RAX, SURVIVOR_MAGIC)
    a.mov(SURVIVOR.it.magic, RAX)
    a.mov(SURVIVOR.it.bot, R12)
    a.place(done)
    a.ret()


@routine(
    clobbers=CALLER_SAVED,
    reads=[Survivor.crash_at],
    writes=[Survivor.crash_at, Survival.held],
    calls=[date_now, log_write],
    source="firmware/docs/lifecycle.md#crash-loop",
)
def survive_crash(a: Asm) -> None:
    """Note that the boot before crashed; the third time in ten minutes holds the node."""
    crash = SURVIVOR.it.crash_at
    a.call(date_now)
    a.test(RAX, RAX)
    with a.if_(Z):
        a.inc(RAX)  # zero says that there was none
    for at in range(LAST, 0, -8):  # unrolled: the older ones move down
        a.mov(RCX, crash.m64(at - 8))
        a.mov(crash.m64(at), RCX)
    a.mov(crash.m64(0), RAX)
    a.mov(RCX, crash.m64(LAST))
    a.test(RCX, RCX)
    with a.if_(Z):
        a.ret()
    a.sub(RAX, RCX)
    a.cmp(RAX, CRASH_WINDOW_S)
    with a.if_(A):
        a.ret()
    a.mov(SURVIVAL.it.held, 1)
    a.mov(EDX, CRASHES_HOLD)
    a.mov(RCX, RAX)
    a.mov(R8D, HoldEnd.POWER_CYCLE_OR_SHARDFW_RELEASE)
    log(a, NODE_CRASH_LOOP)
    a.ret()


@routine(
    clobbers=CALLER_SAVED,
    reads=[
        Survival.crashed,
        Survival.taken_over,
        Survivor.boots,
        Survivor.identified,
        Survivor.window_at,
    ],
    writes=[Survivor.boots, Survivor.alive_at],
    calls=[survive_adopt, survive_crash, date_now, survivor_store, log_write],
    source="firmware/docs/boot.md#kept-pages",
)
def survive_begin(a: Asm) -> None:
    """Look at the kept pages once, before any shard is made."""
    a.call(survive_adopt)
    a.inc(SURVIVOR.it.boots)
    a.call(date_now)
    a.mov(SURVIVOR.it.alive_at, RAX)
    a.cmp(SURVIVAL.it.taken_over, 0)
    with a.if_(NZ):
        a.mov(EDX, SURVIVOR.it.boots)
        a.mov(ECX, SURVIVOR.it.identified)
        a.mov(R8, SURVIVOR.it.window_at)
        log(a, BOOT_WARM)
    a.cmp(SURVIVAL.it.crashed, 0)
    with a.if_(NZ):
        a.call(survive_crash)
    a.jmp(survivor_store)


@routine(
    clobbers=CALLER_SAVED,
    reads=[Survival.alive_due, CoreState.now, Clock.tsc_cycles_per_ms],
    writes=[Survival.alive_due, Survivor.alive_at],
    calls=[date_now, survivor_store],
    source="firmware/docs/boot.md#kept-pages",
)
def survive_tick(a: Asm) -> None:
    """Keep the date once a second, so that the next boot knows when this one ended."""
    a.mov(RAX, core.now)
    a.cmp(RAX, SURVIVAL.it.alive_due)
    with a.if_(B):
        a.ret()
    a.imul(RCX, CLOCK.it.tsc_cycles_per_ms, SECOND_MS)
    a.add(RAX, RCX)
    a.mov(SURVIVAL.it.alive_due, RAX)
    a.call(date_now)
    a.mov(SURVIVOR.it.alive_at, RAX)
    a.jmp(survivor_store)


@routine(
    clobbers=CALLER_SAVED,
    reads=[Survival.held],
    writes=[Survival.held, Survivor.crash_at],
    calls=[slots_wake, survivor_store, log_write],
    source="firmware/docs/lifecycle.md#crash-loop",
)
def survive_release(a: Asm) -> None:
    """Let a held node go, and forget its crashes."""
    a.mov(EDX, SURVIVAL.it.held)
    log(a, NODE_RELEASED)
    a.xor(EAX, EAX)
    a.mov(SURVIVAL.it.held, EAX)
    for at in range(0, LAST + 8, 8):  # unrolled: three dates
        a.mov(SURVIVOR.it.crash_at.m64(at), RAX)
    a.call(slots_wake)
    a.jmp(survivor_store)
