"""Arenas of handshakes: taken before the SYN, first come first served, wiped when given back."""

from firmware.layouts.fleet_config import FLEET_CONFIG, FLEET_MAGIC, FleetConfig
from firmware.layouts.node import CORE, CoreState, Slot, core
from firmware.layouts.shard import ShardContext
from firmware.layouts.tls import TlsContext
from firmware.layouts.tls_arena import TlsArena
from firmware.layouts.tls_pool import ARENA, ARENAS_MAX, TLS_POOL, ArenaSlot, TlsPool, Waiting
from firmware.limits import ARENA_STRIDE, PAGE, WINDOW_ARENAS
from firmware.memory.pages import map_fresh
from toolchain.asm import (
    AE,
    CF,
    EAX,
    ECX,
    EDI,
    EDX,
    ESI,
    NE,
    NZ,
    R8,
    R8D,
    R9,
    R10,
    R12,
    R12D,
    R13,
    RAX,
    RBX,
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
    routine,
)


def _find(a: Asm) -> None:
    """EDX := the shard's place in the queue, or how many wait; RDI := the pool. R8D changes."""
    pool = TlsPool.at(RDI)
    a.lea(RDI, TLS_POOL.address)
    a.mov(R8D, pool.waiting)
    a.xor(EDX, EDX)
    with a.loop() as places:
        a.cmp(EDX, R8D)
        a.leave(AE, places)
        a.cmp(pool.queue.m64(0, index=RDX, scale=Waiting.SIZE), RBX)
        a.leave(E, places)
        a.inc(EDX)
        a.jmp(places.top)


