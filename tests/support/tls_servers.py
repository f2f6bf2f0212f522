"""TLS servers of other people that run in this process, each serving one connection to an echo node.

A server is used as `with server as running`: the node connects to `running.port`, `running.drive()`
talks to it, and `running.check(verdict)` judges what both sides say.
"""

from __future__ import annotations

import socket
import ssl
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from tlslite.api import HandshakeSettings, TLSConnection, X509CertChain, parsePEMKey

from tests.support.tls_peer import Identity, server_context

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.support.tls_echo import Verdict

NAME = "gateway.test"
PATIENCE_S = 60.0


def turned(data: bytes) -> bytes:
    """Return what the role answers."""
    return bytes(byte ^ 0xFF for byte in data)


class Served:
    """A server in this process: one connection, one script, in a thread.

    Args:
        script: Gets the accepted socket; what it raises is raised by `drive`.
    """

    def __init__(self, script: Callable[[socket.socket], None]) -> None:
        self._script = script
        self._error: BaseException | None = None
        self.ask: dict[str, Any] = {}

    def __enter__(self) -> Self:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(PATIENCE_S)
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        try:
            accepted, _ = self._listener.accept()
            with accepted:
                accepted.settimeout(PATIENCE_S)
                self._script(accepted)
        except BaseException as error:
            self._error = error

    def drive(self) -> None:
        """Wait until the script is over."""
        self._thread.join()
        if self._error is not None:
            raise self._error

    def check(self, verdict: Verdict) -> None:
        """The node says that all went well."""
        assert verdict.why == "ok", verdict


@dataclass
class Echo:
    """What a server says, piece by piece; each comes back turned.

    Attributes:
        pieces: The pieces; each is one write of the server.
        wait: Read the answer of a piece before the next one is said.
    """

    pieces: Sequence[bytes] = (b"hello", b"", bytes(range(256)) * 4)
    wait: bool = True

    def run(self, connection: Any) -> None:
        """Say them, and judge what comes back."""
        if self.wait:
            for piece in self.pieces:
                connection.sendall(piece)
                expect(connection, piece)
            return
        speaker = threading.Thread(target=lambda: [*map(connection.sendall, self.pieces)])
        speaker.start()
        expect(connection, b"".join(self.pieces))
        speaker.join()


def expect(connection: Any, said: bytes) -> None:
    """Read as many bytes as were said; they are those, turned."""
    got = b""
    while len(got) < len(said):
        part = connection.recv(len(said) - len(got))
        assert part, f"the node ended after {len(got)} of {len(said)} bytes"
        got += part
    assert got == turned(said)


def python_ssl(
    shown: Identity, echo: Echo | None = None, *, curve: str = "", tickets: int = 2
) -> Served:
    """Return Python's ssl as a server."""

    def script(accepted: socket.socket) -> None:
        context = server_context(shown)
        context.num_tickets = tickets
        if curve:
            context.set_ecdh_curve(curve)
        with context.wrap_socket(accepted, server_side=True) as connection:
            assert connection.version() == "TLSv1.3"
            assert connection.selected_alpn_protocol() == "http/1.1"
            (echo or Echo()).run(connection)
            connection.unwrap()

    return Served(script)


def refused_by_node(shown: Identity) -> Served:
    """Return a server that the node refuses; the alert is in `alert` of what it returns."""

    def script(accepted: socket.socket) -> None:
        with server_context(shown).wrap_socket(
            accepted, server_side=True, do_handshake_on_connect=False
        ) as connection:
            try:
                connection.do_handshake()
                connection.recv(1)
            except ssl.SSLError as error:
                made.ask["alert"] = error.reason
            else:
                raise AssertionError("the node did not refuse")

    made = Served(script)
    return made


def tlslite_server(
    shown: Identity,
    echo: Echo | None = None,
    *,
    group: str = "x25519",
    request: bool = False,
    updates: bool = False,
) -> Served:
    """Return tlslite-ng as a server; its whole flight is one record.

    Args:
        shown: The certificate.
        echo: What it says.
        group: The one group of its key exchange, by its own name.
        request: Ask for a certificate of the client.
        updates: Change keys in between, and ask for the client's.
    """

    def script(accepted: socket.socket) -> None:
        settings = HandshakeSettings()
        settings.minVersion = settings.maxVersion = (3, 4)
        settings.keyShares = settings.eccCurves = [group]
        settings.dhGroups = []
        connection = TLSConnection(accepted)
        connection.handshakeServer(
            certChain=tlslite_chain(shown),
            privateKey=tlslite_key(shown),
            settings=settings,
            reqCert=request,
            alpn=[bytearray(b"http/1.1")],
        )
        assert connection.session.appProto == b"http/1.1"
        assert connection.session.serverName == NAME
        said = echo or Echo()
        said.run(connection)
        for kind in range(2 if updates else 0):  # ours alone, then ours and theirs
            for _ in connection.send_keyupdate_request(kind):
                pass
            said.run(connection)
        connection.close()

    return Served(script)


def tlslite_chain(shown: Identity) -> X509CertChain:
    """Return a chain as tlslite-ng has it."""
    chain = X509CertChain()
    chain.parsePemList(Path(shown.chain).read_text())
    return chain


def tlslite_key(shown: Identity) -> Any:
    """Return a private key as tlslite-ng has it."""
    return parsePEMKey(Path(shown.key).read_text(), private=True)
