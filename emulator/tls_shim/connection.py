"""One connection of the client to a runner: dial, handshake, echo each byte XOR 0xff, close."""

from __future__ import annotations

import itertools
import socket
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from emulator.tls_client import WRITE_MAX, TlsClient
from emulator.tls_shim.settings import NotImplementedHereError
from firmware.errors import describe
from firmware.layouts.tls import TLS_1_3, TlsState
from firmware.layouts.tls_sites import ALERT_RECEIVED, TRUNCATED, VERSION, Alert
from firmware.layouts.trust import EMPTY_STORE
from toolchain.cli.trust import trust_store
from toolchain.trust import TrustError, choose

if TYPE_CHECKING:
    from emulator.tls_shim.settings import Settings

PATIENCE_S = 60.0
"""How long a runner may be silent; its own patience ends before."""
LINGER_S = 5.0
"""How long it may take to read our last words."""
HOST = b"test"
"""Whom a certificate has to name when the runner gives no name: its own ones have this one."""
FLIPPED = bytes(n ^ 0xFF for n in range(256))
_SITE = 0xFFFF_0000


class FailedError(Exception):
    """The connection did not end as it should; the message is for the runner."""


def _store(settings: Settings) -> bytes:
    files = [(name, Path(name).read_bytes()) for name in settings.roots if name]
    if not settings.trusted or not files:
        return EMPTY_STORE
    today = datetime.fromtimestamp(settings.date, UTC)
    try:
        return trust_store(choose("none", files, today))
    except TrustError as error:
        raise NotImplementedHereError(str(error)) from error


class Connection:
    """A client and its socket.

    Args:
        settings: What the runner asks for.

    Raises:
        NotImplementedHereError: An anchor is of a kind that the client does not know.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.client = TlsClient(
            settings.host or HOST,
            _store(settings),
            settings.date,
            time.process_time_ns,  # a busy machine is no reason to give a handshake up
            named=bool(settings.host),
        )
        self._unread = b""
        self._pieces = itertools.cycle(settings.pieces)
        self._over = False
        self._wants_close_notify = True  # within the handshake, always

    def run(self) -> None:
        """Do all of it.

        Raises:
            FailedError: It failed, ours or theirs.
            NotImplementedHereError: The server speaks TLS 1.2, and the runner did not rule that out.
        """
        s = self._settings
        place = ("::1" if s.ipv6 else "127.0.0.1", s.port)
        with socket.create_connection(place, PATIENCE_S) as self._wire:
            self._wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._wire.sendall(s.shim_id.to_bytes(8, "little"))
            try:
                self._shake_hands()
                self._judge()
                self._talk()
                self._close()
            finally:
                self._leave()

    # -- the four parts ---------------------------------------------------------------------------
    def _shake_hands(self) -> None:
        while not self.client.ready():
            self._flush()
            self._check()
            if not self.client.busy:
                self._take()
        self._flush()

    def _judge(self) -> None:
        tls = self.client.shard.tls
        agreed = {"version": TLS_1_3, "suite": tls.suite, "group": tls.group}
        for name, value in self._settings.expected.items():
            if agreed[name] != value:
                raise FailedError(f":UNEXPECTED_{name.upper()}: {agreed[name]:#x}, not {value:#x}")

    def _talk(self) -> None:
        s = self._settings
        self._wants_close_notify = s.wants_close_notify
        for _ in range(s.repeat):
            self._say(s.first)
        while not s.shuts_down:
            if s.updates_keys:
                self.client.update_keys()
            text = self.client.read(s.read_size)
            if text:
                self._say(text.translate(FLIPPED))
            elif self._goes_on():
                self._take()
            else:
                break

    def _close(self) -> None:
        self.client.close()
        self._flush()
        if self._settings.shuts_down and self._wants_close_notify:
            while self.client.read(self._settings.read_size) or self._goes_on():
                self._take()

    def _goes_on(self) -> bool:
        """Tell whether more may come, when nothing is left to read."""
        over = self.client.ended()
        self._check()
        return not over and self.client.state != TlsState.FAILED

    # -- the wire ---------------------------------------------------------------------------------
    def _say(self, text: bytes) -> None:
        for at in range(0, len(text), WRITE_MAX):
            written = self.client.write(text[at : at + WRITE_MAX])
            self._check()
            if not written:
                raise FailedError(":NOT_WRITTEN: the server ended the stream before our answer")
            self._flush()

    def _take(self) -> None:
        """Wait for bytes of the server, or for its end."""
        client = self.client
        if not self._unread and not self._over:
            try:
                self._unread = self._wire.recv(1 << 16)
            except ConnectionResetError:
                self._unread = b""
            self._over = not self._unread
        size = min(len(self._unread), client.room, next(self._pieces))
        if size:
            client.receive(self._unread[:size])
            self._unread = self._unread[size:]
        elif self._over:
            client.end()
        else:
            raise FailedError(":RING_FULL: nobody reads what came")

    def _flush(self) -> None:
        """Send what the client says; that the server has gone already shows when it is read."""
        with suppress(BrokenPipeError, ConnectionResetError):
            self._wire.sendall(self.client.sent())

    def _check(self) -> None:
        """Tell the runner of a failure.

        A FIN without close_notify is one for the node; for runners it is when they say so.
        """
        client, error = self.client, self.client.error
        if client.state != TlsState.FAILED:
            return
        self._flush()
        reason = describe(error)
        older = not self._settings.only_1_3
        if error & _SITE == VERSION.code and older:
            raise NotImplementedHereError(f"the server speaks no TLS 1.3: {reason}")
        if error & _SITE == ALERT_RECEIVED.code and not client.greeted:
            nothing_in_common = {Alert.HANDSHAKE_FAILURE} | (
                {Alert.PROTOCOL_VERSION} if older else set()
            )
            if error & ~_SITE in nothing_in_common:
                raise NotImplementedHereError(f"what the server wants: {reason}")
        if error != TRUNCATED.code or self._wants_close_notify:
            raise FailedError(f":{reason}:")

    def _leave(self) -> None:
        """Go once the server has read everything: a reset would take the last words from it."""
        with suppress(OSError):
            self._flush()
            self._wire.shutdown(socket.SHUT_WR)
            self._wire.settimeout(LINGER_S)
            while self._wire.recv(1 << 16):
                pass
