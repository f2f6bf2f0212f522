"""Sessions that outlive the node's memory: what a snapshot holds, and why one is not taken over.

The same snapshot lies in the pages that a warm reset keeps and in the store of a provider.
"""

from __future__ import annotations

import enum

from firmware.layouts.shard import Session
from toolchain.asm.operands import Region
from toolchain.layout import Global, Struct, bytes_, u8, u32, u64

SNAPSHOT_MAGIC = 0x3153_5353
"""`SSS1` in memory order."""
AGE_MAX_MS = 60_000
"""A session whose connection ended so long ago is not offered for a Resume."""
FUTURE_MAX_MS = 5_000
"""A clock may have gone back by so much."""
SAVE_TIMEOUT_MS = 5_000
"""How long a node that stops waits until its sessions are taken."""
HANDED_OVER = 0
"""`SessionSnapshot.plan_generation` of a session that left with its shard: a plan of any number may take
it, because plans are counted by each node for itself."""
ANY_SHARD = 0xFFFF_FFFF
"""`ControlRequest.slot` of an offer without a snapshot: no shard that waits gets one."""
DIGEST_BYTES = 16
"""So much of a SHA-256 tells one bot or endpoint from another."""
SESSION_KEPT_BYTES = Session.resume_host.offset + Session.resume_host.size
"""All of a Session that has a meaning."""


class SessionProblem(enum.IntEnum):
    """Why a snapshot is not taken over, in the order of the checks."""

    MALFORMED = 1
    AGE_UNKNOWN = 2
    TOO_OLD = 3
    SAVED_IN_THE_FUTURE = 4
    ANOTHER_ENDPOINT = 5
    ANOTHER_PLAN = 6
    ANOTHER_BOT = 7
    ANOTHER_GENERATION = 8


class SaveState(enum.IntEnum):
    """Whether a shard that leaves, or whose node stops, has a session to save."""

    NOTHING = 0
    DUE = 1
    LIVE = 2
    """Its connection is not released yet."""


class SessionSnapshot(Struct):
    """A session, and whose it is. It holds no token."""

    SIZE = 0x40 + SESSION_KEPT_BYTES
    magic = u32(0x00, "SNAPSHOT_MAGIC")
    shard_id = u32(0x04, "whose")
    shard_total = u32(0x08, "of how many")
    sequence = u32(0x0C, "what a Resume would name")
    plan_generation = u32(0x10, "Plan.generation when it was taken, or HANDED_OVER")
    profile = u8(0x14, "ProfileId")
    endpoint = bytes_(0x18, DIGEST_BYTES, "digest of the base host and port", align=8)
    bot = bytes_(0x28, DIGEST_BYTES, "digest of the token", align=8)
    session = bytes_(0x40, SESSION_KEPT_BYTES, "as Session", align=8)


class Sessions(Struct):
    """Who this process is, and how far the saving is."""

    SIZE = 0x100
    save_deadline = u64(0x00, "TSC when a stop no longer waits for saves; 0 = not asked yet")
    bot_known = u32(0x08, "1 = `bot` is made")
    endpoint_known = u32(0x0C, "1 = `endpoint` is made")
    bot = bytes_(0x10, DIGEST_BYTES, "digest of the token", align=8)
    endpoint = bytes_(0x20, DIGEST_BYTES, "digest of the base host and port", align=8)
    digest = bytes_(0x40, 32, "the digest in work", align=8)
    place = bytes_(0x60, 0x84, "host, then two bytes of port", align=8)


SESSIONS = Global("sessions", Sessions, "who keeps sessions, and how far the saving is")
SNAPSHOT = Region("a session snapshot", "SessionSnapshot.SIZE bytes where its owner keeps it")
