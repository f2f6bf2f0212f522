"""What a fleet node sees of the plan and the leases, and what it holds itself.

Read `firmware/docs/fleet.md` first. Nothing is an absolute time of another machine: every TSC here is
this node's own.
"""

from __future__ import annotations

import enum

from firmware.layouts.permit import PERMITS_MAX
from toolchain.layout import Global, Struct, array, bytes_, enum8, enum32, nested, u8, u32, u64

FLEET_SLOTS_MAX = 64
"""Slots of a plan that a node can watch."""
KEY_MAX, HEADER_MAX, VALUE_MAX = 0x60, 0x60, 0x220
"""Bytes of a key with its prefix, of the headers of a compare-and-swap, of a value."""
CAS_LINE_MAX = 256
"""Bytes of a compare-and-swap without headers and value."""
HELD_MAX = 8
"""Slots that a node can hold at once."""
OPS_MAX = 16
"""Operations of a slot whose sending times are remembered."""
NO_SLOT = 0xFF
BOOT_DIGITS = 8
RECORD_FORMAT = 1
"""The number that every record begins with."""
NAME_CHARS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
BOOT_CHARS = b"0123456789abcdef"
NOBODY = b"-"
"""Node and boot of a record that nobody holds."""

CLOCK_RATE_PERCENT = 1
"""Bound on the error of a clock's rate: RHO."""
GUARD_MS = 250
"""Fixed guard for what is queued already: F."""
RENEW_SHARE = 4
"""Renewal begins a quarter of the duration after the last one was sent."""
RETRY_MIN_MS, RETRY_JITTER_MS = 600, 400
CLAIM_JITTER_MS = 300
CLAIM_ANSWER_MS = 2_000
RELEASE_ANSWER_MS = 2_000
RELEASE_WAIT_MS = 1_000
"""A release waits so long for the answer to a renewal that is on its way."""
LOOK_MS = 100
"""Between two looks at what nobody announces."""
MOVE_MS = 3_000
"""A renewal that is due for so long on a connection that is so old wants another server; so old is one that is
left for a claim that nobody answered, or for an error of the server."""
IDLE_MS, IDLE_JITTER_MS = 30_000, 30_000
"""A watch that has delivered nothing for so long to a node that may claim nothing is made anew: a server that was
cut off makes none."""
ROUND_MS, ROUND_JITTER_MS = 10_000, 10_000
"""A node that holds nothing and has left every server of its list stays so long with each from then on."""
ROUND_RETRY_MS, ROUND_RETRY_JITTER_MS = 1_000, 1_000
"""Between two watches meanwhile."""
NO_ROWS_AVOID_MS = 60_000
"""A slot for which this node had no room; its rows are as few when it looks again soon."""
AVOID_MS = 5_000
"""A slot that this node released is left to others first."""
WATCH_SILENCE_MS = 2_500
WATCH_RETRY_MS = 500
"""Between two watches, after an error."""
IDLE_HEARTBEAT_MS = 1_000
HEARTBEAT_STATUS = 100
WATCH_KEPT_MS = 10_000
"""The server forgets a consumer that nobody listens to after so long."""
WATCH_SID = 0x1000
"""Subscriptions of watches count from here, those of upper layers lie below."""
FROZEN_MS = 500
"""The RTC this far ahead of what RHO allows the TSC means that the guest's clock stood still."""
HIDDEN_MS = 1_000 + FROZEN_MS + 250
"""A shorter pause may not show: an RTC counts whole seconds, and a TSC that is fast hides 2 % of the window.

A holder keeps as much back.
"""
RTC_LOOK_MS = 100
"""Between two looks at the second of the RTC."""
RTC_STILL_MS = 2_000
"""An RTC whose second has not changed for so long stands still."""
RTC_SHARP_MS = 2 * RTC_LOOK_MS
"""A change of the second dates it when the look before was no longer ago."""
RTC_LEAP_S = 1 << 20
"""So many seconds at once are no question of rates."""
RTC_WINDOW_S = 10
"""The clocks are compared with their state at most so long ago."""
DURATION_MIN_MS, DURATION_MAX_MS = 4_000, 600_000

