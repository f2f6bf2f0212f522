"""A TLS server without sockets, by the standard library (OpenSSL), and its certificates."""

from __future__ import annotations

import contextlib
import datetime
import functools
import ssl
import tempfile
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from tests.support.tls import NAME


@functools.cache
def identity(kind: str = "p256") -> tuple[str, str]:
    """Return files with a certificate for NAME that signed itself, and its key."""
    key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
    if kind == "rsa":
        key = rsa.generate_private_key(65537, 2048)
    else:
        key = ec.generate_private_key({"p256": ec.SECP256R1(), "p384": ec.SECP384R1()}[kind])
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, NAME.decode())])
    start = datetime.datetime(2026, 1, 1)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, start, start.replace(year=2036))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(NAME.decode())]), critical=False)
        .sign(key, hashes.SHA256())
    )
    folder = Path(tempfile.mkdtemp(prefix="tls-"))
    files = folder / "certificate.pem", folder / "key.pem"
    files[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    files[1].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return str(files[0]), str(files[1])


class Server:
    """One connection of a server.

    Args:
        kind: Its key: p256, p384 or rsa.
        request: Ask for a certificate of the client.
        tickets: Tickets behind the handshake.
        alpn: The protocols that it speaks.
        version: The one version that it speaks.
    """

    def __init__(
        self,
        kind: str = "p256",
        *,
        request: bool = False,
        tickets: int = 2,
        alpn: tuple[str, ...] = ("http/1.1",),
        version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3,
    ) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = context.maximum_version = version
        context.load_cert_chain(*identity(kind))
        context.num_tickets = tickets
        context.set_alpn_protocols(list(alpn))
        if request:
            context.verify_mode = ssl.CERT_OPTIONAL
            context.load_verify_locations(identity(kind)[0])
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._in, self._out, server_side=True)
        self.done = False
        self.received = b""

    def feed(self, data: bytes) -> bytes:
        """Take bytes of the client; return what the server answers."""
        self._in.write(data)
        if not self.done:
            try:
                self.tls.do_handshake()
                self.done = True
            except ssl.SSLError:  # it wants more, or it has an alert to tell
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
