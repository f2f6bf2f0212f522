"""The services that a node can serve a bot on: one table each, indexed by `ShardContext.profile`."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from toolchain.layout import Global, Struct, bytes_, u32
from toolchain.layout.pack import pack


class ProfileId(enum.IntEnum):
    """Value of `ShardContext.profile`."""

    DISCORD = 0
    FLUXER = 1


@dataclass(frozen=True, slots=True)
class Profile:
    """What differs between the services.

    Attributes:
        id: Its number.
        version: Gateway version, `v` of the URL.
        send_ops: Opcodes that an application may send; any other would end the connection.
        send_limit: Application sends in a minute.
        send_ceiling: Messages in a minute that the service takes on one connection, of every kind.
        identify_spacing_ms: How long an Identify keeps its key busy; milliseconds. Discord refuses
            a second one within it; Fluxer takes 300 in a minute of one address, and seed B leaves
            a second between two.
        identify_groups: Whether the service itself takes an Identify of every key at once, so that
            groups of shards, not shards, follow one another in a startup.
        resumed_numbered: Whether RESUMED takes a sequence of its own; else it names the session's last.
    """

    id: ProfileId
    version: int
    send_ops: tuple[int, ...]
    send_limit: int
    send_ceiling: int
    identify_spacing_ms: int
    identify_groups: bool
    resumed_numbered: bool


DISCORD = Profile(
    ProfileId.DISCORD,
    version=10,
    send_ops=(3, 4, 8, 31, 43),
    send_limit=110,
    send_ceiling=120,
    identify_spacing_ms=5_000,
    identify_groups=True,
    resumed_numbered=True,
)
FLUXER = Profile(
    ProfileId.FLUXER,
    version=1,
    send_ops=(3, 4, 8, 14, 15, 16),
    send_limit=500,
    send_ceiling=600,
    identify_spacing_ms=1_000,
    identify_groups=False,
    resumed_numbered=False,
)
PROFILES = (DISCORD, FLUXER)
"""In the order of ProfileId."""

OPS_LIMIT = 64
"""Opcodes from here on are nobody's."""
SEND_OPS = tuple(sorted({op for profile in PROFILES for op in profile.send_ops}))
"""Every opcode that some profile sends; its place here, from 1, is its row."""


class ProfileTable(Struct):
    """One profile as the firmware reads it."""

    SIZE = 0x58
    send_rows = bytes_(
        0x00, OPS_LIMIT, "by opcode: row of `Pacer.not_before`, from 1; 0 = not to be sent"
    )
    send_limit = u32(0x40, "application sends in a minute")
    send_ceiling = u32(0x44, "messages in a minute that the service takes")
    identify_spacing_ms = u32(0x48, "how long an Identify keeps its key busy; milliseconds")
    identify_groups = u32(0x4C, "1 = keys identify side by side, by groups of max_concurrency")
    resumed_numbered = u32(0x50, "1 = RESUMED takes a sequence of its own; 0 = it names the last")


def _table(profile: Profile) -> bytes:
    rows = (SEND_OPS.index(op) + 1 if op in profile.send_ops else 0 for op in range(OPS_LIMIT))
    return pack(
        ProfileTable,
        {
            "send_rows": bytes(rows),
            "send_limit": profile.send_limit,
            "send_ceiling": profile.send_ceiling,
            "identify_spacing_ms": profile.identify_spacing_ms,
            "identify_groups": profile.identify_groups,
            "resumed_numbered": profile.resumed_numbered,
        },
    )


PROFILE_TABLES = Global(
    "profiles",
    ProfileTable,
    "limits of the services, by ProfileId",
    count=len(PROFILES),
    init=b"".join(map(_table, PROFILES)),
    readonly=True,
)
