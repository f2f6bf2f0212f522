"""The watch: one ordered consumer of all keys under `ctl.`, and what it takes to trust it.

A delivery that is missing, a heartbeat that counts otherwise, silence, another connection: each ends the
watch, and all that it showed is forgotten. Only what a gap-free watch shows is evidence.
"""

from firmware.abi import CALLER_SAVED
from firmware.fleet.tokens import ERROR, key_find, key_number
from firmware.layouts.bus import BUS, BUS_IN, CONTROL, BusLink, BusMessage, LinkState
from firmware.layouts.fleet import (
    FLEET,
    FLEET_VIEW,
    MOVE_MS,
    WATCH_RETRY_MS,
    WATCH_SID,
    WATCH_SILENCE_MS,
    Fleet,
    FleetView,
    WatchState,
)
from firmware.layouts.fleet_sites import FLEET_LINK, FLEET_REFUSED, FLEET_SILENT
from firmware.layouts.log import FLEET_WATCH
from firmware.layouts.node import CLOCK, Clock, CoreState, core
from firmware.log import log, log_write
from toolchain.asm import (
    BE,
    CF,
    EAX,
    ECX,
    EDX,
    NC,
    NE,
    NZ,
    R8,
    R8D,
    RAX,
    RCX,
    RDI,
    RDX,
    RSI,
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

CODE = constant("fleet_code_key", b'"code":', "what kind of error an answer tells, as in HTTP")
UNABLE = 503
PENDING = constant("fleet_pending_key", b'"num_pending":', "deliveries that a new consumer has")


@routine(
    clobbers=[RAX, RCX, RDI],
    writes=[FleetView, Fleet.watch, Fleet.watch_inbox, Fleet.consumer_seq],
    source="firmware/docs/fleet.md#watch",
)
def watch_forget(a: Asm) -> None:
    """Forget all that a watch showed; what this node holds stays."""
    a.lea(RDI, FLEET_VIEW.address)
    a.xor(EAX, EAX)
    a.mov(ECX, FleetView.SIZE // 8)
    a.rep_stosq()
    a.mov(FLEET.it.watch, WatchState.OFF)
    a.mov(FLEET.it.watch_inbox, EAX)
    a.mov(FLEET.it.consumer_seq, RAX)
    a.ret()


@routine(
    inputs=[In(EDX, int, "site code: why it ends")],
    clobbers=CALLER_SAVED,
    reads=[Fleet.resyncs, Fleet.error],
    writes=[Fleet.error],
    calls=[watch_forget, log_write],
    source="firmware/docs/fleet.md#watch",
)
def watch_end(a: Asm, reason: Reg32) -> None:
    """End the watch: what it showed is no evidence any more."""
    a.mov(FLEET.it.error, reason)
    a.call(watch_forget)
    _tell(a, WatchState.OFF)
    a.ret()


def _tell(a: Asm, state: WatchState) -> None:
    """Log what became of the watch: number, and the site of its end."""
    a.mov(EDX, state)
    a.mov(ECX, FLEET.it.resyncs)
    if state == WatchState.OFF:
        a.mov(R8D, FLEET.it.error)
        a.shr(R8D, 16)
        a.and_(R8D, 0xFF)
    else:
        a.xor(R8D, R8D)
    log(a, FLEET_WATCH)


@routine(
    inputs=[In(EAX, int, "number of the request that makes the consumer")],
    outputs=[Out(EDX, "subscription of the last watch on this connection; 0 = there was none")],
    clobbers=[RAX, RCX],
    reads=[CoreState.now, Clock.tsc_cycles_per_ms, Fleet.watch_sid, Fleet.resyncs],
    writes=[
        Fleet.resyncs,
        Fleet.watch,
        Fleet.watch_sid,
        Fleet.watch_inbox,
        Fleet.heard_at,
        Fleet.begun_at,
        Fleet.resync_at,
    ],
    source="firmware/docs/fleet.md#watch",
)
def watch_begin(a: Asm, request: Reg32) -> None:
    """Begin a watch under a new name and a new subscription; nothing of an old one is taken for it."""
    a.mov(FLEET.it.watch_inbox, request)
    a.mov(EDX, FLEET.it.watch_sid)
    a.inc(FLEET.it.resyncs)
    a.mov(EAX, FLEET.it.resyncs)
    a.or_(EAX, WATCH_SID)
    a.mov(FLEET.it.watch_sid, EAX)
    a.mov(FLEET.it.watch, WatchState.CREATING)
    a.mov(RAX, core.now)
    a.mov(FLEET.it.heard_at, RAX)
    a.test(EDX, EDX)
    with a.if_(Z):
        a.mov(FLEET.it.begun_at, RAX)
    a.imul(RCX, CLOCK.it.tsc_cycles_per_ms, WATCH_RETRY_MS)
    a.add(RAX, RCX)
    a.mov(FLEET.it.resync_at, RAX)
    a.ret()


@routine(
    outputs=[Out(CF, "1 = a new watch is due")],
    clobbers=CALLER_SAVED,
    reads=[
        BusLink.state,
        BusLink.ups,
        Fleet.ups,
        Fleet.watch,
        Fleet.heard_at,
        Fleet.resync_at,
        Fleet.watch_inbox,
        CoreState.now,
        Clock.tsc_cycles_per_ms,
    ],
    writes=[Fleet.ups, Fleet.watch_sid, Fleet.resync_at, Fleet.move],
    calls=[watch_end],
    source="firmware/docs/fleet.md#watch",
)
def watch_check(a: Asm) -> None:
    """End a watch whose connection is gone or that says nothing; tell whether one is to begin."""
    link = BusLink.at(RCX)
    same, off, no = a.label("same"), a.label("off"), a.label("no")
    a.lea(RCX, BUS.it.links.m8(CONTROL * BusLink.SIZE))
    a.mov(EAX, link.ups)
    a.cmp(EAX, FLEET.it.ups)
    with a.block() as gone:
        a.leave(NE, gone)
        a.cmp(link.state, LinkState.UP)
        a.j(E, same)
    # Whatever was subscribed on the old connection is gone with it.
    a.mov(FLEET.it.ups, EAX)
    a.mov(FLEET.it.watch_sid, 0)
    a.mov(FLEET.it.resync_at, 0)
    a.cmp(FLEET.it.watch, WatchState.OFF)
    with a.if_(NE):
        a.mov(EDX, FLEET_LINK.code)
        a.call(watch_end)
    a.lea(RCX, BUS.it.links.m8(CONTROL * BusLink.SIZE))
    a.cmp(link.state, LinkState.UP)
    a.j(NE, no)
    a.place(same)
    a.imul(RDX, CLOCK.it.tsc_cycles_per_ms, WATCH_SILENCE_MS)
    a.test(RDX, RDX)
    a.j(Z, no)
    a.cmp(FLEET.it.watch, WatchState.OFF)
    a.j(E, off)
    a.mov(RAX, core.now)
    a.sub(RAX, FLEET.it.heard_at)
    a.cmp(RAX, RDX)
    a.j(BE, no)
    # A server that never answered to the request for a consumer is not asked again.
    a.cmp(FLEET.it.watch_inbox, 0)
    with a.if_(NE):
        a.mov(FLEET.it.move, 1)
    a.mov(EDX, FLEET_SILENT.code)
    a.call(watch_end)
    a.place(off)
    a.mov(RAX, core.now)
    a.cmp(RAX, FLEET.it.resync_at)
    a.cmc()
    a.ret()
    a.place(no)
    a.clc()
    a.ret()


@routine(
    clobbers=CALLER_SAVED,
    writes=[Fleet.watch, Fleet.left, Fleet.move_at],
    reads=[Fleet.watch, Fleet.resyncs],
    calls=[log_write],
    source="firmware/docs/fleet.md#watch",
)
def watch_synced(a: Asm) -> None:
    """Note that the watch has shown all that there is; said once for each watch.

    Its server has the cluster, or had it just now: no other one is better.
    """
    a.cmp(FLEET.it.watch, WatchState.SYNCED)
    with a.if_(NE):
        a.mov(FLEET.it.left, 0)
        a.mov(FLEET.it.move_at, 0)
        a.mov(FLEET.it.watch, WatchState.SYNCED)
        _tell(a, WatchState.SYNCED)
    a.ret()


def try_another(a: Asm) -> None:
    """Ask for another server, but for a young connection: an election passes; clobbers RAX."""
    a.imul(RAX, CLOCK.it.tsc_cycles_per_ms, MOVE_MS)
    a.add(RAX, FLEET.it.begun_at)
    a.cmp(RAX, core.now)
    with a.if_(B):
        a.mov(FLEET.it.move, 1)


@routine(
    clobbers=CALLER_SAVED,
    reads=[
        BusMessage.status,
        BusMessage.body,
        BusMessage.body_len,
        Fleet.watch,
        Fleet.consumer_seq,
        Fleet.begun_at,
        CoreState.now,
        Clock.tsc_cycles_per_ms,
    ],
    writes=[Fleet.watch_inbox, Fleet.watch, Fleet.resync_at, Fleet.move],
    calls=[key_find, key_number, watch_end, watch_synced],
    source="firmware/docs/fleet.md#watch",
)
def watch_answered(a: Asm) -> None:
    """Take the answer to the request for a consumer; deliveries may have come before it."""
    refused = a.label("refused")
    a.mov(FLEET.it.watch_inbox, 0)
    a.cmp(BUS_IN.it.status, 0)
    a.j(NE, refused)

    def body() -> None:
        a.mov(RSI, BUS_IN.it.body)
        a.mov(R8D, BUS_IN.it.body_len)
        a.add(R8, RSI)

    body()
    a.lea(RDI, ERROR.address)
    a.mov(EDX, ERROR.size)
    a.call(key_find)
    a.j(NC, refused)
    body()
    a.lea(RDI, PENDING.address)
    a.mov(EDX, PENDING.size)
    a.call(key_number)
    a.j(C, refused)
    # Nothing is there to be shown: nobody can claim anything, and that is known.
    a.or_(RAX, FLEET.it.consumer_seq)
    with a.if_(Z):
        a.jmp(watch_synced)
    a.cmp(FLEET.it.watch, WatchState.CREATING)
    with a.if_(E):
        a.mov(FLEET.it.watch, WatchState.SYNCING)
    a.ret()
    a.place(refused)
    a.mov(RAX, core.now)
    a.imul(RCX, CLOCK.it.tsc_cycles_per_ms, WATCH_RETRY_MS)
    a.add(RAX, RCX)
    a.mov(FLEET.it.resync_at, RAX)
    # A server that has lost the others says so; of other errors every server would tell.
    body()
    a.lea(RDI, CODE.address)
    a.mov(EDX, CODE.size)
    a.call(key_number)
    with a.if_(NC):
        a.cmp(RAX, UNABLE)
        with a.if_(E):
            try_another(a)
    a.mov(EDX, FLEET_REFUSED.code)
    a.movzx(EAX, BUS_IN.it.status)
    # Nobody serves JetStream here.
    a.test(EAX, EAX)
    with a.if_(NZ):
        a.mov(FLEET.it.move, 1)
    a.or_(EDX, EAX)
    a.jmp(watch_end)
