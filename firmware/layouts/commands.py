"""Commands of the bot over the bus: what a shard is asked to send, and how it answers."""

from __future__ import annotations

from firmware.errors import Layer, site
from firmware.layouts.send import SendResult
from firmware.limits import SHARDS_MAX
from toolchain.asm.operands import Region
from toolchain.layout import Global, Struct, bytes_, u32, u64

COMMAND_SID = 0x100
"""First subscription of row 0 of the scheduler's table. The other rows follow, then each row's second one, and so on:
what was sent to one that was given up is told from what is sent to the next.
"""
COMMAND_LINE_MAX = 128
"""Bytes of SUB or UNSUB with the longest names and numbers, and of an answer without its subject."""
OP_RESTART = 0xFF
"""`"op":"restart"`: the shard closes with 4000 and resumes."""
ANSWER_RESERVE = 3 * 1024
"""Bytes of DATA's send buffer that answers leave to events."""
ANSWERS_BYTES = 4 * 1024
"""Bytes of answers that wait for the link to have nothing half said, and room."""
RESTART_PACE_MS = 10_000
"""A shard that is asked to restart has been connected for so long at least."""
REPLY_PREFIXES = (b"_INBOX", b"_R_.")
"""Inboxes of clients, whatever they add, and what a server makes of them on another account.

Who asks names the subject of the answer, and the node may publish where the asker may not.
"""
NOT_A_COMMAND = SendResult.BAD_BODY
ERRORS = {
    SendResult.NOT_READY: "not_ready",
    SendResult.RATE_LIMITED: "rate_limited",
    SendResult.TOO_LARGE: "too_large",
    SendResult.BAD_OP: "bad_op",
    SendResult.BAD_BODY: "bad_body",
}
"""What an answer names."""
COMMAND_TEXT = Region("a command", "in the link's ring, bounded by its length")
COMMAND_RESTART = site(Layer.NODE, 1, "command_restart", "a command asked for a new connection")


class Commands(Struct):
    """What is subscribed, and how much was asked."""

    SIZE = 0x20 + 4 * SHARDS_MAX + ANSWERS_BYTES
    ups = u32(0x00, "BusLink.ups of DATA that the subscriptions belong to")
    changed = u32(0x04, "1 = rows came or went since they were looked at")
    taken = u64(0x08, "commands that were carried out")
    refused = u64(0x10, "commands that were refused")
    answers_end = u32(0x18, "bytes of `answers` that are in use")
    listening = u32(0x1C, "1 = the node's own numbers are subscribed as well")
    shards = bytes_(
        0x20,
        4 * SHARDS_MAX,
        "by row: u16 the subscribed shard + 1, 0 = none; u16 subscriptions that it gave up",
        align=8,
    )
    answers = bytes_(
        0x20 + 4 * SHARDS_MAX, ANSWERS_BYTES, "to be sent: the length of each (u32), then its text"
    )


COMMANDS = Global("commands", Commands, "commands over the bus", align=64)
