"""TLS alerts that a failure can send (RFC 9846 6, RFC 8446 6)."""

from __future__ import annotations

import enum


class Alert(enum.IntEnum):
    """AlertDescription; those that say what is wrong with a certificate."""

    BAD_CERTIFICATE = 42
    UNSUPPORTED_CERTIFICATE = 43
    CERTIFICATE_EXPIRED = 45
    CERTIFICATE_UNKNOWN = 46
    UNKNOWN_CA = 48
