"""A node that holds nothing: how it finds out that its server is cut off, and how often it goes to another one.

Who holds a slot learns it by its renewals, who may claim one by its claim. Nobody else asks a server for anything.
"""

from firmware.abi import CALLER_SAVED
from firmware.bus.link import bus_fail
from firmware.fleet.operation import jitter
from firmware.fleet.watch import watch_end
from firmware.layouts.bus import BusLink
from firmware.layouts.clock import NEVER
from firmware.layouts.fleet import (
    FLEET,
    IDLE_JITTER_MS,
    IDLE_MS,
    ROUND_JITTER_MS,
    ROUND_MS,
    ROUND_RETRY_JITTER_MS,
    ROUND_RETRY_MS,
    Fleet,
    WatchState,
)
from firmware.layouts.fleet_config import FLEET_CONFIG, FleetConfig
from firmware.layouts.fleet_sites import FLEET_IDLE, FLEET_UNANSWERED
from firmware.layouts.node import CLOCK, Clock, CoreState, core
from firmware.layouts.shard import ShardContext
from toolchain.asm import (
    AE,
    AL,
    EAX,
    ECX,
    EDX,
    NE,
    RAX,
    RBP,
    RBX,
    RCX,
    A,
    Asm,
    B,
    E,
    In,
    Reg64,
    routine,
)


def _after(a: Asm, least_ms: int, spread_ms: int) -> None:
    """RAX := the TSC after so many milliseconds and a random part of as many more."""
    a.mov(EAX, spread_ms)
    a.call(jitter)
    a.imul(RCX, CLOCK.it.tsc_cycles_per_ms, least_ms)
    a.add(RAX, RCX)
    a.add(RAX, core.now)


@routine(
    inputs=[In(RAX, int, "TSC when something may be claimed; all ones = nothing is awaited")],
    clobbers=CALLER_SAVED,
    reads=[
        Fleet.watch,
        Fleet.holding,
        Fleet.idle_at,
        CoreState.now,
        Clock.tsc_cycles_per_ms,
    ],
    writes=[Fleet.idle_at],
    calls=[jitter, watch_end],
    source="firmware/docs/fleet.md#another-server",
)
def watch_idle(a: Asm, due: Reg64) -> None:
    """End a watch that has long shown nothing new to a node that may claim nothing.

    A server that was cut off would let it beat on for ever, and makes no other one.
    """
    useful = a.label("useful")
    a.cmp(due, NEVER)
    a.j(NE, useful)
    a.cmp(FLEET.it.watch, WatchState.SYNCED)
    a.j(NE, useful)
    a.cmp(FLEET.it.holding, 0)
    a.j(NE, useful)
    a.mov(RAX, FLEET.it.idle_at)
    a.test(RAX, RAX)
    with a.if_(E):
        _after(a, IDLE_MS, IDLE_JITTER_MS)
        a.mov(FLEET.it.idle_at, RAX)
    a.cmp(RAX, core.now)
    with a.if_(A):
        a.ret()
    a.mov(EDX, FLEET_IDLE.code)
    a.call(watch_end)
    a.place(useful)
    a.mov(FLEET.it.idle_at, 0)
    a.ret()


@routine(
    inputs=[In(RBP, BusLink, "CONTROL, UP"), In(RBX, ShardContext, "its workspace")],
    clobbers=CALLER_SAVED,
    reads=[
        Fleet.holding,
        Fleet.left,
        Fleet.move_at,
        FleetConfig.servers_used,
        CoreState.now,
        Clock.tsc_cycles_per_ms,
    ],
    writes=[Fleet.left, Fleet.move_at, Fleet.resync_at],
    calls=[jitter, bus_fail],
    source="firmware/docs/fleet.md#another-server",
)
def server_leave(a: Asm, link: BusLink, shard: ShardContext) -> None:
    """Go to the next server of the list; who holds nothing and has tried all of them takes its time."""
    with a.block() as at_once:
        a.cmp(FLEET.it.holding, 0)
        a.leave(NE, at_once)
        a.mov(RAX, FLEET.it.move_at)
        a.cmp(RAX, core.now)
        a.leave(B, at_once)
        _after(a, ROUND_RETRY_MS, ROUND_RETRY_JITTER_MS)
        a.mov(FLEET.it.resync_at, RAX)
        a.ret()
    a.movzx(EAX, FLEET.it.left)
    a.movzx(ECX, FLEET_CONFIG.it.servers_used)
    with a.block() as counted:
        a.cmp(EAX, ECX)
        a.leave(AE, counted)
        a.inc(EAX)
        a.mov(FLEET.it.left, AL)
    a.cmp(EAX, ECX)
    with a.if_(E):
        _after(a, ROUND_MS, ROUND_JITTER_MS)
        a.mov(FLEET.it.move_at, RAX)
    a.mov(EDX, FLEET_UNANSWERED.code)
    a.jmp(bus_fail)
