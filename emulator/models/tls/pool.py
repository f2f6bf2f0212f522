"""Arenas of handshakes: first come, first served."""

from emulator.effects import View, World, model
from emulator.models.memory.pages import map_fresh
from firmware.layouts.fleet_config import FLEET_CONFIG, FLEET_MAGIC
from firmware.layouts.node import CORE
from firmware.layouts.shard import ShardContext
from firmware.layouts.tls_arena import TlsArena
from firmware.layouts.tls_pool import TLS_POOL


def _waiting(pool: View) -> list[int]:
    """Return who waits, in order."""
    return [int(pool.queue[n].shard) for n in range(pool.waiting)]


@model
def tls_arena_leave(w: World, shard: int) -> None:
    """The queue without this shard, in the same order."""
    pool = w.g(TLS_POOL)
    before = _waiting(pool)
    if shard not in before:
        return
    at = before.index(shard)
    for n, other in enumerate(before[at + 1 :], at):
        pool.queue[n].shard = other
    pool.waiting = len(before) - 1


@model
def tls_arena_take(w: World, shard: int) -> int:
    """The free arenas belong to the first of the queue, but for one that belongs to links."""
    context, pool = w.view(ShardContext, shard), w.g(TLS_POOL)
    tls, place = context.tls, 0
    if tls.arena_ptr:
        return 0
    slots = [pool.slots[n] for n in range(4)]
    free = [slot for slot in slots if slot.address and not slot.owner]
    if not context.unleased:
        before = _waiting(pool)
        if shard not in before:
            pool.queue[len(before)].shard = shard
            pool.waiting = len(before) + 1
            before.append(shard)
        place = before.index(shard)
        if w.g(FLEET_CONFIG).magic == FLEET_MAGIC and slots[1].address:
            place += 1
    if place >= len(free):
        return 1
    free[place].owner = shard
    tls.arena_ptr = free[place].address
    tls_arena_leave(w, shard)
    return 0


@model
def tls_arena_give(w: World, shard: int) -> None:
    """Zeros, and free; the first of the queue is due now."""
    tls_arena_leave(w, shard)
    tls, pool = w.view(ShardContext, shard).tls, w.g(TLS_POOL)
    tls.arena_ptr = 0
    for n in range(4):
        slot = pool.slots[n]
        if slot.owner == shard:
            slot.owner = 0
            w.write(slot.address, bytes(TlsArena.SIZE))
    for other in _waiting(pool)[:1]:
        core = w.g(CORE)
        core.slots[w.view(ShardContext, other).slot].deadline = core.slots_due = 0


@model
def tls_arenas_make(w: World) -> int:
    """Eleven pages each, unmapped memory between them; EAX counts what there was memory for."""
    pool = w.g(TLS_POOL)
    for n in range(4):
        at = 0x6B00_0000 + n * 0x1_0000
        if map_fresh(w, at, 11):
            return n
        pool.slots[n].address = at
    return 4
