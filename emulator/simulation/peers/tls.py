"""TLS between a peer's TCP and what is above it: OpenSSL without sockets, by the standard library.

Its randomness is its own, so a run over TLS is like the last one, but not byte for byte.
"""

from __future__ import annotations

import contextlib
import ssl
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from emulator.simulation.peers.tcp import Connection

CHUNK = 65_536


class TlsConnection:
    """A server's end of one TLS connection, with the interface of the TCP connection below it.

    Args:
        tcp: the connection, just made.
        context: a server's.

    Attributes:
        on_data: called with plaintext.
        on_eof: called when the client says close_notify, or ends TCP without.
        on_shaken: called when the handshake is complete.
        error: why OpenSSL gave up; empty as long as it did not.
    """

    def __init__(self, tcp: Connection, context: ssl.SSLContext) -> None:
        self._tcp = tcp
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._in, self._out, server_side=True)
        self.on_data: Callable[[bytes], None] | None = None
        self.on_eof: Callable[[], None] | None = None
        self.on_shaken: Callable[[], None] | None = None
        self.error = ""
        self._shaken = self._ended = False
        tcp.on_data = self._receive
        tcp.on_eof = self._end_of_tcp

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever TCP has
        """Leave everything else to TCP."""
        return getattr(self._tcp, name)

    @property
    def on_close(self) -> Callable[[str], None] | None:
        """What TCP calls at its end."""
        return self._tcp.on_close

    @on_close.setter
    def on_close(self, call: Callable[[str], None] | None) -> None:
        self._tcp.on_close = call

    @property
    def on_progress(self) -> Callable[[], None] | None:
        """What TCP calls when its queue has become shorter."""
        return self._tcp.on_progress

    @on_progress.setter
    def on_progress(self, call: Callable[[], None] | None) -> None:
        self._tcp.on_progress = call

    def send(self, data: bytes) -> None:
        """Seal and send."""
        self.tls.write(data)
        self._flush()

    def close(self) -> None:
        """Say close_notify, then FIN."""
        if self._shaken and not self._tcp.close_reason:
            with contextlib.suppress(ssl.SSLError):  # the client has not said its own yet
                self.tls.unwrap()
            self._flush()
        self._tcp.close()

    def _flush(self) -> None:
        data = self._out.read()
        if data and not self._tcp.close_reason and self._tcp.sender.fin_at is None:
            self._tcp.send(data)

    def _receive(self, data: bytes) -> None:
        self._in.write(data)
        try:
            if not self._shaken:
                self.tls.do_handshake()
                self._shaken = True
                if self.on_shaken is not None:
                    self.on_shaken()
            while not self._ended:
                text = self.tls.read(CHUNK)
                if not text:
                    self._end()
                elif self.on_data is not None:
                    self.on_data(text)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self._end()
        except ssl.SSLError as error:
            self.error = error.reason or str(error)
            self._flush()
            self._tcp.close()
        self._flush()

    def _end_of_tcp(self) -> None:
        self._end()

    def _end(self) -> None:
        if not self._ended:
            self._ended = True
            if self.on_eof is not None:
                self.on_eof()
