"""What is published and not yet acknowledged, and messages that are put together before they are.

Every position is absolute: it counts the bytes that ever went through the ring, and its low bits
are the place.
"""

from __future__ import annotations

import enum

from firmware.layouts.events import Notice
from toolchain.asm.operands import Region
from toolchain.layout import Global, Struct, array, bytes_, enum8, ptr, u8, u32, u64

STREAM = b"SHARDFW_EV"
"""The stream that the events go to; its name stands in every acknowledgement."""
ENTRIES = 512
"""Publications that may wait for their acknowledgement."""
ASSEMBLIES = 4
ACK_TIMEOUT_MS = 10_000
"""A publication that nobody acknowledged for so long ends its shard's connection."""
AGAIN_MS = 250
"""What the stream does not take is sent again after this: an election of a leader takes some of them."""
UNTAKEN_MS = 3_000
"""A server by which the stream took nothing for so long is left: three have a turn before ACK_TIMEOUT_MS."""
STALL_PART = 4
"""A shard that finds no room reads on after this part of a heartbeat interval."""
OWED_PART = 2
"""It does so, too, when an ACK is owed for this part of the interval, or RESUMED for this part of its time; see `stall_over`."""
STALL_RETRY_MS = 5
"""From one walk over the shards that find no room to the next."""
ASSEMBLY_MS = 5_000
"""A message that does not grow for so long, while its shard reads, gives its buffer up when there is no other."""
ASSEMBLY_WHOLE_MS = 10_000
"""So does one that is not whole after this."""
TURN_MS = 50
"""Whose turn it is and who does not ask for so long loses it."""
STUB_MAX = 0x100
HEAD_MAX = 1024
"""Control line and headers; see `head_bytes`."""
NAME_UNKNOWN = b"UNKNOWN"
NAME_OVERSIZE = b"SHARDFW_OVERSIZE"
NOTICE_NAMES = {kind: b"SHARDFW_" + kind.name.encode() for kind in Notice}
"""Types of the node's own notices on the bus."""

OUTBOX_RING = Region("the outbox", "OUTBOX_BYTES at its base, mapped twice in a row")
ASSEMBLY = Region("an assembly buffer", "ASSEMBLY_BYTES, bounded by `filled`")


class EntryState(enum.IntEnum):
    """What became of a publication."""

    WAITING = 0
    DONE = 1
    FAILED = 2


class OutboxEntry(Struct):
    """One publication; its number is its place in the order, modulo ENTRIES."""

    SIZE = 0x20
    end = u64(0x00, "position behind its last byte")
    queued_at = u64(0x08, "TSC")
    sequence = u32(0x10, "`s` of the dispatch")
    connection = u32(0x14, "ShardContext.connection that it came over")
    slot = u8(0x18, "of its shard")
    state = enum8(0x19, EntryState, "what became of it")


class Assembly(Struct):
    """One buffer for a message that comes in parts."""

    SIZE = 0x20
    owner = u32(0x00, "slot + 1 of the shard whose message it holds; 0 = free")
    filled = u32(0x04, "bytes")
    bytes_at = ptr(0x08, "ASSEMBLY_BYTES")
    since = u64(0x10, "TSC of its last part, later by what its shard waited for room since")
    begun = u64(0x18, "TSC of its first one, likewise")


_HEAD_AT = 0xC0
_STUB_AT = _HEAD_AT + HEAD_MAX
_ASSEMBLIES_AT = _STUB_AT + STUB_MAX
_ENTRIES_AT = _ASSEMBLIES_AT + ASSEMBLIES * Assembly.SIZE


class Outbox(Struct):
    """The ring of publications."""

    SIZE = _ENTRIES_AT + ENTRIES * OutboxEntry.SIZE
    base = ptr(0x00, "first byte of the ring; 0 = nothing is published")
    freed = u64(0x08, "position of the oldest byte that is kept")
    sent = u64(0x10, "position of the next byte that goes to the link")
    end = u64(0x18, "position behind the last byte")
    first = u32(0x20, "number of the oldest publication that waits")
    next = u32(0x24, "number of the next one")
    ups = u32(0x28, "BusLink.ups of DATA that `sent` belongs to")
    head_len = u32(0x2C, "bytes of `head`")
    notice = u32(0x6C, "1 = a notice is being published: its Msg-Id is the node's own")
    sending = u32(0x68, "number of the publication that the byte at `sent` belongs to")
    published = u64(0x30, "publications queued since boot")
    acknowledged = u64(0x38, "of them acknowledged")
    duplicates = u64(0x40, "of those: known to the stream already")
    refused = u64(0x48, "answered with an error")
    overdue = u64(0x50, "not answered in time")
    oversize = u64(0x58, "told by a stub, because they were too large")
    dropped = u64(0x60, "dispatches that found no room; their shards resume")
    again_at = u64(0x70, "TSC when all that waits is sent again; 0 = nothing was refused")
    refusals = u32(0x78, "times in a row that it had to be, without an acknowledgement between")
    too_large = u32(
        0x7C, "bytes of the smallest publication that the stream refused for its size; 0 = none"
    )
    since = u64(0x80, "TSC of the last acknowledgement, or when there could have been one first")
    turn_at = u64(0x88, "TSC when that shard asked last")
    turn = u32(0x90, "slot + 1 of the shard that gets the next buffer; 0 = the first that asks")
    walk = u32(0x94, "number of the first publication of this walk over the shards")
    look_at = u64(0x98, "TSC of the walk in which they ask for room again; 0 = nobody waits")
    begin = u32(0xA0, "row that this walk begins with")
    head = bytes_(_HEAD_AT, HEAD_MAX, "control line and headers of the publication that is made")
    stub = bytes_(_STUB_AT, STUB_MAX, "what stands for a dispatch that is too large")
    assemblies = array(_ASSEMBLIES_AT, Assembly, ASSEMBLIES, "messages that are put together")
    entries = array(_ENTRIES_AT, OutboxEntry, ENTRIES, "by number")


OUTBOX = Global("outbox", Outbox, "what is published and not yet acknowledged", align=64)
