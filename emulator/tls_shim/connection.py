"""One connection of the client to a runner: dial, handshake, echo each byte XOR 0xff, close."""

from __future__ import annotations

import itertools
import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from emulator.tls_client import WRITE_MAX, TlsClient
from emulator.tls_shim.verdict import HOST, FailedError, anchors, tell
from emulator.tls_shim.wire import LINGER_S, dial
from firmware.layouts.tls import TLS_1_3, TlsState

if TYPE_CHECKING:
    from emulator.tls_shim.settings import Settings

FLIPPED = bytes(n ^ 0xFF for n in range(256))


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
            anchors(settings),
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
        with dial(self._settings) as self._wire:
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
        client = self.client
        if client.state == TlsState.FAILED:
            self._flush()
            tell(
                client.error,
                self._settings,
                greeted=client.greeted,
                wants_close_notify=self._wants_close_notify,
            )

    def _leave(self) -> None:
        """Go once the server has read everything: a reset would take the last words from it."""
        with suppress(OSError):
            self._flush()
            self._wire.shutdown(socket.SHUT_WR)
            self._wire.settimeout(LINGER_S)
            while self._wire.recv(1 << 16):
                pass
