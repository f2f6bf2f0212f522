"""Who listens: places are taken, renewed, given up, and free again when nobody renews."""

from firmware.abi import CALLER_SAVED
from firmware.crypto.drbg import drbg_u64
from firmware.layouts.events import (
    EVENT_LEASE_MAX_MS,
    EVENT_LEASE_MIN_MS,
    EVENT_SUBSCRIBERS,
    EVENTS,
    Events,
    EventStream,
    EventSubscriber,
)
from firmware.layouts.log import EVENTS_ENDED, EVENTS_SUBSCRIBED
from firmware.layouts.net import NET, EthernetHeader, NetState
from firmware.layouts.node import CLOCK, CORE, Clock, CoreState, Slot, core
from firmware.layouts.shard import ShardContext
from firmware.log import log, log_write
from toolchain.asm import (
    AX,
    BE,
    CF,
    CL,
    EAX,
    EBP,
    EBX,
    ECX,
    EDI,
    EDX,
    NZ,
    R8,
    R8D,
    R8W,
    R9,
    R9D,
    R10D,
    R12,
    R12D,
    R13,
    R13D,
    R13W,
    R14,
    R14D,
    R15,
    R15D,
    RAX,
    RBP,
    RBX,
    RDI,
    RDX,
    A,
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

PLACE_SHIFT = EventSubscriber.SIZE.bit_length() - 1


@routine(
    inputs=[In(EDX, int, "address, as on the wire"), In(R8D, int, "UDP port")],
    outputs=[Out(RDI, "its EventSubscriber, or a free one, or the first; see CF and ECX"),
             Out(ECX, "1 = it is a free one"), Out(CF, "1 = neither known nor free")],
    clobbers=[RAX],
    reads=[EventSubscriber.expires, EventSubscriber.ip, EventSubscriber.port],
    source="firmware/docs/events.md#places",
)  # fmt: skip
def events_find(a: Asm, ip: Reg32, port: Reg32) -> None:
    """Find the place of a listener, else one that is free."""
    place, free = EventSubscriber.at(RDI), RAX
    a.xor(EAX, EAX)
    a.lea(RDI, EVENTS.it.subscribers.address)
    a.mov(ECX, EVENT_SUBSCRIBERS)
    with a.loop() as search:
        with a.block() as other:
            a.cmp(place.expires, 0)
            with a.if_(E):
                a.mov(free, RDI)
                a.jmp(other)
            a.cmp(place.ip, ip)
            a.leave(NZ, other)
            a.cmp(place.port, R8W)
            a.leave(NZ, other)
            a.xor(ECX, ECX)  # XOR has cleared CF
            a.ret()
        a.add(RDI, EventSubscriber.SIZE)
        a.dec(ECX)
        a.again(NZ, search)
    a.test(free, free)
    with a.if_(Z):
        a.lea(RDI, EVENTS.it.subscribers.address)
        a.stc()
        a.ret()
    a.mov(RDI, free)
    a.inc(ECX)
    a.clc()
    a.ret()


@routine(
    inputs=[In(ECX, int, "which place; it is in use")],
    clobbers=CALLER_SAVED,
    reads=[
        EventSubscriber.ip,
        EventSubscriber.port,
        EventSubscriber.sent,
        EventSubscriber.lost,
        CoreState.slots_used,
        Slot.context,
    ],
    writes=[Events.listeners, EventSubscriber.expires, EventStream.open],
    calls=[log_write],
    saves=[RBX],
    source="firmware/docs/events.md#places",
)
def events_release(a: Asm, index: Reg32) -> None:
    """Make a place free; events that run for it end without another word."""
    place, slot = EventSubscriber.at(RDI), Slot.at(RDX)
    a.mov(EAX, 1)
    a.shl(EAX, CL)
    a.not_(EAX)
    a.mov(EDI, index)
    a.shl(EDI, PLACE_SHIFT)
    a.lea(RDX, EVENTS.it.subscribers.address)
    a.add(RDI, RDX)
    a.xor(EDX, EDX)
    a.mov(place.expires, RDX)
    a.dec(EVENTS.it.listeners)

    # Whoever takes the place next must not get the rest of what runs.
    a.lea(RDX, CORE.it.slots.address)
    a.mov(ECX, core.slots_used)
    a.test(ECX, ECX)
    with a.if_(NZ), a.loop() as shards:
        a.mov(EBX, slot.context)
        a.test(EBX, EBX)
        with a.if_(NZ):
            a.and_(ShardContext.at(RBX).events.open, EAX)
        a.add(RDX, Slot.SIZE)
        a.dec(ECX)
        a.again(NZ, shards)

    a.mov(EDX, place.ip)
    a.movzx(ECX, place.port)
    a.mov(R8, place.sent)
    a.mov(R9, place.lost)
    log(a, EVENTS_ENDED)
    a.ret()


@routine(
    clobbers=CALLER_SAVED,
    reads=[EventSubscriber.expires, CoreState.now],
    calls=[events_release],
    saves=[RBX, R12],
    source="firmware/docs/events.md#places",
)
def events_expire(a: Asm) -> None:
    """Release every place whose time is over."""
    place = EventSubscriber.at(RBX)
    a.lea(RBX, EVENTS.it.subscribers.address)
    a.xor(R12D, R12D)
    with a.loop() as places:
        a.mov(RAX, place.expires)
        a.test(RAX, RAX)
        with a.if_(NZ):
            a.cmp(RAX, core.now)
            with a.if_(BE):
                a.mov(ECX, R12D)
                a.call(events_release)
        a.add(RBX, EventSubscriber.SIZE)
        a.inc(R12D)
        a.cmp(R12D, EVENT_SUBSCRIBERS)
        a.again(B, places)
    a.ret()


@routine(
    inputs=[
        In(EDX, int, "its address, as on the wire"),
        In(R8D, int, "its UDP port"),
        In(ECX, int, "milliseconds until it has to renew; brought within the bounds"),
        In(R9D, int, "first global shard that it wants"),
        In(R10D, int, "how many from there on; EVENT_SHARDS_ALL = all"),
    ],
    outputs=[
        Out(RAX, "events that it has lost so far; 0 when refused"),
        Out(CF, "1 = refused: every place is in use, or there is no clock"),
    ],
    clobbers=CALLER_SAVED,
    reads=[
        Clock.tsc_cycles_per_ms,
        CoreState.now,
        NetState.rx_frame,
        EthernetHeader.source,
        Events.listeners,
        EventSubscriber.lost,
    ],
    writes=[Events.listeners, Events.refused, EventSubscriber],
    calls=[events_expire, events_find, drbg_u64, log_write],
    saves=[RBX, RBP, R12, R13, R14, R15],
    source="firmware/docs/events.md#places",
)
def events_subscribe(
    a: Asm, ip: Reg32, port: Reg32, lease_ms: Reg32, first: Reg32, count: Reg32
) -> None:
    """Take or renew a place for whoever sent the frame in hand; it is told where that came from."""
    place, lease = EventSubscriber.at(RBX), RBP
    refused = a.label("refused")
    a.mov(R12D, ip)
    a.mov(R13D, port)
    a.mov(R14D, first)
    a.mov(R15D, count)
    for bound, beyond in ((EVENT_LEASE_MIN_MS, B), (EVENT_LEASE_MAX_MS, A)):  # unrolled: both
        a.mov(EAX, bound)
        a.cmp(lease_ms, EAX)
        a.cmov(beyond, ECX, EAX)
    # Without a clock nobody could say when it ends.
    a.mov(EBP, ECX)
    a.imul(lease, CLOCK.it.tsc_cycles_per_ms)
    a.test(lease, lease)
    a.jz(refused)
    a.call(events_expire)
    a.mov(EDX, R12D)
    a.mov(R8D, R13D)
    a.call(events_find)
    a.j(C, refused)
    a.mov(RBX, RDI)
    a.test(ECX, ECX)
    with a.if_(NZ):
        a.xor(EAX, EAX)
        a.mov(ECX, EventSubscriber.SIZE // 8)
        a.rep_stosq()
        a.mov(place.ip, R12D)
        a.mov(place.port, R13W)
        a.call(drbg_u64)
        a.mov(place.stream, RAX)
        a.inc(EVENTS.it.listeners)
        a.mov(EDX, R12D)
        a.mov(ECX, R13D)
        a.mov(R8D, EVENTS.it.listeners)
        log(a, EVENTS_SUBSCRIBED)
    a.add(lease, core.now)
    a.mov(place.expires, lease)
    a.mov(place.first, R14D)
    a.mov(place.count, R15D)
    a.mov(RAX, NET.it.rx_frame)
    came = EthernetHeader.at(RAX)
    a.mov(ECX, came.source.m32())
    a.mov(place.mac.m32(), ECX)
    a.mov(AX, came.source.m16(4))
    a.mov(place.mac.m16(4), AX)
    a.mov(RAX, place.lost)
    a.clc()
    a.ret()
    a.place(refused)
    a.inc(EVENTS.it.refused)
    a.xor(EAX, EAX)
    a.stc()
    a.ret()


@routine(
    inputs=[In(EDX, int, "its address, as on the wire"), In(R8D, int, "its UDP port")],
    outputs=[Out(CF, "1 = it has no place")],
    clobbers=CALLER_SAVED,
    calls=[events_find, events_release],
    source="firmware/docs/events.md#places",
)
def events_unsubscribe(a: Asm, ip: Reg32, port: Reg32) -> None:
    """Give up a place."""
    unknown = a.label("unknown")
    a.call(events_find)
    a.j(C, unknown)
    a.test(ECX, ECX)
    a.jnz(unknown)
    a.lea(RAX, EVENTS.it.subscribers.address)
    a.sub(RDI, RAX)
    a.shr(EDI, PLACE_SHIFT)
    a.mov(ECX, EDI)
    a.call(events_release)
    a.clc()
    a.ret()
    a.place(unknown)
    a.stc()
    a.ret()