STREAM = b"KV_shardfw"
ACK_PREFIX = b"$JS.ACK." + STREAM + b"."
"""Reply subject of a delivery: consumer, times delivered, stream and consumer sequence, time, pending."""
KEY_PREFIX = b"$KV.shardfw."
KEY_ROOM = b".ctl."
"""Behind the bot's name: what is watched."""
_MILLION = 1_000_000
CREATE_BODY = (
    b'{"stream_name":"' + STREAM + b'","config":{"name":"',
    b'","deliver_subject":"',
    b'","deliver_policy":"last_per_subject","ack_policy":"none","max_deliver":1,'
    b'"filter_subject":"' + KEY_PREFIX,
    KEY_ROOM
    + b'>","idle_heartbeat":%d,"mem_storage":true,"num_replicas":1,"inactive_threshold":%d}}'
    % (IDLE_HEARTBEAT_MS * _MILLION, WATCH_KEPT_MS * _MILLION),
)
"""The request for a consumer, around its name, the subject of the watch and the bot's name."""
WATCH_TEXT_MAX = 800
"""Bytes of UNSUB, SUB and the request, with the longest names and numbers."""


class PlanMode(enum.IntEnum):
    """What the plan allows."""

    UNKNOWN = 0
    """There is none, or it cannot be read: nothing is claimed, and nothing begins."""
    ACTIVE = 1
    DRAIN = 2


class SlotState(enum.IntEnum):
    """What the last record of a slot says."""

    ABSENT = 0
    """There is no record, or it cannot be read: nobody claims it."""
    FREE = 1
    HELD = 2


class HeldPhase(enum.IntEnum):
    """How far this node is with a slot."""

    NONE = 0
    CLAIMING = 1
    """The claim is sent, nothing has answered."""
    HELD = 2
    """Granted; the claim's own record has not come back on the watch yet."""
    RUNNING = 3
    """Its shards may run."""
    STOPPING = 4
    """Its shards close while the lease holds."""
    RELEASING = 5
    """No shard is left; the record is given back."""
    GONE = 6
    """The lease is over: its shards fall silent in this turn."""


class WatchState(enum.IntEnum):
    """How far the watch has come."""

    OFF = 0
    CREATING = 1
    SYNCING = 2
    SYNCED = 3


class Holder(enum.IntEnum):
    """Whose a record is."""

    NOBODY = 0
    OTHER = 1
    MINE = 2
    """This node's, of this boot."""


class RecordKind(enum.IntEnum):
    """Which record a key under `ctl.` names."""

    OTHER = 0
    PLAN = 1
    LEASE = 2
    TICKET = 3
    BUDGET = 4
    NODE = 5
    """What this node shall do; those of others are OTHER."""
    MOVE = 6


class FleetKind(enum.IntEnum):
    """What `fleet_next` leaves in hand for the node."""

    NONE = 0
    REPLY = 1
    """An answer to a request that is not the fleet's; its number is `BusMessage.inbox`."""


class SlotView(Struct):
    """The newest record of a slot, as the watch showed it."""

    SIZE = 0x40
    revision = u64(0x00, "stream sequence; 0 = no record was seen")
    seen_at = u64(0x08, "TSC when this node received it")
    claim_at = u64(0x10, "TSC when it is claimed, jitter included; 0 = not decided")
    generation = u32(0x18, "counts the claims")
    op = u32(0x1C, "number of the operation in its holder's counting")
    duration_ms = u32(0x20, "how long a grant holds; milliseconds")
    epoch = u32(0x24, "plan that made it")
    start = u32(0x28, "first shard")
    count = u32(0x2C, "shards")
    total = u32(0x30, "shards of the whole bot")
    state = enum8(0x34, SlotState, "what it says")
    mine = u8(0x35, "1 = by this node in this boot")
    wish = enum8(0x36, Holder, "who shall have it next, by name; it counts with `wish_generation`")
    wish_generation = u32(0x38, "generation of the lease that the wish is for")


class FleetOp(Struct):
    """One operation that was sent and may still be granted."""

    SIZE = 0x10
    sent_at = u64(0x00, "TSC before its bytes were queued")
    op = u32(0x08, "its number; 0 = none")
    inbox = u32(0x0C, "number of its request")