@routine(
    inputs=[In(RBX, ShardContext, "the shard")],
    clobbers=[RAX, RDX, RDI, R8D],
    reads=[TlsPool.waiting, TlsPool.queue],
    writes=[TlsPool.waiting, TlsPool.queue],
    source="firmware/docs/tls.md#arenas",
)
def tls_arena_leave(a: Asm, shard: ShardContext) -> None:
    """Leave the queue; whoever stands behind moves up."""
    pool, done = TlsPool.at(RDI), a.label("done")
    _find(a)
    a.cmp(EDX, R8D)
    a.j(AE, done)
    a.dec(R8D)
    with a.loop() as each:
        a.cmp(EDX, R8D)
        a.leave(AE, each)
        a.mov(RAX, pool.queue.m64(Waiting.SIZE, index=RDX, scale=Waiting.SIZE))
        a.mov(pool.queue.m64(0, index=RDX, scale=Waiting.SIZE), RAX)
        a.inc(EDX)
        a.jmp(each.top)
    a.mov(pool.waiting, R8D)
    a.place(done)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "a shard that is about to connect")],
    outputs=[Out(CF, "1 = none is free for it yet; it keeps its place in the queue")],
    clobbers=[RAX, RCX, RDX, RDI, RSI, R8D],
    reads=[
        TlsContext.arena_ptr,
        TlsPool.waiting,
        TlsPool.queue,
        TlsPool.slots,
        ShardContext.unleased,
        FleetConfig.magic,
    ],
    writes=[TlsContext.arena_ptr, TlsPool.waiting, TlsPool.queue, TlsPool.slots],
    calls=[tls_arena_leave],
    source="firmware/docs/tls.md#arenas",
)
def tls_arena_take(a: Asm, shard: ShardContext) -> None:
    """Take an arena when those that asked before have theirs or leave one over.

    A link of the node stands in no queue, and in a fleet shards leave the last one to it: it carries the
    leases of all of them.
    """
    pool, row = TlsPool.at(RDI), ArenaSlot.at(RSI)
    has, wait, queued, next_one, look = map(a.label, ("has", "wait", "queued", "next_one", "look"))
    a.cmp(shard.tls.arena_ptr, 0)
    a.j(NE, has)
    a.lea(RDI, TLS_POOL.address)
    a.xor(EDX, EDX)
    a.cmp(shard.unleased, 0)
    a.j(NE, look)
    _find(a)
    a.cmp(EDX, R8D)
    a.j(B, queued)
    a.mov(pool.queue.m64(0, index=RDX, scale=Waiting.SIZE), RBX)
    a.inc(pool.waiting)
    a.place(queued)
    a.cmp(FLEET_CONFIG.it.magic, FLEET_MAGIC)
    a.j(NE, look)
    a.cmp(pool.slots.m64(ArenaSlot.SIZE), 0)
    with a.if_(NE):
        a.inc(EDX)  # with the only one there is nothing to leave over
    a.place(look)
    # As many free arenas are passed over as shards stand before this one.
    a.lea(RSI, pool.slots.address)
    a.mov(ECX, ARENAS_MAX)
    with a.loop() as slots:
        a.cmp(row.address, 0)
        a.j(E, next_one)
        a.cmp(row.owner, 0)
        a.j(NE, next_one)
        a.sub(EDX, 1)
        a.leave(B, slots)
        a.place(next_one)
        a.add(RSI, ArenaSlot.SIZE)
        a.dec(ECX)
        a.again(NZ, slots)
        a.jmp(wait)
    a.mov(row.owner, RBX)
    a.mov(RAX, row.address)
    a.mov(shard.tls.arena_ptr, RAX)
    a.call(tls_arena_leave)
    a.place(has)
    a.clc()
    a.ret()
    a.place(wait)
    a.stc()
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "a shard whose handshake is over, or that gives it up")],
    clobbers=[RAX, RCX, RDX, RDI, RSI, R8D],
    reads=[TlsPool.slots, TlsPool.waiting, TlsPool.queue, ShardContext.slot],
    writes=[TlsContext.arena_ptr, TlsPool.slots, ARENA, Slot.deadline, CoreState.slots_due],
    calls=[tls_arena_leave],
    source="firmware/docs/tls.md#arenas",
)
def tls_arena_give(a: Asm, shard: ShardContext) -> None:
    """Wipe the arena, give it back, wake who is next; a shard that still waits waits no more."""
    row = ArenaSlot.at(RSI)
    a.call(tls_arena_leave)
    # The pool says which it is: the shard's own word may be what its fault has left.
    a.xor(EAX, EAX)
    a.mov(shard.tls.arena_ptr, RAX)
    a.lea(RSI, TLS_POOL.it.slots.address)
    a.mov(EDX, ARENAS_MAX)
    with a.loop() as slots:
        a.cmp(row.owner, RBX)
        with a.if_(E):
            a.mov(row.owner, RAX)
            a.mov(RDI, row.address)
            a.mov(ECX, TlsArena.SIZE // 8)
            a.rep_stosq()
        a.add(RSI, ArenaSlot.SIZE)
        a.dec(EDX)
        a.again(NZ, slots)
    # Whoever is first now need not look again by itself.
    a.cmp(TLS_POOL.it.waiting, 0)
    with a.if_(NE):
        a.mov(RDX, TLS_POOL.it.queue.m64())
        a.movzx(EDX, ShardContext.at(RDX).slot)
        a.shl(EDX, Slot.SIZE.bit_length() - 1)
        a.lea(RCX, CORE.it.slots.address)
        a.xor(EAX, EAX)
        a.mov(Slot.at(RCX, index=RDX).deadline, RAX)
        a.mov(core.slots_due, RAX)
    a.ret()


@routine(
    outputs=[Out(EAX, "arenas that were made")],
    clobbers=[RCX, RDX, RSI, RDI, R8, R9, R10],
    writes=[TlsPool.slots],
    calls=[map_fresh],
    saves=[R12, R13],
    source="firmware/docs/tls.md#arenas",
)
def tls_arenas_make(a: Asm) -> None:
    """Map the arenas, as many as there is memory for."""
    row = ArenaSlot.at(R13)
    a.mov(R12D, WINDOW_ARENAS)
    a.lea(R13, TLS_POOL.it.slots.address)
    with a.loop() as each:
        a.mov(EDI, R12D)
        a.mov(ESI, TlsArena.SIZE // PAGE)
        a.call(map_fresh)
        a.leave(C, each)
        a.mov(row.address, R12)
        a.add(R13, ArenaSlot.SIZE)
        a.add(R12D, ARENA_STRIDE)
        a.cmp(R12D, WINDOW_ARENAS + ARENAS_MAX * ARENA_STRIDE)
        a.again(NE, each)
    a.mov(EAX, R12D)
    a.sub(EAX, WINDOW_ARENAS)
    a.shr(EAX, ARENA_STRIDE.bit_length() - 1)
    a.ret()
