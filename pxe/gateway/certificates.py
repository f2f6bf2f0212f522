"""Certificates for a gateway that serves TLS: a leaf, an intermediate and a root of its own.

::

    chain = make_chain(("10.0.2.2", "gateway.lan"))
    server = GatewayServer(options, ssl_context=chain.context())
    Path("ca.pem").write_bytes(chain.root)

The parameters are many because tests want chains of every kind; without any, the chain looks like
those of today's large services.
"""

import ipaddress
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from toolchain.trust import HOST

KEYS: Final = ("p256", "p384", "rsa2048", "rsa3072", "rsa4096")
ROLES: Final = ("leaf", "intermediate", "root")
ORGANIZATION: Final = "shardfw local gateway"
LIFE: Final = {
    "leaf": timedelta(days=397),
    "intermediate": timedelta(days=5 * 365),
    "root": timedelta(days=10 * 365),
}
"""How long each counts; a leaf as long as the web allows."""
SLACK: Final = timedelta(days=1)
"""Certificates count from so long ago: a node's clock may be a time zone off."""
WILDCARD: Final = "*."
"""As the first label of a name: any one label."""
LEAF_FILE, KEY_FILE, ROOT_FILE = "chain.pem", "key.pem", "ca.pem"

_Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
_PEM = serialization.Encoding.PEM


@dataclass(frozen=True)
class Span:
    """When a certificate counts, both ends included."""

    start: datetime
    end: datetime


