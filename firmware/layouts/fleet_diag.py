"""What a fleet node says of itself on the bus, every ten seconds: numbers in one line."""

from __future__ import annotations

from toolchain.layout import Global, Struct, u64

DIAG_EVERY_MS = 10_000
DIAG_FORMAT = 1
DIAG_MAX = 640
"""Bytes of the whole publication."""
DIAG_FIELDS = (
    "uptime_ms", "rows", "ready", "slots", "published", "acknowledged", "duplicates", "waiting",
    "refused", "overdue", "dropped", "oversize", "commands", "refused_commands", "control_ups",
    "data_ups", "log_lines", "sessions_taken", "sessions_saved", "sessions_refused", "sessions_late",
    "sessions_lost", "sessions_ignored",
)  # fmt: skip
"""Behind format and boot, in this order, separated by single blanks."""


class FleetDiag(Struct):
    """When it is said."""

    SIZE = 0x10
    next_at = u64(0x00, "TSC of the next time")
    said = u64(0x08, "times that it was said")


FLEET_DIAG = Global("fleet_diag", FleetDiag, "what the node says of itself on the bus")
