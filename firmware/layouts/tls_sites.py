"""Every way the TLS layer can fail: its error site, the alert that the peer is told, what follows.

The alerts are those of RFC 8446 with the client's rules of RFC 9846. `REFUSALS` is the one table;
generator, models, log and documents read it.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from firmware.errors import Layer, Site, site
from firmware.layouts.shard import End, FailureFlag
from toolchain.layout.data import constant


class Alert(enum.IntEnum):
    """RFC 8446 6, and general_error of RFC 9846."""

    CLOSE_NOTIFY = 0
    UNEXPECTED_MESSAGE = 10
    BAD_RECORD_MAC = 20
    RECORD_OVERFLOW = 22
    HANDSHAKE_FAILURE = 40
    BAD_CERTIFICATE = 42
    UNSUPPORTED_CERTIFICATE = 43
    CERTIFICATE_REVOKED = 44
    CERTIFICATE_EXPIRED = 45
    CERTIFICATE_UNKNOWN = 46
    ILLEGAL_PARAMETER = 47
    UNKNOWN_CA = 48
    ACCESS_DENIED = 49
    DECODE_ERROR = 50
    DECRYPT_ERROR = 51
    PROTOCOL_VERSION = 70
    INSUFFICIENT_SECURITY = 71
    INTERNAL_ERROR = 80
    INAPPROPRIATE_FALLBACK = 86
    USER_CANCELED = 90
    MISSING_EXTENSION = 109
    UNSUPPORTED_EXTENSION = 110
    UNRECOGNIZED_NAME = 112
    BAD_CERTIFICATE_STATUS_RESPONSE = 113
    UNKNOWN_PSK_IDENTITY = 115
    CERTIFICATE_REQUIRED = 116
    GENERAL_ERROR = 117
    NO_APPLICATION_PROTOCOL = 120


NO_ALERT = 0xFF
"""In TLS_ALERTS: the peer is told nothing."""
CLOCK_YEARS = 10
"""A node whose date is so far behind its build has a wrong clock or a build that nobody mends."""
CERTIFICATE_WAIT_S = 120
"""The next attempt would most likely meet the same certificate."""


@dataclass(frozen=True)
class Refusal:
    """What a failure means.

    Attributes:
        alert: What the peer is told; None is nothing.
        end: What the lifecycle is told.
        flags: What the failure asks beyond a reconnect.
        wait_s: How long the next attempt waits at least; seconds.
    """

    alert: Alert | None
    end: End = End.TLS_FAILED
    flags: int = 0
    wait_s: int = 0


REFUSALS: dict[Site, Refusal] = {}


def _site(
    number: int,
    name: str,
    meaning: str,
    alert: Alert | None,
    end: End = End.TLS_FAILED,
    flags: int = 0,
    wait_s: int = 0,
) -> Site:
    made = site(Layer.TLS, number, name, meaning)
    REFUSALS[made] = Refusal(alert, end, flags, wait_s)
    return made


# Our own side: nothing was said yet.
NO_ENTROPY = _site(
    1, "no_entropy", "no hardware entropy: keys could be guessed", None, flags=FailureFlag.FATAL
)
CLOCK_IMPOSSIBLE = _site(
    2, "clock_impossible", "the clock is before the build or ten years behind it", None,
    flags=FailureFlag.FATAL,
)  # fmt: skip
HANDSHAKE_TIMEOUT = _site(
    3, "handshake_timeout", "the handshake took longer than it may", Alert.HANDSHAKE_FAILURE,
    End.TIMEOUT,
)  # fmt: skip
NO_ROOM = _site(
    4, "no_room", "a message of ours finds no room in the transmit buffer", Alert.INTERNAL_ERROR
)

# What the peer says, or does not say.
ALERT_RECEIVED = _site(5, "alert_received", "the server sent an alert; detail: the alert", None)
TRUNCATED = _site(6, "truncated", "the connection ended without close_notify", None)

# Records (RFC 8446 5).
BAD_RECORD_MAC = _site(7, "bad_record_mac", "a record's tag is wrong", Alert.BAD_RECORD_MAC)
RECORD_OVERFLOW = _site(
    8, "record_overflow", "a record is longer than it may be", Alert.RECORD_OVERFLOW
)
RECORD_NO_ROOM = _site(
    9, "record_no_room", "a record does not fit behind what is not read yet", Alert.INTERNAL_ERROR
)
RECORD_TYPE = _site(
    10, "record_type", "a record of a type that may not come now; detail: the type",
    Alert.UNEXPECTED_MESSAGE,
)  # fmt: skip
RECORD_EMPTY = _site(
    11, "record_empty", "a record without content or type", Alert.UNEXPECTED_MESSAGE
)
RECORD_FLOOD = _site(
    12, "record_flood", "too many records in a row that mean nothing; detail: their type",
    Alert.UNEXPECTED_MESSAGE,
)  # fmt: skip
CHANGE_CIPHER_SPEC = _site(
    13, "change_cipher_spec", "change_cipher_spec is not the byte 1",
    Alert.UNEXPECTED_MESSAGE,
)  # fmt: skip
ALERT_FORM = _site(14, "alert_form", "an alert that is not two bytes", Alert.DECODE_ERROR)

# Handshake messages as such (RFC 8446 4 and 5.1).
INTERLEAVED = _site(
    15, "interleaved", "another record between the parts of a message; detail: its type",
    Alert.UNEXPECTED_MESSAGE,
)  # fmt: skip
KEY_CHANGE = _site(
    16, "key_change", "bytes behind a message that changes the keys; detail: the message",
    Alert.UNEXPECTED_MESSAGE,
)  # fmt: skip
MESSAGE = _site(
    17, "message", "a message at the wrong time; detail: state << 8 | the message",
    Alert.UNEXPECTED_MESSAGE,
)  # fmt: skip
MESSAGE_TOO_LONG = _site(
    18, "message_too_long", "a message is longer than we take; detail: the message",
    Alert.DECODE_ERROR,
)  # fmt: skip
MESSAGE_FORM = _site(
    19, "message_form", "a message whose parts do not add up; detail: the message",
    Alert.DECODE_ERROR,
)  # fmt: skip

# ServerHello and HelloRetryRequest (RFC 8446 4.1.3, 4.1.4).
VERSION = _site(
    20, "version", "the server speaks no TLS 1.3; detail: what it speaks", Alert.PROTOCOL_VERSION
)
VERSION_SELECTED = _site(
    21, "version_selected", "supported_versions chose what we did not offer; detail: that",
    Alert.ILLEGAL_PARAMETER,
)  # fmt: skip
DOWNGRADE = _site(
    22, "downgrade", "somebody in between took TLS 1.3 out of our offer", Alert.ILLEGAL_PARAMETER
)
SESSION_ID = _site(
    23, "session_id", "the server does not return our session id", Alert.ILLEGAL_PARAMETER
)
SUITE = _site(
    24, "suite", "a cipher suite that we did not offer; detail: the suite",
    Alert.ILLEGAL_PARAMETER,
)  # fmt: skip
COMPRESSION = _site(25, "compression", "the server compresses", Alert.ILLEGAL_PARAMETER)
EXTENSION_UNSOLICITED = _site(
    26, "extension_unsolicited", "an extension that we did not offer; detail: the extension",
    Alert.UNSUPPORTED_EXTENSION,
)  # fmt: skip
EXTENSION_MISPLACED = _site(
    27, "extension_misplaced", "an extension in the wrong message; detail: the extension",
    Alert.ILLEGAL_PARAMETER,
)  # fmt: skip
EXTENSION_TWICE = _site(
    28, "extension_twice", "an extension stands twice; detail: the extension",
    Alert.ILLEGAL_PARAMETER,
)  # fmt: skip
KEY_SHARE_MISSING = _site(
    29, "key_share_missing", "ServerHello has no key share", Alert.MISSING_EXTENSION
)
GROUP = _site(
    30, "group", "a group that we did not offer, or a share that it does not ask for; "
    "detail: the group", Alert.ILLEGAL_PARAMETER,
)  # fmt: skip
KEY_SHARE = _site(
    31, "key_share", "a key share of a wrong length or off its curve, or a secret of zeros",
    Alert.ILLEGAL_PARAMETER,
)  # fmt: skip
RETRY_UNCHANGED = _site(
    32, "retry_unchanged", "HelloRetryRequest asks for nothing new", Alert.ILLEGAL_PARAMETER
)
RETRY_SUITE = _site(
    33, "retry_suite", "ServerHello chose another suite than HelloRetryRequest",
    Alert.ILLEGAL_PARAMETER,
)  # fmt: skip
COOKIE_TOO_LONG = _site(
    34, "cookie_too_long", "a cookie that fits into no second ClientHello of ours",
    Alert.HANDSHAKE_FAILURE,
)  # fmt: skip

# The encrypted flight (RFC 8446 4.3, 4.4).
ALPN = _site(35, "alpn", "a protocol that we did not offer", Alert.ILLEGAL_PARAMETER)
CERTIFICATE_CONTEXT = _site(
    36, "certificate_context", "a request context where none may be", Alert.ILLEGAL_PARAMETER
)
CERTIFICATE_MISSING = _site(
    37, "certificate_missing", "the server sent no certificate", Alert.DECODE_ERROR
)
SCHEMES_MISSING = _site(
    38, "schemes_missing", "CertificateRequest names no signature scheme", Alert.MISSING_EXTENSION
)
SCHEME = _site(
    39, "scheme", "a signature scheme that we did not offer or that does not fit the key; "
    "detail: the scheme", Alert.ILLEGAL_PARAMETER,
)  # fmt: skip
SIGNATURE = _site(
    40, "signature", "the server's signature over the handshake is wrong", Alert.DECRYPT_ERROR
)
FINISHED = _site(41, "finished", "the server's Finished is wrong", Alert.DECRYPT_ERROR)

# The certificate chain.
CERTIFICATE_BAD = _site(
    42, "certificate_bad", "a certificate breaks its rules, or a signature is wrong; detail: why",
    Alert.BAD_CERTIFICATE, wait_s=CERTIFICATE_WAIT_S,
)  # fmt: skip
CERTIFICATE_UNSUPPORTED = _site(
    43, "certificate_unsupported", "an algorithm or extension that we do not know; detail: why",
    Alert.UNSUPPORTED_CERTIFICATE, wait_s=CERTIFICATE_WAIT_S,
)  # fmt: skip
CERTIFICATE_EXPIRED = _site(
    44, "certificate_expired", "a certificate is no longer valid; detail: why", Alert.CERTIFICATE_EXPIRED,
    wait_s=CERTIFICATE_WAIT_S,
)  # fmt: skip
CERTIFICATE_EARLY = _site(
    45, "certificate_early", "a certificate is not valid yet: is the clock right? detail: why",
    Alert.CERTIFICATE_EXPIRED, wait_s=CERTIFICATE_WAIT_S,
)  # fmt: skip
CERTIFICATE_UNKNOWN = _site(
    46, "certificate_unknown", "no trusted authority issued the certificate; detail: why", Alert.UNKNOWN_CA,
    wait_s=CERTIFICATE_WAIT_S,
)  # fmt: skip
CERTIFICATE_NAME = _site(
    47, "certificate_name", "the certificate is for another name; detail: why", Alert.CERTIFICATE_UNKNOWN,
    wait_s=CERTIFICATE_WAIT_S,
)  # fmt: skip
CERTIFICATE_PIN = _site(
    49, "certificate_pin", "no key of the chain is one of [tls] pins; detail: why", Alert.BAD_CERTIFICATE,
    wait_s=CERTIFICATE_WAIT_S,
)  # fmt: skip

# After the handshake (RFC 8446 4.6).
KEY_UPDATE = _site(
    48, "key_update", "KeyUpdate asks for what does not exist", Alert.ILLEGAL_PARAMETER
)

NO_ARENA = _site(
    50, "no_arena", "the node has no memory for a handshake", None, flags=FailureFlag.FATAL
)

CRYPTO_BROKEN = _site(
    51, "crypto_broken", "the cryptography gives wrong answers on this processor", None,
    flags=FailureFlag.FATAL,
)  # fmt: skip

SITES_MAX = 64
"""Site numbers of the layer are below; the tables by site have that many rows."""


def _by_site(value: dict[int, int], other: int) -> bytes:
    return bytes(value.get(number, other) for number in range(SITES_MAX))


TLS_ALERTS = constant(
    "tls_alerts",
    _by_site(
        {s.number: NO_ALERT if r.alert is None else r.alert for s, r in REFUSALS.items()}, NO_ALERT
    ),
    "what the peer is told of a failure, by the number of its site",
)
TLS_ENDS = constant(
    "tls_ends",
    _by_site({s.number: r.end for s, r in REFUSALS.items()}, End.TLS_FAILED),
    "End of a failure, by the number of its site",
)
TLS_FLAGS = constant(
    "tls_flags",
    _by_site({s.number: r.flags for s, r in REFUSALS.items()}, 0),
    "FailureFlag of a failure, by the number of its site",
)
TLS_WAITS = constant(
    "tls_waits",
    _by_site({s.number: r.wait_s for s, r in REFUSALS.items()}, 0),
    "seconds that the next attempt waits at least, by the number of its site",
)
