"""What a warm reset leaves alone: boots, crashes, Identifies sent, and a session for every slot.

It lies behind the crash record at a fixed physical place. A cold boot finds nothing whole there.
"""

from __future__ import annotations

import enum

from firmware.layouts.sessions import SessionSnapshot
from firmware.limits import PAGE, SHARDS_MAX
from toolchain.asm.operands import Region
from toolchain.layout import Global, Struct, bytes_, nested, ptr, u32, u64

SURVIVOR_MAGIC = 0x3152_5653_4653_4453
CRASHES_HOLD = 3
"""So many crashes within CRASH_WINDOW_S hold the node (decision 20)."""
CRASH_WINDOW_S = 600
ALLOWANCE_WINDOW_S = 86_400
"""The time for which the Identify allowance is given."""
NOTE_MS = 1000
"""A sequence is kept at most once in this time; the node's own facts, too."""


class HoldEnd(enum.IntEnum):
    """What ends the hold of a node that crashes again and again."""

    POWER_CYCLE_OR_SHARDFW_RELEASE = 1


class Survivor(Struct):
    """The node's own facts; a copy in memory, written to the first of the kept pages."""

    SIZE = 0x80
    magic = u64(0x00, "SURVIVOR_MAGIC")
    sum = u64(0x08, "kept_sum of the bytes from `boots` to the end")
    boots = u32(0x10, "boots since power came")
    identified = u32(0x14, "Identifies sent since window_at")
    window_at = u64(0x18, "date when the allowance's window began; Unix seconds")
    alive_at = u64(0x20, "date of the newest turn, to a second; Unix seconds")
    bot = u64(0x28, "kept_sum of the token: whose Identifies and sessions these are")
    crash_at = bytes_(
        0x30, 8 * CRASHES_HOLD, "dates of the newest crashes, newest first; 0 = none", align=8
    )


class SavedSession(Struct):
    """One slot's session as a reset leaves it."""

    SIZE = 0x200
    sum = u64(0x00, "kept_sum of the bytes from `valid` to the end")
    note_at = u64(0x08, "TSC before which a new sequence is not kept")
    valid = u32(0x10, "1 = there is a session")
    connected = u32(0x14, "1 = the connection was READY; the sequence is what was handed on")
    identifies = u32(0x18, "ShardContext.identifies when it was kept")
    saved_at = u64(0x20, "date when the connection ended; Unix seconds; counts with connected 0")
    beats = u32(0x28, "GatewayContext.beats when its sequence was kept")
    snapshot = nested(0x30, SessionSnapshot, "the session, and whose it is")


class Survival(Struct):
    """What this boot made of the kept pages."""

    SIZE = 0x40
    page = ptr(0x00, "the kept Survivor, sessions from the next page on; 0 = not looked at yet")
    alive_due = u64(0x08, "TSC when alive_at is written again")
    before_at = u64(0x10, "alive_at of the boot before")
    held = u32(0x18, "1 = the node crashed CRASHES_HOLD times in CRASH_WINDOW_S: no shard starts")
    crashed = u32(0x1C, "1 = the boot before ended in a crash")
    taken_over = u32(0x20, "1 = the pages were whole")


SURVIVOR_BYTES = PAGE + SHARDS_MAX * SavedSession.SIZE
SUMMED_QUADS = (Survivor.SIZE - Survivor.boots.offset) // 8
SESSION_SUMMED_QUADS = (SavedSession.SIZE - SavedSession.valid.offset) // 8
SURVIVOR = Global("survivor", Survivor, "facts that a warm reset keeps", align=16)
SURVIVAL = Global("survival", Survival, "what this boot made of the kept pages")
KEPT = Region("the kept pages", "SURVIVOR_BYTES at SURVIVOR_PAGE; summed by quadwords")
