"""What an application sends through a shard: the verdicts, and the pacer outside the wipe."""

from __future__ import annotations

import enum

from firmware.layouts.json import JsonParser
from firmware.layouts.profile import SEND_OPS
from firmware.limits import OUTBOUND_PAYLOAD_MAX
from toolchain.asm.operands import Region
from toolchain.layout import Global, Struct, bytes_, u32, u64


class SendResult(enum.IntEnum):
    """What became of a payload; all but OK left nothing behind."""

    OK = 0
    NOT_READY = 1
    RATE_LIMITED = 2
    TOO_LARGE = 3
    BAD_OP = 4
    BAD_BODY = 5


SECOND_MS = 1_000
BUCKETS = 60
"""Whole seconds that the pacer remembers, besides the one that runs (decision 9)."""
WINDOW_MS = BUCKETS * SECOND_MS
CONTROL_MESSAGES = 2
"""Kept free in a minute: one Identify or Resume, and the beat at the edge of the window."""
CONTROL_ROOM_BYTES = 512
"""Transmit space that application sends leave to heartbeats, pongs and the close frame."""
ROOM_WAIT_MS = 100
"""What a sender is told when the transmit buffer has no room: only the server can say better."""
RETRY_UNKNOWN_MS = 30_000
"""Obeyed when `retry_after` is no number that can be kept: Discord's own wait for op 8."""
RETRY_MOST_MS = 3_600_000
"""Longest `retry_after` that is obeyed, so that no send waits for ever."""

BODY = Region("the body of a send", "the caller's, bounded by its length")


class Pacer(Struct):
    """Application sends of one shard: sixty whole seconds and the one that runs (decision 9).

    A message leaves the window 60 to 61 s after it was sent, never sooner.
    """

    SIZE = 0x100
    second_at = u64(0x00, "TSC when the second that runs began")
    total = u32(0x08, "sends of the whole window, the running second included")
    running = u32(0x0C, "sends of the second that runs")
    oldest = u32(0x10, "bucket of the oldest whole second")
    refused = u32(0x14, "sends refused for a limit or for want of room, since boot")
    sent = u64(0x18, "sends taken since boot")
    buckets = bytes_(0x20, 2 * BUCKETS, "sends of each whole second; 16 bits each", align=8)
    not_before = bytes_(
        0xA0, 8 * len(SEND_OPS), "TSC before which the server wants no such opcode, by row", align=8
    )


class SendStage(Struct):
    """One body that comes in parts, over the control channel."""

    SIZE = 0x20 + OUTBOUND_PAYLOAD_MAX
    what = u64(0x00, "which send: argument of its parts, without the offset")
    shard = u32(0x08, "for which shard, by its global number")
    filled = u32(0x0C, "bytes that are here; NOTHING_STAGED = none is awaited")
    body = bytes_(0x20, OUTBOUND_PAYLOAD_MAX, "the body", align=16)


NOTHING_STAGED = 0xFFFF_FFFF
PART_SIZE_AT, PART_NUMBER_AT, PART_OFFSET_AT = 16, 32, 48
"""Bits of a part's argument: opcode, bytes of the whole body, a number of the sender's, offset."""


def part_argument(opcode: int, size: int, number: int, offset: int) -> int:
    """Return the argument of one part of a send; each value has 16 bits."""
    return opcode | size << PART_SIZE_AT | number << PART_NUMBER_AT | offset << PART_OFFSET_AT


SEND_STAGE = Global("send_stage", SendStage, "the body that comes in parts", align=16)
SEND_PARSER = Global("send_parser", JsonParser, "checks the body of the send at hand")
