"""A TLS server without sockets, by the standard library (OpenSSL), and its certificates."""

from __future__ import annotations

import contextlib
import datetime
import functools
import ssl
import tempfile
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from tests.support.tls import NAME


@dataclass(frozen=True)
class Identity:
    """What a server shows, and where its chain ends.

    Attributes:
        chain: File with the leaf and its intermediate.
        key: File with the leaf's key.
        root: The root's certificate as DER.
    """

    chain: str
    key: str
    root: bytes


_CURVES = {"p256": ec.SECP256R1(), "p384": ec.SECP384R1()}
_Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
_PEM = serialization.Encoding.PEM


def _key(kind: str) -> _Key:
    if kind == "rsa":
        return rsa.generate_private_key(65537, 2048)
    return ec.generate_private_key(_CURVES[kind])


def _certificate(
    subject: str, key: _Key, issuer: str, signer: _Key, host: str = "", days: int = 3650
) -> x509.Certificate:
    """Return a server's certificate when it has a host, else a CA's."""
    start = datetime.datetime(2026, 1, 1)
    names = [
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)]) for text in (subject, issuer)
    ]
    builder = x509.CertificateBuilder(
        names[1], names[0], key.public_key(), x509.random_serial_number(), start,
        start + datetime.timedelta(days=days),
    ).add_extension(x509.BasicConstraints(ca=not host, path_length=None), critical=True)  # fmt: skip
    if host:
        builder = builder.add_extension(
            x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False
        )
    size = getattr(key if signer is key else signer, "key_size", 0)
    return builder.sign(signer, hashes.SHA384() if size == 384 else hashes.SHA256())


@functools.cache
def identity(
    kind: str = "p256", issuers: str = "", host: str = NAME.decode(), days: int = 3650
) -> Identity:
    """Return a chain of leaf, intermediate and root.

    Args:
        kind: Key of the leaf: p256, p384 or rsa.
        issuers: Keys of intermediate and root; the leaf's kind when it is empty.
        host: The leaf's name.
        days: How long the leaf counts, from the start of 2026.
    """
    keys = [_key(one) for one in (kind, issuers or kind, issuers or kind)]
    name = f"root {issuers or kind}"
    root = _certificate(name, keys[2], name, keys[2])
    middle = _certificate("intermediate", keys[1], name, keys[2])
    leaf = _certificate("server", keys[0], "intermediate", keys[1], host, days)
    folder = Path(tempfile.mkdtemp(prefix="tls-"))
    chain, key = folder / "chain.pem", folder / "key.pem"
    chain.write_bytes(leaf.public_bytes(_PEM) + middle.public_bytes(_PEM))
    key.write_bytes(
        keys[0].private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return Identity(str(chain), str(key), root.public_bytes(serialization.Encoding.DER))


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
