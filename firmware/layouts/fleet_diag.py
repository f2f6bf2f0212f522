"""What a fleet node says of itself on the bus, every ten seconds: numbers in one line."""

from __future__ import annotations

from firmware.layouts.bus import FIRST_SID
from toolchain.layout import Global, Struct, u32, u64

DIAG_EVERY_MS = 10_000
DIAG_FORMAT = 1
DIAG_MAX = 640
"""Bytes of the whole publication."""
DIAG_LINE_MAX = 96
"""Bytes of its SUB with the longest names."""
DIAG_FIELDS = (
    "uptime_ms", "rows", "ready", "slots", "published", "acknowledged", "duplicates", "waiting",
    "refused", "overdue", "dropped", "oversize", "commands", "refused_commands", "control_ups",
    "data_ups", "log_lines", "sessions_taken", "sessions_saved", "sessions_refused", "sessions_late",
    "sessions_lost", "sessions_ignored",
)  # fmt: skip
"""Behind format and boot, in this order, separated by single blanks."""
DIAG_SID = FIRST_SID
"""DATA listens to what CONTROL says: the servers of both are heard by each other as long as it comes."""
UNHEARD_MAX = 2
"""Times that it may stay away before DATA looks for another server."""


class FleetDiag(Struct):
    """When it is said, and whether it is heard."""

    SIZE = 0x20
    next_at = u64(0x00, "TSC of the next time")
    said = u64(0x08, "times that it was said")
    ups = u32(0x10, "sum of both links' `ups` when `unheard` began to count")
    unheard = u32(0x14, "times that it was said since DATA heard it last")
    heard = u32(0x18, "1 = DATA heard it since boot; without, nothing is concluded from silence")


FLEET_DIAG = Global("fleet_diag", FleetDiag, "what the node says of itself on the bus")
