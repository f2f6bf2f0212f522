"""Raw dispatch subscribers: who listens, the event that a shard is handing on, and its datagrams."""

from __future__ import annotations

import enum

from firmware.errors import Layer, site
from toolchain.asm.operands import Region
from toolchain.layout import (
    Global,
    Struct,
    array,
    bytes_,
    enum8,
    enum32,
    nested,
    ptr,
    u8,
    u16,
    u32,
    u64,
)

EVENT_MAGIC = 0x3145_4653
"""`SFE1` in memory order."""
EVENT_SUBSCRIBERS = 4
EVENT_BODY_MAX = 1104
"""With headers and the longest name a datagram is as long as the longest TCP segment of ours."""
EVENT_UNKNOWN = 0xFFFF_FFFF
EVENT_SHARDS_ALL = 0xFFFF_FFFF
"""`EventSubscriber.count` of who wants every shard."""
EVENT_LEASE_MIN_MS, EVENT_LEASE_MAX_MS = 1_000, 300_000


class EventKind(enum.IntEnum):
    """What an event is."""

    DISPATCH = 1
    NOTICE = 2


class Verdict(enum.IntEnum):
    """What the last chunk of a dispatch says of it."""

    OK = 0
    WITHHELD = 1
    ABORTED = 2
    IGNORED = 3


class Notice(enum.IntEnum):
    """What the node says of a shard's session, in order with its dispatches (decision 27)."""

    NEW_SESSION = 1
    RESUMED = 2
    RESTORED = 3
    THREADS_STALE = 4
    GAP = 5


class Stuck(enum.IntEnum):
    """Whether a shard's dispatches are still published on this connection."""

    NO = 0
    DROPPED = 1
    """One found no room: none behind it is published, those before it still count."""
    FAILED = 2
    """One was not taken: nothing counts any more."""


class GapTold(enum.IntEnum):
    """Whether the stream has the last GAP of a shard."""

    ALL = 0
    OWED = 1
    """It has to be said, or said again."""
    SAID = 2
    """It waits in the outbox, or for its acknowledgement."""


class EventHeader(Struct):
    """The head of every datagram, little-endian; `length` bytes of body follow, then the name."""

    SIZE = 0x30
    magic = u32(0x00, "EVENT_MAGIC")
    kind = enum8(0x04, EventKind, "dispatch or notice")
    what = u8(0x05, "in the last chunk: Verdict of a dispatch, Notice of a notice; else 0")
    last = u8(0x06, "1 = the event ends with this chunk")
    name_len = u8(0x07, "bytes of the type's name behind the body; in the last chunk only")
    stream = u64(0x08, "random; another one when node or subscription began anew")
    number = u64(0x10, "counts the events of this subscriber, from 0, without a hole")
    shard = u32(0x18, "global shard number")
    chunk = u32(0x1C, "counts the chunks of the event, from 0")
    sequence = u32(0x20, "last chunk: `s` of a dispatch; first value of a notice")
    second = u32(0x24, "second value of a notice; else 0")
    length = u32(0x28, "bytes of body, at most EVENT_BODY_MAX")
    offset = u32(0x2C, "where the body lies in the event's payload")


class EventSubscriber(Struct):
    """One listener; it has a place as long as it renews."""

    SIZE = 0x40
    expires = u64(0x00, "TSC when the place is free again; 0 = free")
    stream = u64(0x08, "random, told in each datagram")
    number = u64(0x10, "number of the next event")
    lost = u64(0x18, "events that lost at least one datagram before it left")
    sent = u64(0x20, "datagrams queued")
    ip = u32(0x28, "its address, as on the wire")
    first = u32(0x2C, "first global shard that it wants")
    count = u32(0x30, "how many from there on")
    port = u16(0x34, "its UDP port")
    mac = bytes_(0x38, 6, "Ethernet address that its request came from", align=2)


class Events(Struct):
    """All listeners. The dispatch path looks at `listeners` and at nothing else when it is 0."""

    SIZE = 0x40 + EVENT_SUBSCRIBERS * EventSubscriber.SIZE
    listeners = u32(0x00, "places in use")
    refused = u32(0x04, "subscriptions refused: every place was in use, or no clock")
    subscribers = array(0x40, EventSubscriber, EVENT_SUBSCRIBERS, "places, in no order")


class EventStream(Struct):
    """What a shard is handing on; outside the wipe, because a gap outlives its connection."""

    SIZE = 0xA0
    open = u32(0x00, "bits by place: who gets the event that runs; 0 = none runs")
    withheld = u32(0x04, "1 = the body of the event that runs is not handed on")
    gap_open = u32(0x08, "1 = a session ended after READY and no other has begun")
    gap_first = u32(0x0C, "first sequence that may be missing then; EVENT_UNKNOWN = not known")
    numbers = bytes_(0x10, 8 * EVENT_SUBSCRIBERS, "by place: number of the event", align=8)
    stuck = enum32(0x30, Stuck, "whether dispatches of this connection are still published")
    fence = u32(0x34, "generation of the lease, told with each publication")
    stalled_at = u64(
        0x38, "TSC since which there is no room for what the shard reads; 0 = there is"
    )
    stuck_at = u64(0x70, "TSC when it got stuck; counts with `stuck`")
    part_at = ptr(0x78, "first part of a message, in the receive ring; counts with `part_len`")
    part_len = u32(0x80, "its bytes while it waits for a buffer; 0 = none waits")
    gap_told = enum32(0x84, GapTold, "whether a GAP is on the stream")
    owed_first = u32(0x88, "first sequence that it names; counts unless `gap_told` is ALL")
    owed_last = u32(0x8C, "last one")
    owed_number = u32(0x90, "number of its publication; counts while it is SAID")
    waited_at = u64(0x98, "TSC when it last looked for room and did not read; 0 = it reads")
    header = nested(0x40, EventHeader, "of the next datagram, without stream and number")


PUBLISH_OVERDUE = site(
    Layer.EVENTS, 1, "publish_overdue", "a dispatch was not acknowledged by the stream in time"
)
PUBLISH_CUT = site(
    Layer.EVENTS, 2, "publish_cut", "a publication was given up after part of it had left"
)
PUBLISH_UNTAKEN = site(
    Layer.EVENTS, 3, "publish_untaken", "the stream takes nothing that comes by this server"
)
DATA_UNHEARD = site(
    Layer.EVENTS, 4, "data_unheard", "what CONTROL says to its server does not come by this one"
)
EVENTS = Global("events", Events, "listeners of raw dispatches", align=64)
PAYLOAD = Region("the event's payload", "in the receive ring, bounded by the length of the part")
