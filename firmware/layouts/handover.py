"""Sessions in the store of the fleet: one row for each row of the scheduler's table.

Read the part on sessions in `firmware/docs/fleet.md` first.
"""

from __future__ import annotations

import enum

from firmware.layouts.fleet import STREAM
from firmware.limits import SHARDS_MAX
from toolchain.layout import Global, Struct, array, enum8, nested, ptr, u8, u16, u32, u64

SESSION_ROOM = b".sess."
"""Behind the bot's name: what nobody watches."""
DIRECT_GET = b"PUB $JS.API.DIRECT.GET." + STREAM + b"."
ASK_MAX = 256
"""Bytes of a request for a record, with the longest names and numbers."""
LOAD_WAIT_MS = 20_000
"""How long a shard that has not started waits for its record."""
ANSWER_MS = 2_000
"""After so long without an answer nobody knows what became of a request: the record is read again."""
AGAIN_MS = 250
"""Between an answer that helped nobody and the next request."""
SAVE_MS = 5_000
"""Between two saves of a session whose sequence moves."""
LOOK_MS = 50
"""Between two looks at all rows."""
UNDER_WAY_MAX = 16
"""Requests of all shards that wait for an answer at once."""
URL_LEAST = len(b"ws://h")
NOT_FOUND = 404


class HandoverStep(enum.IntEnum):
    """How far a shard is with its record."""

    READ = 0
    """Its revision is not known."""
    FENCE = 1
    """It was read, or there was none: writing the same with our generation proves that nothing is newer."""
    KEEP = 2
    """The shard writes what becomes of its session."""
    OVER = 3
    """Somebody with a later lease has written: nothing of this shard is written any more."""


class HandoverRequest(enum.IntEnum):
    """What was asked for and not answered yet."""

    NONE = 0
    READ = 1
    FENCE = 2
    SAVE = 3


class HandoverProblem(enum.IntEnum):
    """Why the session of a record is not taken."""

    NONE = 0
    MALFORMED = 1
    ANOTHER_TOTAL = 2


class HandoverRow(Struct):
    """What is known of a shard's record; all zeros for a shard that has just been made."""

    SIZE = 0x40
    revision = u64(0x00, "stream sequence that the next write replaces; 0 = there is no record")
    sent_at = u64(0x08, "TSC when the request was sent that waits for its answer")
    try_at = u64(0x10, "TSC before which nothing is asked")
    save_at = u64(0x18, "TSC from which a sequence that moved is written")
    connected = u64(0x20, "ShardContext.connected_at when the record was written; 0 = never")
    inbox = u32(0x28, "number of the request")
    sequence = u32(0x2C, "what the record says")
    generation = u32(0x30, "who wrote the record that was read")
    tries = u32(0x34, "requests in a row that came to nothing")
    request = enum8(0x38, HandoverRequest, "what waits for an answer")
    step = enum8(0x39, HandoverStep, "how far it is")
    live = u8(0x3A, "1 = the record holds a session")
    stale = u8(0x3B, "1 = not known to be the session that the shard has")


class FoundSession(Struct):
    """A record that was taken apart; pointers lead into the message in hand."""

    SIZE = 0x30
    generation = u32(0x00, "of the lease of who wrote it")
    total = u32(0x04, "shards of the whole bot")
    sequence = u32(0x08, "what a Resume would name")
    id_len = u32(0x0C, "bytes; 0 = it holds no session")
    id = ptr(0x10, "session id")
    host = ptr(0x18, "host of its resume URL")
    host_len = u32(0x20, "bytes; 0 = it has none")
    port = u16(0x24, "of the resume URL")


class Handover(Struct):
    """All sessions of a node in the store."""

    SIZE = 0x80 + SHARDS_MAX * HandoverRow.SIZE
    look_at = u64(0x00, "TSC of the next look at all rows")
    under_way = u32(0x08, "requests that wait for an answer")
    taken = u32(0x0C, "sessions taken over")
    saves = u32(0x10, "records written")
    refused = u32(0x14, "writes that were refused")
    late = u32(0x18, "requests that nobody answered in time")
    lost = u32(0x1C, "shards whose record a later lease has written")
    ignored = u32(0x20, "records whose session was not taken")
    found = nested(0x40, FoundSession, "the record in work")
    rows = array(0x80, HandoverRow, SHARDS_MAX, "by place in the scheduler's table")


HANDOVER = Global("handover", Handover, "sessions in the store of the fleet", align=64)
