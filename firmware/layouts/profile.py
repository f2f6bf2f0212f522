"""The services that a node can serve a bot on: one table each, indexed by `ShardContext.profile`."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from firmware.layouts.json import Vocabulary
from toolchain.layout import Global, Struct, bytes_, enum32, u32
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
        invalid_resumable: Whether op 9 may say that the session can still be resumed.
        invalid_wait_ms: Least wait after an op 9 that lost the session; milliseconds.
        invalid_spread_ms: What is added to it, at random below this; milliseconds. 0 = no wait.
        names_resume_host: Whether READY names where a Resume goes; else it goes where Identify went.
        stales_threads: Whether what is known of threads may be old after a Resume (decision 27).
        has_intents: Whether Identify carries intents.
        discovery_path: What is asked for to find the gateway.
        discovery_token: Whether that question carries the token.
        vocabulary: Whose keys the answer has.
    """

    id: ProfileId
    version: int
    send_ops: tuple[int, ...]
    send_limit: int
    send_ceiling: int
    identify_spacing_ms: int
    identify_groups: bool
    resumed_numbered: bool
    invalid_resumable: bool
    invalid_wait_ms: int
    invalid_spread_ms: int
    names_resume_host: bool
    stales_threads: bool
    has_intents: bool
    discovery_path: str
    discovery_token: bool
    vocabulary: Vocabulary

    @property
    def query(self) -> bytes:
        """What the path of a gateway URL ends with."""
        return b"v=%d&encoding=json" % self.version


DISCORD = Profile(
    ProfileId.DISCORD,
    version=10,
    send_ops=(3, 4, 8, 31, 43),
    send_limit=110,
    send_ceiling=120,
    identify_spacing_ms=5_000,
    identify_groups=True,
    resumed_numbered=True,
    invalid_resumable=True,
    invalid_wait_ms=1_000,
    invalid_spread_ms=4_000,
    names_resume_host=True,
    stales_threads=False,
    has_intents=True,
    discovery_path="/gateway/bot",
    discovery_token=True,
    vocabulary=Vocabulary.GATEWAY_BOT,
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
    invalid_resumable=False,
    invalid_wait_ms=0,
    invalid_spread_ms=0,
    names_resume_host=False,
    stales_threads=True,
    has_intents=False,
    discovery_path="/.well-known/fluxer",
    discovery_token=False,
    vocabulary=Vocabulary.WELL_KNOWN,
)
PROFILES = (DISCORD, FLUXER)
"""In the order of ProfileId."""

QUERY_MAX = 0x18
OPS_LIMIT = 64
"""Opcodes from here on are nobody's."""
SEND_OPS = tuple(sorted({op for profile in PROFILES for op in profile.send_ops}))
"""Every opcode that some profile sends; its place here, from 1, is its row."""


class ProfileTable(Struct):
    """One profile as the firmware reads it."""

    SIZE = 0x90
    send_rows = bytes_(
        0x00, OPS_LIMIT, "by opcode: row of `Pacer.not_before`, from 1; 0 = not to be sent"
    )
    send_limit = u32(0x40, "application sends in a minute")
    send_ceiling = u32(0x44, "messages in a minute that the service takes")
    identify_spacing_ms = u32(0x48, "how long an Identify keeps its key busy; milliseconds")
    identify_groups = u32(0x4C, "1 = keys identify side by side, by groups of max_concurrency")
    resumed_numbered = u32(0x50, "1 = RESUMED takes a sequence of its own; 0 = it names the last")
    invalid_resumable = u32(0x54, "1 = op 9 may say that the session can still be resumed")
    invalid_wait_ms = u32(0x58, "least wait after an op 9 that lost the session; milliseconds")
    invalid_spread_ms = u32(0x5C, "added at random, below this; milliseconds; 0 = no wait at all")
    names_resume_host = u32(0x60, "1 = READY names where a Resume goes")
    stales_threads = u32(0x64, "1 = what is known of threads may be old after a Resume")
    has_intents = u32(0x68, "1 = Identify carries intents")
    discovery_token = u32(0x6C, "1 = the question for the gateway carries the token")
    vocabulary = enum32(0x70, Vocabulary, "whose keys the answer has")
    query_len = u32(0x74, "bytes of `query`")
    query = bytes_(0x78, QUERY_MAX, "what the path of a gateway URL ends with")


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
            "invalid_resumable": profile.invalid_resumable,
            "invalid_wait_ms": profile.invalid_wait_ms,
            "invalid_spread_ms": profile.invalid_spread_ms,
            "names_resume_host": profile.names_resume_host,
            "stales_threads": profile.stales_threads,
            "has_intents": profile.has_intents,
            "discovery_token": profile.discovery_token,
            "vocabulary": profile.vocabulary,
            "query_len": len(profile.query),
            "query": profile.query,
        },
    )


PROFILE_TABLES = Global(
    "profiles",
    ProfileTable,
    "what the services differ in, by ProfileId",
    count=len(PROFILES),
    init=b"".join(map(_table, PROFILES)),
    readonly=True,
)
