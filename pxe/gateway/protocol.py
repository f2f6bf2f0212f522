"""The numbers of the gateway protocol, one table each.

Sources: Discord's developer documentation, "Gateway", "Gateway Events" and
"Opcodes and Status Codes", API version 10; Fluxer's gateway documentation and server
source, version 1. Where the documentation is silent the row says so.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from types import MappingProxyType
from typing import Final

from firmware.layouts import profile as node_profile


class Opcode(IntEnum):
    """Gateway opcodes of both services."""

    DISPATCH = 0
    HEARTBEAT = 1
    IDENTIFY = 2
    PRESENCE_UPDATE = 3
    VOICE_STATE_UPDATE = 4
    RESUME = 6
    RECONNECT = 7
    REQUEST_GUILD_MEMBERS = 8
    INVALID_SESSION = 9
    HELLO = 10
    HEARTBEAT_ACK = 11
    GATEWAY_ERROR = 12
    VOICE_SIGNAL = 13
    LAZY_REQUEST = 14
    REQUEST_GUILD_COUNTS = 15
    REQUEST_CHANNEL_MEMBER_COUNTS = 16
    REQUEST_FORUM_UNREADS = 28
    REQUEST_SOUNDBOARD_SOUNDS = 31
    REQUEST_CHANNEL_INFO = 43


class Intent(IntFlag):
    """Gateway intents of API version 10."""

    GUILDS = 1 << 0
    GUILD_MEMBERS = 1 << 1
    GUILD_MODERATION = 1 << 2
    GUILD_EXPRESSIONS = 1 << 3
    GUILD_INTEGRATIONS = 1 << 4
    GUILD_WEBHOOKS = 1 << 5
    GUILD_INVITES = 1 << 6
    GUILD_VOICE_STATES = 1 << 7
    GUILD_PRESENCES = 1 << 8
    GUILD_MESSAGES = 1 << 9
    GUILD_MESSAGE_REACTIONS = 1 << 10
    GUILD_MESSAGE_TYPING = 1 << 11
    DIRECT_MESSAGES = 1 << 12
    DIRECT_MESSAGE_REACTIONS = 1 << 13
    DIRECT_MESSAGE_TYPING = 1 << 14
    MESSAGE_CONTENT = 1 << 15
    GUILD_SCHEDULED_EVENTS = 1 << 16
    AUTO_MODERATION_CONFIGURATION = 1 << 20
    AUTO_MODERATION_EXECUTION = 1 << 21
    GUILD_MESSAGE_POLLS = 1 << 24
    DIRECT_MESSAGE_POLLS = 1 << 25


ALL_INTENTS: Final = int(Intent(sum(Intent)))
PRIVILEGED_INTENTS: Final = int(
    Intent.GUILD_MEMBERS | Intent.GUILD_PRESENCES | Intent.MESSAGE_CONTENT
)


@dataclass(frozen=True, slots=True)
class CloseRule:
    """What the server's own close code means.

    Attributes:
        reason: Text of the close frame when the caller gives none.
        keeps_session: Whether a later Resume of the session is honoured.
    """

    reason: str
    keeps_session: bool


CLOSE_CODES: Final = MappingProxyType(
    {
        1000: CloseRule("", keeps_session=True),
        1001: CloseRule("Server is going away", keeps_session=True),
        4000: CloseRule("Unknown error", keeps_session=True),
        4001: CloseRule("Unknown opcode", keeps_session=True),
        4002: CloseRule("Error while decoding payload", keeps_session=True),
        4003: CloseRule("Not authenticated", keeps_session=True),
        4004: CloseRule("Authentication failed", keeps_session=False),
        4005: CloseRule("Already authenticated", keeps_session=True),
        # "Reconnect and start a new session": the documentation's words for 4007 and 4009.
        4007: CloseRule("Invalid seq", keeps_session=False),
        4008: CloseRule("Rate limited", keeps_session=True),
        4009: CloseRule("Session timed out", keeps_session=False),
        4010: CloseRule("Invalid shard", keeps_session=False),
        4011: CloseRule("Sharding required", keeps_session=False),
        4012: CloseRule("Invalid API version", keeps_session=False),
        4013: CloseRule("Invalid intents", keeps_session=False),
        4014: CloseRule("Disallowed intents", keeps_session=False),
    }
)
FLUXER_CLOSE_CODES: Final = MappingProxyType(
    {
        **{code: CLOSE_CODES[code] for code in (1000, 1001, 4000, 4001, 4002, 4003, 4005, 4008)},
        # The session outlives these three; only the socket or the token is at fault.
        4004: CloseRule("Invalid token", keeps_session=True),
        4007: CloseRule("Invalid seq", keeps_session=True),
        4009: CloseRule("Heartbeat timeout", keeps_session=True),
        **{code: CLOSE_CODES[code] for code in (4010, 4011, 4012)},
    }
)
UNLISTED_CLOSE: Final = CloseRule("", keeps_session=True)
"""Codes that the documentation does not list leave the session as it is."""

# A client that closes with one of these ends its session; any other end keeps it.
SESSION_ENDING_CLIENT_CODES: Final = frozenset({1000, 1001})

EMPTY_CLOSE: Final = 1005
"""RFC 6455 section 7.4.1: stands for a close frame without a code; never on the wire."""


def is_sendable_close_code(code: int) -> bool:
    """Say whether a close frame may carry the code, or it is EMPTY_CLOSE.

    Source: RFC 6455 section 7.4.
    """
    return code in (*range(1000, 1004), EMPTY_CLOSE, *range(1007, 1015)) or 3000 <= code <= 4999


@dataclass(frozen=True, slots=True)
class OpRule:
    """How the server takes one client opcode.

    Attributes:
        needs_session: Whether it closes 4003 on a connection without a session.
        body: Types that ``d`` may have; any other closes 4002.
    """

    needs_session: bool
    body: tuple[type, ...]
    absent_code: int = 4002
    wrong_code: int = 4002


CLIENT_OPS: Final = MappingProxyType(
    {
        Opcode.HEARTBEAT: OpRule(needs_session=False, body=(int, type(None))),
        Opcode.IDENTIFY: OpRule(needs_session=False, body=(dict,)),
        Opcode.RESUME: OpRule(needs_session=False, body=(dict,)),
        Opcode.PRESENCE_UPDATE: OpRule(needs_session=True, body=(dict,)),
        Opcode.VOICE_STATE_UPDATE: OpRule(needs_session=True, body=(dict,)),
        Opcode.REQUEST_GUILD_MEMBERS: OpRule(needs_session=True, body=(dict,)),
        Opcode.REQUEST_SOUNDBOARD_SOUNDS: OpRule(needs_session=True, body=(dict,)),
        Opcode.REQUEST_CHANNEL_INFO: OpRule(needs_session=True, body=(dict,)),
    }
)
FLUXER_CLIENT_OPS: Final = MappingProxyType(
    {
        Opcode.HEARTBEAT: OpRule(
            needs_session=False, body=(int, type(None)), absent_code=4001, wrong_code=4007
        ),
        Opcode.IDENTIFY: OpRule(needs_session=False, body=(dict,)),
        Opcode.RESUME: OpRule(needs_session=False, body=(dict,)),
        Opcode.PRESENCE_UPDATE: OpRule(needs_session=True, body=(dict,)),
        Opcode.VOICE_STATE_UPDATE: OpRule(needs_session=True, body=(dict,)),
        Opcode.REQUEST_GUILD_MEMBERS: OpRule(needs_session=True, body=(dict,)),
        Opcode.VOICE_SIGNAL: OpRule(needs_session=True, body=(dict,)),
        Opcode.LAZY_REQUEST: OpRule(needs_session=True, body=(dict,)),
        Opcode.REQUEST_GUILD_COUNTS: OpRule(needs_session=True, body=(dict,)),
        Opcode.REQUEST_CHANNEL_MEMBER_COUNTS: OpRule(needs_session=True, body=(dict,)),
        Opcode.REQUEST_FORUM_UNREADS: OpRule(needs_session=True, body=(dict,)),
    }
)


@dataclass(frozen=True, slots=True)
class Profile:
    """What the services differ in.

    Attributes:
        name: Name in configuration and logs.
        version: The only accepted value of ``v`` in the URL.
        encoding: The only accepted value of ``encoding``.
        compressions: Accepted values of ``compress``; absent means plain text. None takes any
            value and sends plain text all the same.
        max_payload_bytes: Largest client message; a larger one closes 4002.
        send_limit: Client messages allowed in one window; one more closes 4008.
        send_window_ms: Length of the rolling window.
        identify_spacing_ms: Time for which an Identify keeps its key busy, as the node knows it.
        close_codes: Close code to rule.
        client_ops: Client opcode to rule.
        envelope: Key order of server messages, a key of ENVELOPE_ORDERS.
        bare_controls: Op 7 and 11 have no ``d``, no control message has ``s`` or ``t``.
        has_intents: Identify needs intents, READY names a resume URL and guild stubs.
        closes_after_reconnect: Op 7 is followed by close 4000.
        resumable_op9: Op 9 may say true.
        session_ttl_ms: Life of a session without a connection.
        beats_are_asked: The server asks for a late heartbeat before it gives up, and looks only
            at its own ticks; else one deadline counts.
        beats_trim: A heartbeat's sequence is the lowest from which a Resume is still honoured.
        volatile: Dispatches that no Resume replays.
        max_event_bytes: Larger dispatches are not kept for Resume either.
        address_limit: Identifies and Resumes of one address in a fixed window; more are dropped
            in silence. None stands for the gate by key and the daily total.
    """

    name: str
    version: str
    encoding: str
    compressions: frozenset[str] | None
    max_payload_bytes: int
    send_limit: int
    send_window_ms: int
    identify_spacing_ms: int
    close_codes: Mapping[int, CloseRule]
    client_ops: Mapping[Opcode, OpRule]
    envelope: str
    session_ttl_ms: int
    bare_controls: bool = False
    has_intents: bool = True
    closes_after_reconnect: bool = False
    resumable_op9: bool = True
    beats_are_asked: bool = False
    beats_trim: bool = False
    volatile: frozenset[str] = frozenset()
    max_event_bytes: int | None = None
    address_limit: int | None = None

    def close_rule(self, code: int) -> CloseRule:
        """Return the rule of a close code, listed or not."""
        return self.close_codes.get(code, UNLISTED_CLOSE)


DISCORD: Final = Profile(
    name="discord",
    version="10",
    encoding="json",
    compressions=frozenset({"zlib-stream"}),
    max_payload_bytes=4096,
    send_limit=120,
    send_window_ms=60_000,
    identify_spacing_ms=node_profile.DISCORD.identify_spacing_ms,
    close_codes=CLOSE_CODES,
    client_ops=CLIENT_OPS,
    envelope="discord",
    session_ttl_ms=180_000,  # Discord publishes no number
)
FLUXER: Final = Profile(
    name="fluxer",
    version="1",
    encoding="json",
    compressions=None,
    max_payload_bytes=4096,
    send_limit=600,
    send_window_ms=60_000,
    identify_spacing_ms=node_profile.FLUXER.identify_spacing_ms,
    close_codes=FLUXER_CLOSE_CODES,
    client_ops=FLUXER_CLIENT_OPS,
    envelope="fluxer",
    session_ttl_ms=60_000,
    bare_controls=True,
    has_intents=False,
    closes_after_reconnect=True,
    resumable_op9=False,
    beats_are_asked=True,
    beats_trim=True,
    volatile=frozenset({"GUILD_CREATE", "GUILD_DELETE", "GUILD_SYNC", "GUILD_MEMBERS_CHUNK"}),
    max_event_bytes=2 * 1024 * 1024,
    address_limit=300,
)
PROFILES: Final = MappingProxyType({profile.name: profile for profile in (DISCORD, FLUXER)})
