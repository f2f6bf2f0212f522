"""What belongs to a shard: the services of the node that a tool gets for a ShardContext of its own."""

from __future__ import annotations

import enum

from firmware.layouts.log_line import Level
from firmware.layouts.shard import End
from firmware.layouts.stop import StopPhase
from toolchain.layout import Struct, enum8, enum32, flags32, ptr, u32, u64


class Task(enum.IntFlag):
    """What still runs for a shard."""

    FAREWELL = 1 << 0
    SENDING = 1 << 1
    BEAT = 1 << 2
    EVENT = 1 << 3


class OwnerServices(Struct):
    """The answer about one shard of this node."""

    SIZE = 0x40
    context = ptr(0x00, "its ShardContext")
    user_id = u64(0x08, "the bot's own user id; 0 = not known before READY")
    log_waiting = u64(0x10, "its log: bytes that the serial port has not taken yet")
    log_dropped = u64(0x18, "its log: lines that found the ring full")
    shard_id = u32(0x20, "global shard number")
    slot = u32(0x24, "row of the scheduler's table")
    failure = enum32(0x28, End, "its failure reporter: what waits for the lifecycle; 0 = nothing")
    last_error = u32(0x2C, "its failure reporter: the last error")
    listeners = u32(0x30, "its event sink: places of listeners in use")
    event_open = u32(0x34, "its event sink: bits by place, who is told the event that runs")
    tasks = flags32(0x38, Task, "what still runs for it; 0 = idle")
    drain = enum8(0x3C, StopPhase, "its drain state: how far the node's stop has come")
    log_level = enum8(0x3D, Level, "its log: lowest level that is written")