class HeldSlot(Struct):
    """A slot that this node holds or claims."""

    SIZE = 0x90 + OPS_MAX * FleetOp.SIZE
    phase = enum8(0x00, HeldPhase, "how far this node is with it")
    slot = u8(0x01, "which slot of the plan")
    seen = u8(0x02, "1 = the claim's own record came back on the watch")
    ops_next = u8(0x03, "place of the next operation in `ops`")
    generation = u32(0x04, "of the grant: the fence")
    revision = u64(0x08, "stream sequence of our newest record; 0 = not granted yet")
    deadline = u64(0x10, "TSC of the end of the grant as others reckon it at the earliest")
    hard_stop = u64(0x18, "TSC from which nothing leaves for its shards")
    renew_at = u64(0x20, "TSC of the next renewal")
    retry_at = u64(0x28, "TSC before which no renewal is sent again")
    sent_at = u64(0x30, "TSC before the last operation was sent")
    start = u32(0x38, "first shard")
    count = u32(0x3C, "shards")
    total = u32(0x40, "shards of the whole bot")
    epoch = u32(0x44, "plan of the record")
    duration_ms = u32(0x48, "of the grant; milliseconds")
    shards = u32(0x4C, "rows of the scheduler's table that exist for it; the node counts them")
    reason = u32(0x50, "why it stops or is gone: site code; 0 = it does neither")
    renewals = u32(0x54, "granted renewals")
    expected = u64(0x58, "revision that the claim, then the release, replaces")
    plan_revision = u64(0x60, "PlanView.revision when it was claimed")
    released_at = u64(0x68, "TSC when the release was sent; 0 = it was not")
    release_inbox = u32(0x70, "number of its request")
    granted_op = u32(0x74, "newest operation that was granted; 0 = none")
    last_op = u32(0x78, "newest operation that was sent")
    applied = u64(0x80, "hard_stop that its shards know")
    ops = array(0x90, FleetOp, OPS_MAX, "newest operations, a ring")


class PlanRange(Struct):
    """The shards of one slot."""

    SIZE = 0x08
    start = u32(0x00, "first shard")
    count = u32(0x04, "shards")


class PlanView(Struct):
    """The newest plan that the watch showed."""

    SIZE = 0x20 + FLEET_SLOTS_MAX * PlanRange.SIZE
    revision = u64(0x00, "stream sequence; 0 = none was seen")
    mode = enum32(0x08, PlanMode, "what it allows; with UNKNOWN nothing else counts")
    epoch = u32(0x0C, "counts the plans")
    total = u32(0x10, "shards of the whole bot")
    max_concurrency = u32(0x14, "Identify keys")
    duration_ms = u32(0x18, "how long a grant holds; milliseconds")
    slots = u32(0x1C, "ranges that it names, 1..FLEET_SLOTS_MAX")
    ranges = array(0x20, PlanRange, FLEET_SLOTS_MAX, "in ascending order, none in two slots")


class TicketView(Struct):
    """The newest record of an Identify ticket."""

    SIZE = 0x10
    revision = u64(0x00, "stream sequence; 0 = none was seen, or it cannot be read")
    seen_at = u64(0x08, "TSC when this node received it")


class BudgetView(Struct):
    """The newest record of the session starts that are left."""

    SIZE = 0x10
    revision = u64(0x00, "stream sequence; 0 = none was seen, or it cannot be read")
    remaining = u32(0x08, "Identifies that are left")
    total = u32(0x0C, "Identifies of a day")


class FleetView(Struct):
    """What the watch has shown. A new watch forgets all of it."""

    SIZE = 0x240 + FLEET_SLOTS_MAX * SlotView.SIZE + PERMITS_MAX * TicketView.SIZE
    plan = nested(0x00, PlanView, "the newest plan")
    budget = nested(0x220, BudgetView, "the newest budget")
    drained = u8(0x230, "1 = this node shall give every slot back and take none")
    slots = array(0x240, SlotView, FLEET_SLOTS_MAX, "slots of the plan, by number")
    tickets = array(
        0x240 + FLEET_SLOTS_MAX * SlotView.SIZE, TicketView, PERMITS_MAX, "Identify tickets, by key"
    )


