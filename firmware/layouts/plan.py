"""Moves: how a running node takes another plan, and why one is refused."""

from __future__ import annotations

import enum

from firmware.layouts.policy import SessionProvider
from firmware.layouts.refusal import PlanRefusal
from firmware.layouts.sessions import AGE_MAX_MS, DIGEST_BYTES
from toolchain.layout import Global, Struct, bytes_, enum32, u32

MOVES_MAX = 3
"""So many moves fit in MOVE_WINDOW_S."""
MOVE_WINDOW_S = 3_600
TOTAL_MAX = 16_384
"""Shards of a whole bot that a move may ask for (seed B)."""
NO_SHARD = 0xFFFF_FFFF
LOAD_WAIT_MAX_MS = AGE_MAX_MS
"""An order may let new shards wait so long for a session; an older one would not be taken over."""


class Leaving(enum.IntEnum):
    """Whether a shard gives its place up, and how it closes."""

    NO = 0
    KEEPING = 1
    """The total stays: it closes with 4000 and hands its session over, so that another node can resume."""
    ENDING = 2
    """The total changes: its session is of another plan, so it closes with 1000."""


class PlanOrder(Struct):
    """The plan that a command asks for."""

    SIZE = 0x10
    total = u32(0x00, "shards of the whole bot, at most TOTAL_MAX")
    start = u32(0x04, "first shard of this node")
    count = u32(0x08, "shards of this node, at most SHARDS_MAX")
    wait_ms = u32(0x0C, "how long a new shard waits for a session; 0 = none is offered")


class PlanReport(Struct):
    """What a node tells of its plan."""

    SIZE = 0x30
    total = u32(0x00, "shards of the whole bot")
    start = u32(0x04, "first shard of this node")
    count = u32(0x08, "shards of this node")
    generation = u32(0x0C, "counts the plans of this boot, from 1")
    moves = u32(0x10, "moves in the last hour")
    leaving = u32(0x14, "shards that are not released, or whose session was not taken yet")
    refusal = enum32(0x18, PlanRefusal, "why the order was refused")
    provider = enum32(0x1C, SessionProvider, "who keeps sessions")
    bot = bytes_(0x20, DIGEST_BYTES, "whose sessions: digest of the token", align=8)


class Moves(Struct):
    """The moves of this boot."""

    SIZE = 0x30
    times = bytes_(0x00, 8 * MOVES_MAX, "TSC of the newest moves, newest first; 0 = none", align=8)
    next = u32(0x18, "the shard that is looked at next for a place that is free")
    leaving = u32(0x1C, "shards that still give their place up")
    wanted = u32(0x20, "total that a close code 4011 asked for; 0 = none did")
    recommended = u32(0x28, "shards that discovery's answer recommends; 0 = it named no number")
    wait_ms = u32(0x24, "how long a shard that the move brings waits for a session; 0 = not at all")


MOVES = Global("moves", Moves, "the moves of this boot")
