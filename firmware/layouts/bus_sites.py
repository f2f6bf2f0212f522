"""Why a link to NATS ends: the sites of the layer, and which of them each -ERR of a server is."""

from __future__ import annotations

from dataclasses import dataclass

from firmware.errors import Layer, Site, site
from toolchain.asm.operands import Region
from toolchain.layout.data import constant

REFUSALS = 0x40
"""Sites from here on are the operator's to mend: they are told aloud and tried again slowly."""


def _site(number: int, name: str, meaning: str) -> Site:
    return site(Layer.BUS, number, name, meaning)


# -- the connection -------------------------------------------------------------------------------
NO_ADDRESS = _site(1, "no_address", "the server's name has no address")
NO_CONNECTION = _site(2, "no_connection", "no local port or no entropy for a connection")
TIMEOUT = _site(3, "timeout", "the server did not let the node in within 15 s")
CLOSED = _site(4, "closed", "the server closed the connection")
SILENT = _site(5, "silent", "the server sent nothing, not even an answer to PING")
LAME_DUCK = _site(6, "lame_duck", "the server is about to stop, another one is tried")

RELOGIN = _site(7, "relogin", "the node was given a token and logs in anew")

# -- what the server says of us, and closes -------------------------------------------------------
STALE = _site(0x10, "stale", "the server got no PONG")
AUTH_TIMEOUT = _site(0x11, "auth_timeout", "the login took longer than the server waits")
PAYLOAD = _site(0x12, "payload", "a message was larger than the server takes")
CONTROL_LINE = _site(0x13, "control_line", "a line was longer than the server takes")
CONNECTIONS = _site(0x14, "connections", "the server has as many connections as it takes")
SLOW_CONSUMER = _site(0x15, "slow_consumer", "the node did not read fast enough for the server")
PROTOCOL = _site(0x16, "protocol", "the server could not read what the node sent")
SHUTDOWN = _site(0x17, "shutdown", "the server stops")
SUBSCRIPTIONS = _site(0x18, "subscriptions", "the server allows no more subscriptions")

# -- what the server says that no client must be sent ---------------------------------------------
LINE_END = _site(0x20, "line_end", "a line of the server ends without carriage return")
LINE_TOO_LONG = _site(0x21, "line_too_long", "a line of the server has no end")
VERB = _site(0x22, "verb", "the server said a word that is none of the protocol")
ARGUMENTS = _site(
    0x23, "arguments", "the line before a message names too much, too little, no size"
)
MESSAGE_TOO_LONG = _site(0x24, "message_too_long", "a message does not fit into the receive ring")
MESSAGE_END = _site(0x25, "message_end", "a message does not end where its line said")
UNEXPECTED = _site(0x26, "unexpected", "the server said something before its time")
BAD_INFO = _site(0x27, "bad_info", "INFO is no JSON object that can be used")
BAD_HEADER = _site(0x29, "bad_header", "a message's header block is none of NATS/1.0")

# -- what the server denies and stays -------------------------------------------------------------
PERMISSION = _site(0x30, "permission", "the login may not publish or subscribe to that subject")
SUBJECT = _site(0x31, "subject", "the server does not take that subject")
OTHER = _site(0x32, "other", "the server said -ERR with a text that the node does not know")

# -- refusals -------------------------------------------------------------------------------------
OLD_CLUSTER = _site(
    0x40, "old_cluster", "a cluster older than 2.9.21 lets several nodes win one race (issue 4320)"
)
TLS_WANTED = _site(0x41, "tls_wanted", "the server demands TLS, the node is configured without")
NO_TLS = _site(0x42, "no_tls", "the node is configured with TLS, the server has none")
NO_NONCE = _site(0x43, "no_nonce", "the node logs in by nkey, the server gave nothing to sign")
NO_HEADERS = _site(0x44, "no_headers", "the server has no headers, so JetStream cannot be used")
UNAUTHORIZED = _site(0x45, "unauthorized", "the server does not know this login")
EXPIRED = _site(0x46, "expired", "the login is no longer valid")
FAULT = _site(0x47, "fault", "the node's own code for the link faulted; detail = exception number")


@dataclass(frozen=True)
class Said:
    """What a server may say behind -ERR.

    Attributes:
        text: How its text begins, in small letters.
        site: What it means.
        stays: The server keeps the connection.
    """

    text: bytes
    site: Site
    stays: bool = False


ERRORS = (
    Said(b"authorization violation", UNAUTHORIZED),
    Said(b"authorization timeout", AUTH_TIMEOUT),
    Said(b"authentication timeout", AUTH_TIMEOUT),
    Said(b"authentication violation", UNAUTHORIZED),
    Said(b"user authentication expired", EXPIRED),
    Said(b"user authentication revoked", EXPIRED),
    Said(b"account authentication expired", EXPIRED),
    Said(b"stale connection", STALE),
    Said(b"maximum payload violation", PAYLOAD),
    Said(b"maximum control line exceeded", CONTROL_LINE),
    Said(b"maximum connections exceeded", CONNECTIONS),
    Said(b"maximum account active connections exceeded", CONNECTIONS),
    Said(b"connection throttling is active", CONNECTIONS),
    Said(b"maximum subscriptions exceeded", SUBSCRIPTIONS),
    Said(b"slow consumer", SLOW_CONSUMER),
    Said(b"unknown protocol operation", PROTOCOL),
    Said(b"invalid client protocol", PROTOCOL),
    Said(b"parser error", PROTOCOL),
    Said(b"attempted to connect to", PROTOCOL),
    Said(b"secure connection - tls required", TLS_WANTED),
    Said(b"server shutdown", SHUTDOWN),
    Said(b"permissions violation", PERMISSION, stays=True),
    Said(b"invalid subject", SUBJECT, stays=True),
    Said(b"invalid publish subject", SUBJECT, stays=True),
)
"""Texts of nats-server's `errors.go` and of the client protocol's page; their case varies."""
ERROR_ROW_BYTES = 3
"""Of a row before its text: bytes of it, number of the site, 1 = the connection stays."""


def _rows() -> bytes:
    return b"".join(
        bytes((len(row.text), row.site.number, row.stays)) + row.text for row in ERRORS
    ) + bytes(1)


BUS_ERRORS = constant("bus_errors", _rows(), "what servers say behind -ERR; a length of 0 ends it")
ERROR_ROWS = Region("bus_errors", "rows of three bytes and a text")
