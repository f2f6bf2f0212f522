"""The arenas of the node: few for all shards, lent in the order in which shards asked."""

from __future__ import annotations

from firmware.layouts.tls import Hybrid
from firmware.limits import SHARDS_MAX
from toolchain.asm.operands import Region
from toolchain.layout import Global, Struct, array, enum32, ptr, u32

ARENAS_MAX = 4
"""Handshakes at a time: 64 shards that connect at once queue for as long as 16 handshakes take."""
ARENA = Region("an arena", "of the pool, as long as a TlsArena")


class ArenaSlot(Struct):
    """One arena."""

    SIZE = 0x10
    address = ptr(0x00, "TlsArena; 0 = this one was not made")
    owner = ptr(0x08, "ShardContext that has it; 0 = it is free, and zero throughout")


class Waiting(Struct):
    """A place in the queue."""

    SIZE = 8
    shard = ptr(0x00, "ShardContext that waits")


class TlsPool(Struct):
    """Arenas, the queue for them, and what all handshakes share."""

    SIZE = 0x50 + 8 * SHARDS_MAX
    slots = array(0x00, ArenaSlot, ARENAS_MAX, "the arenas")
    waiting = u32(0x40, "shards in the queue")
    hybrid = enum32(0x44, Hybrid, "what hellos say of X25519MLKEM768, as configured")
    trust = ptr(0x48, "TrustStore: the anchors of every chain")
    queue = array(0x50, Waiting, SHARDS_MAX, "who waits, the first one first")


TLS_POOL = Global("tls_pool", TlsPool, "arenas for handshakes", align=64)
