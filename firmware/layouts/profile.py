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
    """

    id: ProfileId
    version: int
    send_ops: tuple[int, ...]
    send_limit: int
    send_ceiling: int


DISCORD = Profile(ProfileId.DISCORD, 10, (3, 4, 8, 31, 43), send_limit=110, send_ceiling=120)
FLUXER = Profile(ProfileId.FLUXER, 1, (3, 4, 8, 14, 15, 16), send_limit=500, send_ceiling=600)
PROFILES = (DISCORD, FLUXER)
"""In the order of ProfileId."""

OPS_LIMIT = 64
"""Opcodes from here on are nobody's."""
SEND_OPS = tuple(sorted({op for profile in PROFILES for op in profile.send_ops}))
"""Every opcode that some profile sends; its place here, from 1, is its row."""


class ProfileTable(Struct):
    """One profile as the firmware reads it."""

    SIZE = 0x48
    send_rows = bytes_(
        0x00, OPS_LIMIT, "by opcode: row of `Pacer.not_before`, from 1; 0 = not to be sent"
    )
    send_limit = u32(0x40, "application sends in a minute")
    send_ceiling = u32(0x44, "messages in a minute that the service takes")


def _table(profile: Profile) -> bytes:
    rows = (SEND_OPS.index(op) + 1 if op in profile.send_ops else 0 for op in range(OPS_LIMIT))
    return pack(
        ProfileTable,
        {
            "send_rows": bytes(rows),
            "send_limit": profile.send_limit,
            "send_ceiling": profile.send_ceiling,
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
