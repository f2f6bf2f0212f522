"""What a runner asks of the client, read from its flags (single dash, value behind it)."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from firmware.layouts.tls import TLS_1_3, Group, Suite
from firmware.layouts.tls_arena import ALPN_NAME, GROUPS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


PIECES = (1, 3, 7, 150)
"""Bytes that come at a time, in turn, when a runner wants the transport to stop anywhere."""


class NotImplementedHereError(Exception):
    """The runner asks for what the client does not do; the message says for what."""


@dataclass
class Settings:
    """One run.

    Attributes:
        port: Where the runner listens.
        shim_id: What it knows this run by.
        ipv6: Dial ::1 instead of 127.0.0.1.
        host: Name for SNI, and that the certificate has to have; empty is no SNI.
        roots: PEM files where a chain may end.
        date: When it is, in Unix seconds.
        only_1_3: The runner expects nothing older.
        trusted: Let chains end anywhere; False has every one refused.
        pieces: Bytes that the client is given at a time, in turn.
        read_size: Bytes that it reads at a time.
        first: What it says before it reads.
        repeat: How often.
        shuts_down: It ends the connection itself, without reading.
        wants_close_notify: The end of the server without close_notify is a failure.
        updates_keys: Keys change before every answer.
        expected: What the handshake has to have agreed on, by name.
        node: Port of the keeper of a node that connects instead; 0 = the client runs here.
    """

    port: int = 0
    shim_id: int = 0
    ipv6: bool = False
    host: bytes = b""
    roots: list[str] = field(default_factory=list)
    date: int = field(default_factory=lambda: int(time.time()))
    only_1_3: bool = False
    trusted: bool = True
    pieces: tuple[int, ...] = (1 << 16,)
    read_size: int = 512
    first: bytes = b"hello"
    repeat: int = 0
    shuts_down: bool = False
    wants_close_notify: bool = False
    updates_keys: bool = False
    expected: dict[str, int] = field(default_factory=dict)
    node: int = 0


_Handler: TypeAlias = "Callable[[Settings, str], object]"


def _store(name: str, value: object) -> _Handler:
    return lambda settings, _: setattr(settings, name, value)


def _number(name: str) -> _Handler:
    return lambda settings, text: setattr(settings, name, int(text, 0))


def _expects(name: str, known: Sequence[int]) -> _Handler:
    def note(settings: Settings, text: str) -> None:
        if int(text) not in known:
            raise NotImplementedHereError(f"{name} {text}")
        settings.expected[name] = int(text)

    return note


def _only(*values: str) -> _Handler:
    def judge(_settings: Settings, text: str) -> None:
        if text not in values:
            raise NotImplementedHereError(f"the value {text!r}")

    return judge


def _at_least(settings: Settings, text: str) -> None:
    settings.only_1_3 = int(text, 0) == TLS_1_3
    if int(text, 0) > TLS_1_3:
        raise NotImplementedHereError(f"version {text}")


def _at_most(_settings: Settings, text: str) -> None:
    if int(text, 0) < TLS_1_3:
        raise NotImplementedHereError(f"version {text}")


def _first(settings: Settings, text: str) -> None:
    settings.first = text.encode()


def _nothing(_settings: Settings, _text: str) -> None:
    """Take what makes no difference to this client."""


_OURS = ALPN_NAME.decode()
SWITCHES: dict[str, _Handler] = {
    "-ipv6": _store("ipv6", True),
    "-async": _store("pieces", PIECES),
    "-shim-writes-first": _store("repeat", 1),
    "-shim-shuts-down": _store("shuts_down", True),
    "-check-close-notify": _store("wants_close_notify", True),
    "-verify-fail": _store("trusted", False),
    "-key-update": _store("updates_keys", True),
    "-key-update-before-read": _store("updates_keys", True),
    "-no-tls12": _store("only_1_3", True),
    # How BoringSSL's interface is called, or what this client never does anyway.
    **dict.fromkeys(
        (
            *("-no-tls1", "-no-tls11", "-no-ticket", "-verify-peer", "-implicit-handshake"),
            *("-handshake-twice", "-no-op-extra-handshake", "-use-custom-verify-callback"),
            *("-expect-no-session", "-peek-then-read", "-partial-write"),
        ),
        _nothing,
    ),
}
"""Flags that stand alone."""
VALUES: dict[str, _Handler] = {
    "-port": _number("port"),
    "-node": _number("node"),
    "-shim-id": _number("shim_id"),
    "-host-name": lambda settings, text: setattr(settings, "host", text.encode()),
    "-trust-cert": lambda settings, text: settings.roots.append(text),
    "-clock": _number("date"),
    "-min-version": _at_least,
    "-max-version": _at_most,
    "-read-size": _number("read_size"),
    "-shim-initial-write": _first,
    "-repeat-shim-initial-write": _number("repeat"),
    "-expect-version": _expects("version", (TLS_1_3,)),
    "-expect-cipher": _expects("suite", tuple(Suite)),
    "-expect-curve-id": _expects("group", tuple(Group)),
    "-expect-total-renegotiations": _only("0"),
    "-advertise-alpn": _only(f"{chr(len(_OURS))}{_OURS}"),
}
"""Flags with a value behind them."""
CURVES = "-curves"


def read_flags(arguments: Sequence[str]) -> Settings:
    """Return what the flags ask for.

    Raises:
        NotImplementedHereError: A flag is not known, or its value is not what the client can do.
    """
    settings, curves = Settings(), []
    rest: Iterator[str] = iter(arguments)
    for given in rest:
        # With one connection, the first one is all there is.
        flag = given.replace("-on-initial-", "-", 1)
        if flag in SWITCHES:
            SWITCHES[flag](settings, "")
            continue
        if flag != CURVES and flag not in VALUES:
            raise NotImplementedHereError(given)
        value = next(rest, None)
        if value is None:
            raise NotImplementedHereError(f"{given} without a value")
        if flag == CURVES:
            curves.append(int(value))
        else:
            VALUES[flag](settings, value)
    if curves and tuple(curves) != GROUPS:
        raise NotImplementedHereError(f"the curves {curves}")
    return settings
