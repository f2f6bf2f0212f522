"""Who is believed, and what a failure is called for a runner: the same for a machine and for a node."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from emulator.tls_shim.settings import NotImplementedHereError
from firmware.errors import describe
from firmware.layouts.tls_sites import ALERT_RECEIVED, TRUNCATED, VERSION, Alert
from firmware.layouts.trust import EMPTY_STORE
from toolchain.cli.trust import trust_store
from toolchain.trust import TrustError, choose

if TYPE_CHECKING:
    from emulator.tls_shim.settings import Settings

HOST = b"test"
"""Whom a certificate has to name when the runner gives no name: its own ones have this one."""
_SITE = 0xFFFF_0000


class FailedError(Exception):
    """The connection did not end as it should; the message is for the runner."""


def anchors(settings: Settings) -> bytes:
    """Return the trust store of a run.

    Raises:
        NotImplementedHereError: An anchor is of a kind that the client does not know.
    """
    files = [(name, Path(name).read_bytes()) for name in settings.roots if name]
    if not settings.trusted or not files:
        return EMPTY_STORE
    today = datetime.fromtimestamp(settings.date, UTC)
    try:
        return trust_store(choose("none", files, today))
    except TrustError as error:
        raise NotImplementedHereError(str(error)) from error


def tell(error: int, settings: Settings, *, greeted: bool, wants_close_notify: bool) -> None:
    """Tell the runner of a failure; of a FIN without close_notify only when it wants to hear that.

    Args:
        error: The client's: layer << 24 | site << 16 | detail.
        settings: What the runner asks for.
        greeted: The server has said hello.
        wants_close_notify: The end of the server without close_notify is a failure.

    Raises:
        FailedError: It is a failure.
        NotImplementedHereError: The server does not speak what the client speaks.
    """
    reason, older = describe(error), not settings.only_1_3
    if error & _SITE == VERSION.code and older:
        raise NotImplementedHereError(f"the server speaks no TLS 1.3: {reason}")
    if error & _SITE == ALERT_RECEIVED.code and not greeted:
        nothing_in_common = {Alert.HANDSHAKE_FAILURE} | (
            {Alert.PROTOCOL_VERSION} if older else set()
        )
        if error & ~_SITE in nothing_in_common:
            raise NotImplementedHereError(f"what the server wants: {reason}")
    if error != TRUNCATED.code or wants_close_notify:
        raise FailedError(f":{reason}:")
