"""What a WebSocket close code asks for, by service profile: one table each.

Sources: Discord, "Gateway Close Event Codes"; Fluxer, "Opcodes and close codes"; RFC 6455 7.4.1.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from firmware.layouts.profile import ProfileId
from firmware.layouts.shard import FailureFlag, Stop
from toolchain.layout.data import constant

FIRST_CODE = 4000
TRY_AGAIN_LATER = 1013
RULES_PER_PROFILE = 16
"""Codes from FIRST_CODE on that have a rule; all others ask for a Resume."""


class Action(enum.IntFlag):
    """What a close code asks for, as it stands in the table: FailureFlag bits in the low byte."""

    RESUME = 0
    IDENTIFY = FailureFlag.RESET_SESSION
    WAIT = FailureFlag.WAIT
    FATAL = FailureFlag.FATAL
    RESHARD = FailureFlag.FATAL | FailureFlag.RESHARD
    ANOMALY = FailureFlag.ANOMALY
    IDENTIFY_IN_REPLAY = FailureFlag.RESET_IN_REPLAY


@dataclass(frozen=True)
class CloseRule:
    """One code of one profile.

    Attributes:
        action: What the next attempt has to do, or that there is none.
        stop: Why there is none.
    """

    action: Action = Action.RESUME
    stop: Stop = Stop.NONE


_BUG = CloseRule(Action.ANOMALY)
_IDENTIFY = CloseRule(Action.IDENTIFY)
_WAIT = CloseRule(Action.WAIT)
_REFUSED = CloseRule(Action.FATAL, Stop.REFUSED)
_AUTH = CloseRule(Action.FATAL, Stop.AUTH)
_CONFIG = CloseRule(Action.FATAL, Stop.CONFIG)
_RESHARD = CloseRule(Action.RESHARD, Stop.RESHARD)

RULES: dict[ProfileId, dict[int, CloseRule]] = {
    # On Discord 4001, 4002, 4003 and 4005 are documented as reconnectable: our own fault, counted.
    ProfileId.DISCORD: {
        4001: _BUG,
        4002: _BUG,
        4003: CloseRule(Action.ANOMALY | Action.IDENTIFY),
        4004: _AUTH,
        4005: _BUG,
        4007: _IDENTIFY,
        4008: _WAIT,
        4009: _IDENTIFY,
        4010: _CONFIG,
        4011: _RESHARD,
        4012: _CONFIG,
        4013: _CONFIG,
        4014: _CONFIG,
    },
    # Fluxer keeps the session through 4009; 4007 ends it only when a Resume was refused with it.
    ProfileId.FLUXER: {
        4001: _REFUSED,
        4002: _REFUSED,
        4003: _REFUSED,
        4004: _AUTH,
        4005: _REFUSED,
        4007: CloseRule(Action.IDENTIFY_IN_REPLAY),
        4008: _WAIT,
        4010: _CONFIG,
        4011: _RESHARD,
        4012: _CONFIG,
        4013: _CONFIG,
        4014: _CONFIG,
    },
}

MEANINGS = {
    1000: "Normal closure: the server ended the connection",
    1001: "Going away: the server is shutting down",
    1002: "Protocol error: the server could not read a frame",
    1003: "Unsupported data: the server does not take this kind of message",
    1005: "No status: the server gave no code",
    1007: "Invalid payload: the server could not read a message",
    1008: "Policy violation: the server refused a message",
    1009: "Message too big: the server refused the size of a message",
    1011: "Internal error: the server failed",
    1012: "Service restart: the server restarts",
    1013: "Try again later: the server is overloaded",
    4000: "Unknown error: the gateway gave no reason",
    4001: "Unknown opcode: the gateway does not know what was sent",
    4002: "Decode error: the gateway could not read what was sent",
    4003: "Not authenticated: something was sent before Identify",
    4004: "Authentication failed: the token is wrong",
    4005: "Already authenticated: Identify was sent twice",
    4007: "Invalid seq: the sequence of the Resume is not known",
    4008: "Rate limited: too much was sent, or too many connections",
    4009: "Session timed out: a heartbeat was missed",
    4010: "Invalid shard: the gateway does not know this shard",
    4011: "Sharding required: the shards hold too many guilds",
    4012: "Invalid API version: the gateway does not speak this version",
    4013: "Invalid intents: the sum of intents is not valid",
    4014: "Disallowed intents: the bot may not use these intents",
}
"""Close code to its name and what it means, for people."""


def rule(profile: ProfileId, code: int) -> CloseRule:
    """Return what a code asks for under a profile."""
    if code == TRY_AGAIN_LATER:
        return CloseRule(Action.WAIT)
    return RULES[profile].get(code, CloseRule())


_NEXT = {
    Action.RESUME: "resume",
    Action.ANOMALY: "resume; counts as a fault of ours",
    Action.ANOMALY | Action.IDENTIFY: "new session; counts as a fault of ours",
    Action.IDENTIFY: "new session",
    Action.IDENTIFY_IN_REPLAY: "new session if it answers a Resume, else resume",
    Action.WAIT: "resume, not at once",
}


def _next(found: CloseRule) -> str:
    return f"none: FATAL, {found.stop.name}" if found.stop else _NEXT[found.action]


def table() -> str:
    """Return the rules of all profiles as a Markdown table, for firmware/docs/gateway.md."""
    codes = sorted({TRY_AGAIN_LATER, *(code for rules in RULES.values() for code in rules)})
    names = [profile.name.capitalize() for profile in ProfileId]
    lines = [f"| code | {' | '.join(names)} |", f"|---|{'---|' * len(names)}"]
    for code in codes:
        name = MEANINGS[code].partition(":")[0]
        cells = " | ".join(_next(rule(profile, code)) for profile in ProfileId)
        lines.append(f"| {code} {name} | {cells} |")
    rest = " | ".join(_next(CloseRule()) for _ in ProfileId)
    return "\n".join([*lines, f"| none, and all others | {rest} |"])


def _row(profile: ProfileId, code: int) -> bytes:
    found = rule(profile, code)
    return bytes([found.action, found.stop])


CLOSE_RULES = constant(
    "close_rules",
    b"".join(
        _row(profile, FIRST_CODE + n) for profile in ProfileId for n in range(RULES_PER_PROFILE)
    ),
    "by profile and close code from FIRST_CODE on: Action, Stop",
)
