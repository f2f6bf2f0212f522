"""The clean stop of the node: how far it is, and what it reports."""

from __future__ import annotations

import enum

from firmware.limits import CLOSE_TIMEOUT_MS
from toolchain.layout import Global, Struct, enum32, u32, u64

STOP_TIMEOUT_MS = CLOSE_TIMEOUT_MS + 1000
"""Every shard's farewell is bounded by itself; this bounds the stop whatever happens."""
STOP_LINGER_MS = 1000
"""How long a node that stopped still tells so before it goes off."""


class StopPhase(enum.IntEnum):
    """How far the stop is."""

    RUNNING = 0
    DRAINING = 1
    STOPPED = 2
    OFF = 3


class StopReason(enum.IntEnum):
    """Who asked for it."""

    NONE = 0
    COMMAND = 1
    POWER_BUTTON = 2


class Stop(Struct):
    """State of the stop."""

    SIZE = 0x30
    phase = enum32(0x00, StopPhase, "how far it is")
    reason = enum32(0x04, StopReason, "who asked for it")
    began = u64(0x08, "TSC when it began")
    deadline = u64(0x10, "TSC when the phase ends whatever is still open")
    took = u64(0x18, "TSC cycles from its begin until everything was released")
    closed = u32(0x20, "connections that ended with the close handshake")
    reset = u32(0x24, "connections that ended without it: no answer in time, or a handshake cut")
    left = u32(0x28, "connections that were not released in time")


class StopReport(Struct):
    """What the node tells of its stop, as payload of an answer."""

    SIZE = 0x20
    phase = enum32(0x00, StopPhase, "how far it is")
    reason = enum32(0x04, StopReason, "who asked for it")
    open = u32(0x08, "connections that are not released yet")
    closed = u32(0x0C, "as in Stop")
    reset = u32(0x10, "as in Stop")
    left = u32(0x14, "as in Stop")
    took = u64(0x18, "milliseconds until everything was released; 0 = not yet")


STOP = Global("stop", Stop, "the clean stop")
