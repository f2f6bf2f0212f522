"""What a fleet node sees of the plan and the leases, and what it holds itself.

Read `firmware/docs/fleet.md` first. Nothing is an absolute time of another machine: every TSC here is
this node's own.
"""

from __future__ import annotations

import enum

from toolchain.layout import Global, Struct, array, enum8, enum32, nested, u8, u32, u64

FLEET_SLOTS_MAX = 64
"""Slots of a plan that a node can watch."""
HELD_MAX = 8
"""Slots that a node can hold at once."""
OPS_MAX = 16
"""Operations of a slot whose sending times are remembered."""
NO_SLOT = 0xFF
CLOCK_RATE_PERCENT = 1
"""Bound on the error of a clock's rate: RHO."""
GUARD_MS = 250
"""Fixed guard for what is queued already: F."""
RENEW_SHARE = 4
"""Renewal begins a quarter of the duration after the last one was sent."""
RETRY_MIN_MS, RETRY_JITTER_MS = 600, 400
CLAIM_JITTER_MS = 300
CLAIM_ANSWER_MS = 2_000
WATCH_SILENCE_MS = 2_500
IDLE_HEARTBEAT_MS = 1_000
FROZEN_S = 2
"""The RTC this far ahead of the TSC means that the guest's clock stood still."""
DURATION_MIN_MS, DURATION_MAX_MS = 4_000, 600_000


class PlanMode(enum.IntEnum):
    """What the plan allows."""

    UNKNOWN = 0
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


class FleetOp(Struct):
    """One operation that was sent and may still be granted."""

    SIZE = 0x10
    sent_at = u64(0x00, "TSC before its bytes were queued")
    op = u32(0x08, "its number; 0 = none")
    inbox = u32(0x0C, "number of its request")


class HeldSlot(Struct):
    """A slot that this node holds or claims."""

    SIZE = 0x60 + OPS_MAX * FleetOp.SIZE
    phase = enum8(0x00, HeldPhase, "how far this node is with it")
    slot = u8(0x01, "which slot of the plan")
    seen = u8(0x02, "1 = the claim's own record came back on the watch")
    ops_next = u8(0x03, "place of the next operation in `ops`")
    generation = u32(0x04, "of the grant: the fence")
    revision = u64(0x08, "stream sequence of our newest record; 0 = not granted yet")
    deadline = u64(0x10, "TSC of the end of the grant as others reckon it at the earliest")
    hard_stop = u64(0x18, "TSC from which nothing leaves for its shards")
    renew_at = u64(0x20, "TSC of the next renewal")
    tried_at = u64(0x28, "TSC when the last operation was sent")
    claimed_at = u64(0x30, "TSC when the claim was sent")
    start = u32(0x38, "first shard")
    count = u32(0x3C, "shards")
    total = u32(0x40, "shards of the whole bot")
    epoch = u32(0x44, "plan of the record")
    duration_ms = u32(0x48, "of the grant; milliseconds")
    shards = u32(0x4C, "rows of the scheduler's table that exist for it; the node counts them")
    reason = u32(0x50, "why it stops or is gone: site code; 0 = it does neither")
    renewals = u32(0x54, "granted renewals")
    ops = array(0x60, FleetOp, OPS_MAX, "newest operations, a ring")


class PlanView(Struct):
    """The newest plan that the watch showed."""

    SIZE = 0x30
    revision = u64(0x00, "stream sequence; 0 = none was seen")
    mode = enum32(0x08, PlanMode, "what it allows")
    epoch = u32(0x0C, "counts the plans")
    total = u32(0x10, "shards of the whole bot")
    max_concurrency = u32(0x14, "Identify keys")
    duration_ms = u32(0x18, "how long a grant holds; milliseconds")
    slots = u32(0x1C, "ranges that it names, at most FLEET_SLOTS_MAX")


class Fleet(Struct):
    """All that a node knows of its fleet."""

    SIZE = 0x100 + FLEET_SLOTS_MAX * SlotView.SIZE + HELD_MAX * HeldSlot.SIZE
    watch = enum8(0x00, WatchState, "how far the watch has come")
    frozen = u8(0x01, "1 = the clock stood still once; counts with `frozen_times`")
    ups = u32(0x04, "BusLink.ups of CONTROL that the watch belongs to")
    watch_sid = u32(0x08, "its subscription; another one each time")
    watch_number = u32(0x0C, "its place in `_W.<node>.<boot>.<n>`")
    watch_inbox = u32(0x10, "number of the request that makes the consumer; 0 = answered")
    consumer_seq = u32(0x14, "consumer sequence of the last delivery")
    resync_at = u64(0x18, "TSC before which no new watch is made")
    heard_at = u64(0x20, "TSC of the last delivery or heartbeat")
    op = u32(0x28, "number of this node's last operation")
    resyncs = u32(0x2C, "watches made")
    claims = u32(0x30, "claims sent")
    takeovers = u32(0x34, "claims of slots that somebody else held")
    adopted = u32(0x38, "grants that the watch told before the answer")
    lost = u32(0x3C, "slots lost to another holder")
    expired = u32(0x40, "slots given up at their hard stop")
    frozen_times = u32(0x44, "times that the clock stood still")
    rtc_second = u64(0x48, "Unix time of the last comparison of the clocks; 0 = none yet")
    rtc_tsc = u64(0x50, "TSC of that comparison")
    next_deadline = u64(0x58, "TSC when it next wants to run")
    plan = nested(0x60, PlanView, "the newest plan")
    views = array(0x100, SlotView, FLEET_SLOTS_MAX, "slots of the plan, by number")
    held = array(
        0x100 + FLEET_SLOTS_MAX * SlotView.SIZE, HeldSlot, HELD_MAX, "what this node holds"
    )


FLEET = Global("fleet", Fleet, "plan, leases and what this node holds", align=64)
