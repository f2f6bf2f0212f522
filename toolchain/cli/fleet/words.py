"""What is said when NATS does not let a command in, or goes away from it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from cryptography import x509

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from toolchain.cli.fleet.connect import Login

URL_ENV, CA_ENV = "SHARDFW_NATS_URL", "SHARDFW_NATS_CA"
PASSWORD_ENV, NKEY_ENV = "SHARDFW_NATS_PASSWORD", "SHARDFW_NATS_NKEY"
"""Whoever gives the commands. What goes into an image has other variables, so that this never does."""
DOCS = "firmware/docs/fleet-operator.md"


def refusal(login: Login, heard: Sequence[str], error: Exception) -> str:
    """Return what to do about a server that was never reached.

    Args:
        login: Where it should be, and who logs in.
        heard: What the library told of its attempts.
        error: Why it gave up.
    """
    words = " ".join([*heard, str(error)]).lower()
    where, last = ", ".join(login.servers), heard[-1] if heard else str(error)
    if is_of_login(words):
        return not_let_in(login.servers, login.name)
    if "has expired" in words:
        return _expired(where, login.ca)
    if "certificate" in words:
        return (
            f"NATS at {where} shows a certificate that is not trusted. Name the CA's file with "
            f"--ca or {CA_ENV}: {last}"
        )
    if "secure" in words or "tls" in words or "ssl" in words:
        return (
            f"NATS at {where} speaks TLS, or does not, other than its URL says. Write tls:// for "
            "TLS, and --handshake-first when its configuration has that"
        )
    return (
        f"no NATS server answers at {where}: {last}. Start one ({DOCS}), or name yours with "
        f"--server or {URL_ENV}"
    )


def is_of_login(words: str) -> bool:
    """Return whether what a server or the library said is about who logs in."""
    return any(word in words.lower() for word in ("authorization", "authentication"))


def not_let_in(servers: Sequence[str], who: str, more: str = "") -> str:
    """Return what to do when a server does not know who logs in.

    Args:
        servers: Where that is.
        who: As `Login.name` has it.
        more: What follows "in".
    """
    return (
        f"NATS at {', '.join(servers)} does not let {who} in{more}. Give --user with {PASSWORD_ENV}, or "
        f"the seed of an nkey in {NKEY_ENV}"
    )


def _expired(where: str, ca: Path | None) -> str:
    now = datetime.now(UTC)
    anchors = [] if ca is None else x509.load_pem_x509_certificates(ca.read_bytes())
    over = [one.not_valid_after_utc for one in anchors if one.not_valid_after_utc < now]
    if over:
        return (
            f"the CA in {ca} expired on {max(over):%Y-%m-%d}, so NATS at {where} is not trusted. Make "
            f"a new CA and certificates of it for the servers, and name its file with --ca or {CA_ENV}"
        )
    return (
        f"NATS at {where} shows a certificate that has expired, by this machine's clock "
        f"({now:%Y-%m-%d}). Give the server a new one, or set the clock"
    )


def gone(servers: Sequence[str], why: str) -> str:
    """Return what to do about a server that was there and is not any more.

    Args:
        servers: Where it was looked for again.
        why: What came of it.
    """
    return (
        f"the connection to NATS ended and no server of the list answers: {', '.join(servers)}"
        f"{f' ({why})' if why else ''}. See that one runs, then give the command again"
    )
