"""A runner as BoringSSL's is one: a listener that knows a shim by its id and speaks TLS with it."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import threading
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE_S = 60.0
TEXT = bytes(range(256)) * 5


class Runner:
    """The other end: a listener that takes one connection, looks at its id, and plays a part.

    Args:
        play: Given the TLS connection; what it returns is kept in `result`.
        context: How TLS is spoken.
        known: The id that the shim has to send.
    """

    def __init__(
        self,
        play: Callable[[ssl.SSLSocket], Any],
        context: ssl.SSLContext,
        *,
        known: int = 7,
        family: socket.AddressFamily = socket.AF_INET,
    ) -> None:
        self.result: Any = None
        self.errors: list[str] = []
        self._play, self._context, self._known = play, context, known
        place = "::1" if family == socket.AF_INET6 else "127.0.0.1"
        self._listener = socket.create_server((place, 0), family=family)
        self._listener.settimeout(PATIENCE_S)
        self.port = self._listener.getsockname()[1]

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join(2 * PATIENCE_S)
        self._listener.close()
        assert not self._thread.is_alive()

    def _serve(self) -> None:
        wire, _ = self._listener.accept()
        wire.settimeout(PATIENCE_S)
        with wire:
            (given,) = struct.unpack("<Q", wire.recv(8, socket.MSG_WAITALL))
            if given != self._known:
                self.errors.append(f"unknown id {given}")
                return
            try:
                with self._context.wrap_socket(wire, server_side=True) as tls:
                    self.result = self._play(tls)
            except (ssl.SSLError, ConnectionError) as error:
                self.errors.append(getattr(error, "reason", None) or str(error))


def echo(tls: ssl.SSLSocket) -> tuple[bytes, str | None, str]:
    """Say something, read it back, close in order."""
    tls.sendall(TEXT)
    got = b""
    while len(got) < len(TEXT) and (part := tls.recv(1 << 14)):
        got += part
    cipher = tls.cipher()
    assert cipher is not None
    agreed = tls.version(), cipher[0]
    with contextlib.suppress(OSError):
        tls.unwrap()
    return got, *agreed