@dataclass(frozen=True)
class ServerChain:
    """What a server shows, and what its clients have to trust; all of it PEM.

    Attributes:
        chain: The leaf, then the intermediate.
        key: The leaf's private key.
        root: The root's certificate.
    """

    chain: bytes
    key: bytes = field(repr=False)
    root: bytes

    def write(self, folder: Path) -> None:
        """Write the three files into a folder; only its owner may read the key."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / KEY_FILE).touch(mode=0o600)
        for name, contents in self._files().items():
            (folder / name).write_bytes(contents)

    def context(self) -> ssl.SSLContext:
        """Return the context of a server that shows this chain: TLS 1.3 alone, HTTP/1.1."""
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        made.minimum_version = ssl.TLSVersion.TLSv1_3
        made.set_alpn_protocols(["http/1.1"])
        # The library reads files alone.
        with tempfile.TemporaryDirectory(prefix="shardfw-tls-") as folder:
            self.write(Path(folder))
            made.load_cert_chain(Path(folder, LEAF_FILE), Path(folder, KEY_FILE))
        return made

    def client_context(self) -> ssl.SSLContext:
        """Return the context of a client that trusts this root and nobody else."""
        return ssl.create_default_context(cadata=self.root.decode())

    def _files(self) -> dict[str, bytes]:
        return {LEAF_FILE: self.chain, KEY_FILE: self.key, ROOT_FILE: self.root}


def make_chain(
    names: tuple[str, ...],
    *,
    leaf: str = "p256",
    intermediate: str = "p256",
    root: str = "p384",
    spans: Mapping[str, Span] | None = None,
) -> ServerChain:
    """Make keys and certificates.

    Args:
        names: Host names, `*` in place of the first label too, and IPv4 addresses of the leaf.
        leaf: Kind of its key, one of KEYS.
        intermediate: Kind of the intermediate's key.
        root: Kind of the root's key.
        spans: When each of ROLES counts; from a day ago for its LIFE where it is missing.

    Raises:
        ValueError: No names, one that cannot be one, or an unknown kind or role.
    """
    if not names:
        raise ValueError("a leaf without a name serves nobody: give a host name or an address")
    unknown = [role for role in spans or {} if role not in ROLES]
    if unknown:
        raise ValueError(f"{unknown[0]!r} is no certificate of a chain: give {', '.join(ROLES)}")
    kinds = dict(zip(ROLES, (leaf, intermediate, root), strict=True))
    keys = {role: _key(kind) for role, kind in kinds.items()}
    start = datetime.now(UTC) - SLACK
    when = {role: Span(start, start + life) for role, life in LIFE.items()} | dict(spans or {})
    authority = _certificate("root", "root", keys, when["root"], _ca(None))
    between = _certificate("intermediate", "root", keys, when["intermediate"], _ca(0))
    server = _certificate("leaf", "intermediate", keys, when["leaf"], _server(names))
    return ServerChain(
        server.public_bytes(_PEM) + between.public_bytes(_PEM),
        keys["leaf"].private_bytes(
            _PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ),
        authority.public_bytes(_PEM),
    )


def kept_chain(folder: Path, names: tuple[str, ...]) -> ServerChain:
    """Return the chain of a folder, so that an image that trusts it stays good.

    A chain is made and written when there is none, when it has not all of the names, or when its leaf
    ends within a day.

    Args:
        folder: Made when it is missing.
        names: Host names and IPv4 addresses that a leaf must have.

    Raises:
        OSError: It cannot be written.
        ValueError: A name cannot be one.
    """
    wanted = set(_general_names(names))
    try:
        parts = [(folder / name).read_bytes() for name in (LEAF_FILE, KEY_FILE, ROOT_FILE)]
        found = ServerChain(*parts)
        if _serves(x509.load_pem_x509_certificate(found.chain), wanted):
            return found
    except (OSError, ValueError, x509.ExtensionNotFound):
        pass  # there is none yet, or something else lies there
    made = make_chain(names)
    made.write(folder)
    return made


def _serves(leaf: x509.Certificate, names: set[x509.GeneralName]) -> bool:
    held = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    ends_late = leaf.not_valid_after_utc > datetime.now(UTC) + SLACK
    return ends_late and names <= set(held)


def _general_names(names: tuple[str, ...]) -> list[x509.GeneralName]:
    found: list[x509.GeneralName] = []
    for name in names:
        try:
            found.append(x509.IPAddress(ipaddress.ip_address(name)))
        except ValueError:
            if not HOST.fullmatch(name.removeprefix(WILDCARD).encode()):
                raise ValueError(f"{name!r} is neither a host name nor an address") from None
            found.append(x509.DNSName(name))
    return found


def _key(kind: str) -> _Key:
    if kind not in KEYS:
        raise ValueError(f"{kind!r} is no kind of key: give one of {', '.join(KEYS)}")
    if kind.startswith("rsa"):
        return rsa.generate_private_key(65537, int(kind.removeprefix("rsa")))
    return ec.generate_private_key(ec.SECP384R1() if kind == "p384" else ec.SECP256R1())


def _usage(*, ca: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not ca,
        key_cert_sign=ca,
        crl_sign=ca,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _ca(path_length: int | None) -> list[tuple[x509.ExtensionType, bool]]:
    """Return extensions of a CA, and whether each is critical."""
    return [
        (x509.BasicConstraints(ca=True, path_length=path_length), True),
        (_usage(ca=True), True),
    ]


def _server(names: tuple[str, ...]) -> list[tuple[x509.ExtensionType, bool]]:
    """Return extensions of a server's certificate, and whether each is critical."""
    return [
        (x509.BasicConstraints(ca=False, path_length=None), True),
        (_usage(ca=False), True),
        (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False),
        (x509.SubjectAlternativeName(_general_names(names)), False),
    ]


def _name(role: str) -> x509.Name:
    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, ORGANIZATION),
            x509.NameAttribute(NameOID.COMMON_NAME, f"{ORGANIZATION}, {role}"),
        ]
    )


def _certificate(
    role: str,
    issuer: str,
    keys: Mapping[str, _Key],
    span: Span,
    extensions: list[tuple[x509.ExtensionType, bool]],
) -> x509.Certificate:
    own, signer = keys[role], keys[issuer]
    builder = x509.CertificateBuilder(
        _name(issuer),
        _name(role),
        own.public_key(),
        x509.random_serial_number(),
        span.start,
        span.end,
    )
    identifiers = [
        x509.SubjectKeyIdentifier.from_public_key(own.public_key()),
        x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()),
    ]
    for extension, critical in [*extensions, *((one, False) for one in identifiers)]:
        builder = builder.add_extension(extension, critical)
    large = isinstance(signer, ec.EllipticCurvePrivateKey) and signer.key_size > 256
    return builder.sign(signer, hashes.SHA384() if large else hashes.SHA256())