class Fleet(Struct):
    """All that a node does in its fleet."""

    SIZE = 0xC0 + FLEET_SLOTS_MAX * 8 + HELD_MAX * HeldSlot.SIZE
    watch = enum8(0x00, WatchState, "how far the watch has come")
    closing = u8(0x01, "1 = the node stops: nothing is claimed any more")
    move = u8(0x02, "1 = another server is to be tried")
    left = u8(0x03, "servers left since a watch was SYNCED, each of the list once at most")
    ups = u32(0x04, "BusLink.ups of CONTROL that the watch belongs to")
    watch_sid = u32(0x08, "its subscription, another one each time; 0 = none on this connection")
    watch_inbox = u32(0x0C, "number of the request that makes the consumer; 0 = answered")
    consumer_seq = u64(0x10, "consumer sequence of the last delivery")
    resync_at = u64(0x18, "TSC before which no new watch is made")
    heard_at = u64(0x20, "TSC of the last delivery or heartbeat")
    op = u32(0x28, "number of this node's last operation")
    resyncs = u32(0x2C, "watches made; its place in `_W.<node>.<boot>.<n>`")
    claims = u32(0x30, "claims sent")
    takeovers = u32(0x34, "claims of slots that somebody else held")
    adopted = u32(0x38, "grants that the watch told before the answer")
    lost = u32(0x3C, "slots lost to another holder")
    expired = u32(0x40, "slots given up at their hard stop")
    frozen = u32(0x44, "times that the clock stood still")
    rtc_second = u64(0x48, "Unix time that the clocks are compared with; 0 = none yet")
    rtc_tsc = u64(0x50, "TSC of that time")
    rtc_look_at = u64(0x58, "TSC of the next look at the RTC")
    next_deadline = u64(0x60, "TSC when it next wants to run")
    unreadable = u32(0x68, "records that could not be read")
    holding = u32(0x6C, "entries of `held` in use")
    unreadable_at = u64(0x70, "revision of the newest of them that was told of")
    error = u32(0x78, "why the last watch ended: site code")
    rtc_seen = u8(0x7C, "1 = the RTC was looked at in this turn")
    rtc_doubt = u8(0x7D, "1 = it shows another time, and could not be read whole yet")
    rtc_judges = u8(0x7E, "1 = a pause shows from here on, or never: no date, or it stands still")
    refused = u32(0x80, "answers that granted nothing")
    grants = u32(0x84, "claims that were granted: Lease.generation")
    plan_told = u64(0x88, "revision of the newest plan that was told of")
    begun_at = u64(0x90, "TSC when the first watch of this connection was begun")
    rtc_low = u32(0x98, "second, minute and hour at the last look, as read, + 1; 0 = none yet")
    idle_at = u64(0xA0, "TSC when a watch that is of no use now is made anew; 0 = not decided")
    move_at = u64(0xA8, "TSC before which a node that holds nothing leaves no server; 0 = at once")
    avoid_until = bytes_(
        0xC0,
        FLEET_SLOTS_MAX * 8,
        "TSC, by slot, before which this node leaves it to others",
        align=8,
    )
    held = array(0xC0 + FLEET_SLOTS_MAX * 8, HeldSlot, HELD_MAX, "what this node holds")


class Outgoing(Struct):
    """A record on its way: what replaces a known revision of a key."""

    SIZE = 0x300
    key_len = u32(0x00, "bytes")
    value_len = u32(0x04, "bytes")
    header_len = u32(0x08, "bytes")
    key = bytes_(0x10, KEY_MAX, "the whole subject", align=8)
    header = bytes_(0x70, HEADER_MAX, "what is expected", align=8)
    value = bytes_(0xD0, VALUE_MAX, "its new value", align=8)


FLEET_VIEW = Global("fleet_view", FleetView, "what the watch has shown", align=64)
FLEET = Global("fleet", Fleet, "what this node does in its fleet", align=64)
FLEET_OUT = Global("fleet_out", Outgoing, "a record on its way", align=64)
