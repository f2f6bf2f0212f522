"""A TLS server without sockets, by the standard library (OpenSSL), and its certificates."""

from __future__ import annotations

import contextlib
import datetime
import functools
import ssl
import tempfile
from dataclasses import dataclass
from pathlib import Path

from pxe.gateway.certificates import KEY_FILE, LEAF_FILE, ROLES, Span, make_chain
from tests.support.tls import NAME


@dataclass(frozen=True)
class Identity:
    """What a server shows, and where its chain ends.

    Attributes:
        chain: File with the leaf and its intermediate.
        key: File with the leaf's key.
        root: The root's certificate as DER. The roots of all chains have one name.
    """

    chain: str
    key: str
    root: bytes


@functools.cache
def _parent() -> tempfile.TemporaryDirectory[str]:
    """Return what holds this process's folders; it is removed when the process ends."""
    return tempfile.TemporaryDirectory(prefix="shardfw-tls-")


def new_folder() -> Path:
    """Return an empty folder for certificates."""
    return Path(tempfile.mkdtemp(dir=_parent().name))


@functools.cache
def identity(
    kind: str = "p256",
    issuers: tuple[str, str] | None = None,
    host: str = NAME.decode(),
    days: int = 3650,
) -> Identity:
    """Return a chain of leaf, intermediate and root.

    Args:
        kind: Key of the leaf.
        issuers: Keys of intermediate and root; None is the leaf's kind.
        host: The leaf's name.
        days: How long the leaf counts, from the start of 2026.
    """
    between, root = issuers or (kind, kind)
    start = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    spans = {
        role: Span(start, start + datetime.timedelta(days=days if role == "leaf" else 3650))
        for role in ROLES
    }
    made = make_chain((host,), leaf=kind, intermediate=between, root=root, spans=spans)
    folder = new_folder()
    made.write(folder)
    der = ssl.PEM_cert_to_DER_cert(made.root.decode())
    return Identity(str(folder / LEAF_FILE), str(folder / KEY_FILE), der)


def server_context(
    shown: Identity,
    *,
    version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3,
    alpn: tuple[str, ...] = ("http/1.1",),
) -> ssl.SSLContext:
    """Return what serves a chain in one version."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = context.maximum_version = version
    context.load_cert_chain(shown.chain, shown.key)
    context.set_alpn_protocols(list(alpn))
    return context


class Server:
    """One connection of a server.

    Args:
        kind: Its key, see `identity`.
        shown: What it shows instead.
        request: Ask for a certificate of the client.
        tickets: Tickets behind the handshake.
        alpn: The protocols that it speaks.
        version: The one version that it speaks.
        curve: The one curve of its key exchange, by OpenSSL's name; any when it is empty.
    """

    def __init__(
        self,
        kind: str = "p256",
        *,
        shown: Identity | None = None,
        request: bool = False,
        tickets: int = 2,
        alpn: tuple[str, ...] = ("http/1.1",),
        version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3,
        curve: str = "",
    ) -> None:
        self.identity = shown or identity(kind)
        context = server_context(self.identity, version=version, alpn=alpn)
        context.num_tickets = tickets
        if curve:
            context.set_ecdh_curve(curve)
        if request:
            context.verify_mode = ssl.CERT_OPTIONAL
            context.load_verify_locations(self.identity.chain)
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._in, self._out, server_side=True)
        self.done = False
        self.received = b""
        self.reason = ""

    def feed(self, data: bytes) -> bytes:
        """Take bytes of the client; return what the server answers."""
        self._in.write(data)
        if not self.done:
            try:
                self.tls.do_handshake()
                self.done = True
            except ssl.SSLError as error:  # it wants more, or one of both has an alert to tell
                self.reason = error.reason
                return self._out.read()
        try:
            while chunk := self.tls.read(65536):
                self.received += chunk
        except ssl.SSLWantReadError:
            pass
        return self._out.read()

    def say(self, data: bytes) -> bytes:
        """Return records that carry data."""
        self.tls.write(data)
        return self._out.read()

    def close(self) -> bytes:
        """Return close_notify."""
        with contextlib.suppress(ssl.SSLWantReadError):
            self.tls.unwrap()
        return self._out.read()
