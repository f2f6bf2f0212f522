"""Trust anchors for a build: read from PEM, judged, and chosen.

An anchor is a name, a key and its limits. Only that is taken from a root certificate: nobody
verifies the signature of an anchor, and its serial number or start mean nothing.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import certifi

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PEM = re.compile(rb"-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----", re.DOTALL)
EXPIRES_SOON = timedelta(days=90)
WEB_CORE = (
    "Amazon",
    "DigiCert Inc",
    "DigiCert, Inc.",
    "Google Trust Services LLC",
    "Internet Security Research Group",
    "SSL Corporation",
    "Sectigo Limited",
    "The USERTRUST Network",
)
"""Organizations of the CAs behind Cloudflare and Let's Encrypt, and of the larger clouds."""
_SEQUENCE, _INTEGER, _BITS, _OCTETS, _OID, _BOOLEAN = 0x30, 2, 3, 4, 6, 1
_UTC, _GENERALIZED, _EXTENSIONS = 0x17, 0x18, 0xA3
_COMMON_NAME, _ORGANIZATION = bytes.fromhex("550403"), bytes.fromhex("55040a")
_BASIC, _USAGE, _CONSTRAINTS = (bytes([0x55, 0x1D, n]) for n in (19, 15, 30))
_READ = {_BASIC, _USAGE, _CONSTRAINTS, bytes([0x55, 0x1D, 37]), bytes([0x55, 0x1D, 17])}
_KEY_CERT_SIGN = 0x04
_DNS, _IP = 0x82, 0x87
_LABEL = rb"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)"
HOST = re.compile(_LABEL + rb"(\." + _LABEL + rb")*")
_EC = bytes.fromhex("06072a8648ce3d0201")
_RSA = bytes.fromhex("06092a864886f70d0101010500")
_POINTS = {
    _EC + bytes.fromhex("06082a8648ce3d030107"): 65,
    _EC + bytes.fromhex("06052b81040022"): 97,
}
_RSA_BYTES = range(256, 513)


class TrustError(Exception):
    """A certificate cannot be an anchor; the message says which and why.

    Attributes:
        organization: Of the certificate, as far as it could be read.
    """

    organization = ""


@dataclass(frozen=True)
class Anchor:
    """A name and a key that are trusted.

    Attributes:
        subject: The name, DER with its header.
        spki: SubjectPublicKeyInfo, DER with its header.
        not_after: The last second that counts.
        constraints: Contents of nameConstraints' SEQUENCE; empty when there are none.
        path_length: Intermediates that may follow; None is no limit.
        label: Its common name, else its organization, for people.
        organization: Its organization, or an empty text.
    """

    subject: bytes
    spki: bytes
    not_after: datetime
    constraints: bytes
    path_length: int | None
    label: str
    organization: str


def _elements(contents: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield tag, contents and the whole of every element in a row.

    Raises:
        ValueError: It is no DER.
    """
    while contents:
        head = 2
        size = contents[1] if len(contents) > 1 else 0x80
        if size >= 0x80:
            head += size - 0x80
            size = int.from_bytes(contents[2:head], "big")
            if head == 2 or len(contents) < head or size < 0x80:
                raise ValueError("a length is not in DER")
        if len(contents) < head + size:
            raise ValueError("an element ends outside of what holds it")
        yield contents[0], contents[head : head + size], contents[: head + size]
        contents = contents[head + size :]


def _list(contents: bytes, tag: int) -> list[tuple[int, bytes, bytes]]:
    """Return what the one element of a tag holds."""
    ((found, inside, _),) = _elements(contents)
    if found != tag:
        raise ValueError(f"tag {found:#04x} stands where {tag:#04x} belongs")
    return list(_elements(inside))


def _texts(subject: bytes) -> dict[bytes, str]:
    """Return the texts of a name by the contents of their OIDs."""
    found = {}
    for _, relative, _ in _list(subject, _SEQUENCE):
        for _, pair, _ in _elements(relative):
            (_, oid, _), (_, value, _) = _elements(pair)
            found[oid] = value.decode("utf-8", "replace")
    return found


def _time(tag: int, contents: bytes) -> datetime:
    text = contents.decode("ascii")
    if tag == _UTC:
        text = ("19" if int(text[:2]) >= 50 else "20") + text
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)


def _judge_key(spki: bytes) -> None:
    """Refuse a key that the node cannot verify with."""
    (_, algorithm, _), (_, bits, _) = _list(spki, _SEQUENCE)
    key = bits[1:]
    if algorithm == _RSA:
        (_, modulus, _), (_, exponent, _) = _list(key, _SEQUENCE)
        n, e = (int.from_bytes(number, "big") for number in (modulus, exponent))
        good = n.bit_length() % 8 == 0 and n.bit_length() // 8 in _RSA_BYTES
        if not good or n % 2 == 0 or e < 3 or e % 2 == 0 or e >= 1 << 32:
            raise TrustError("its RSA key does not have 2048 to 4096 bits in whole bytes")
    elif _POINTS.get(algorithm) != len(key) or key[0] != 4:
        raise TrustError("its key is neither RSA nor a point of P-256 or P-384")


def _limits(extensions: bytes) -> tuple[int | None, bytes]:
    """Return path length and name constraints; refuse what is no CA."""
    values = {}
    for _, inside, _ in _list(extensions, _SEQUENCE):
        (_, oid, _), *flag, (_, value, _) = _elements(inside)
        if flag and oid not in _READ:
            raise TrustError(f"its critical extension {oid.hex()} is not known")
        values[oid] = value
    basic = _list(values[_BASIC], _SEQUENCE) if _BASIC in values else []
    if not basic or basic[0][0] != _BOOLEAN:
        raise TrustError("it is not the certificate of a CA (basicConstraints)")
    if _USAGE in values:
        ((_, bits, _),) = _elements(values[_USAGE])
        if not (bits[1:2] or b"\0")[0] & _KEY_CERT_SIGN:
            raise TrustError("its keyUsage does not allow it to sign certificates")
    length = int.from_bytes(basic[1][1], "big") if len(basic) > 1 else None
    ((_, constraints, _),) = _elements(values.get(_CONSTRAINTS, b"\x30\0"))
    _judge_constraints(constraints)
    return length, constraints


def _judge_constraints(constraints: bytes) -> None:
    """Refuse name constraints that the node does not read: it takes those of an anchor on trust."""
    lists = list(_elements(constraints))
    if [tag for tag, _, _ in lists] not in ([], [0xA0], [0xA1], [0xA0, 0xA1]):
        raise TrustError("its name constraints are not permitted and excluded ones")
    for _, inside, _ in lists:
        subtrees = [list(_elements(subtree)) for _, subtree, _ in _elements(inside)]
        if not subtrees:
            raise TrustError("a list of its name constraints is empty")
        for bases in subtrees:
            if len(bases) != 1 or not _known_base(*bases[0][:2]):
                raise TrustError(
                    "its name constraints hold other things than host names and networks"
                )


def _known_base(tag: int, base: bytes) -> bool:
    """Tell whether a subtree is a host name, or an address with a mask of ones and then zeros."""
    if tag == _DNS:
        return not base or HOST.fullmatch(base) is not None
    half = len(base) // 2
    mask = "".join(f"{byte:08b}" for byte in base[half:])
    return tag == _IP and len(base) in {8, 32} and "01" not in mask


def read_anchor(encoded: bytes) -> Anchor:
    """Return the anchor of a certificate.

    Raises:
        TrustError: It cannot be one.
    """
    label, organization = "a certificate", ""
    try:
        (_, tbs, _), *_ = _list(encoded, _SEQUENCE)
        version, _, _, _, validity, subject, spki, *rest = _elements(tbs)
        texts = _texts(subject[2])
        organization = texts.get(_ORGANIZATION, "")
        label = texts.get(_COMMON_NAME, organization) or label
        if version[0] != 0xA0:
            raise TrustError("it is of version 1")
        _, (tag, end, _) = _elements(validity[1])
        extensions = [inside for tag, inside, _ in rest if tag == _EXTENSIONS]
        if not extensions:
            raise TrustError("it is not the certificate of a CA (basicConstraints)")
        _judge_key(spki[2])
        length, constraints = _limits(extensions[0])
        until = _time(tag, end)
    except TrustError as problem:
        refused = TrustError(f"{label}: {problem}")
        refused.organization = organization
        raise refused from None
    except (ValueError, IndexError) as problem:
        raise TrustError(f"{label}: it is no certificate in DER: {problem}") from problem
    return Anchor(subject[2], spki[2], until, constraints, length, label, organization)


def read_pem(contents: bytes, source: str) -> list[bytes]:
    """Return the certificates of a PEM file, as DER.

    Raises:
        TrustError: It holds none, or one that is not base64.
    """
    try:
        found = [
            base64.b64decode(b"".join(m[1].split()), validate=True) for m in PEM.finditer(contents)
        ]
    except binascii.Error as problem:
        raise TrustError(f"{source}: a certificate is not in base64: {problem}") from problem
    if not found:
        raise TrustError(
            f"{source} holds no certificate. It must be PEM, with -----BEGIN CERTIFICATE-----"
        )
    return found


@dataclass(frozen=True)
class Trust:
    """The anchors of a build.

    Attributes:
        anchors: Each name and key once.
        version: Where they are from, for the image.
        digest: SHA-256 of the files that they were read from.
        notes: What a person should know: anchors that end soon, certificates left out.
        pins: SHA-256 of keys of which one must be on every path; empty when any will do.
    """

    anchors: tuple[Anchor, ...]
    version: str
    digest: bytes
    notes: tuple[str, ...]
    pins: tuple[bytes, ...] = ()


def gather(
    bundle: bytes,
    bundle_name: str,
    extra: Iterable[tuple[str, bytes]] = (),
    *,
    core: bool,
    today: datetime,
) -> Trust:
    """Choose the anchors of a build.

    A certificate of the bundle that cannot be an anchor is left out with a note; one that an
    operator gives is an error.

    Args:
        bundle: The roots of the web, PEM; may be empty.
        bundle_name: Name and version of the bundle.
        extra: Name and contents of further PEM files.
        core: Take only the organizations of WEB_CORE out of the bundle.
        today: When it is, for anchors that end. One of the bundle that has ended stays in, of no
            use: the bytes of a build must not depend on the day.

    Raises:
        TrustError: A file holds no anchor, or one that does not count any more.
    """
    extra = list(extra)
    anchors: dict[tuple[bytes, bytes], Anchor] = {}
    notes: list[str] = []
    for encoded in read_pem(bundle, bundle_name) if bundle else ():
        try:
            anchor = read_anchor(encoded)
        except TrustError as problem:
            if not core or problem.organization in WEB_CORE:
                notes.append(f"{bundle_name}: left out: {problem}")
            continue
        if core and anchor.organization not in WEB_CORE:
            continue
        anchors[anchor.subject, anchor.spki] = anchor
    for name, contents in extra:
        for encoded in read_pem(contents, name):
            try:
                anchor = read_anchor(encoded)
            except TrustError as problem:
                raise TrustError(f"{name}: {problem}") from problem
            if anchor.not_after < today:
                raise TrustError(
                    f"{name}: {anchor.label} ended on {_day(anchor)}. Give the CA's present one"
                )
            anchors[anchor.subject, anchor.spki] = anchor
    if not anchors:
        raise TrustError("there is no anchor: no server could be trusted. Give a CA's certificate")
    for anchor in anchors.values():
        left = anchor.not_after - today
        if left < timedelta():
            notes.append(f"{anchor.label} ended on {_day(anchor)}: nobody is trusted by it")
        elif left < EXPIRES_SOON:
            notes.append(f"{anchor.label} ends on {_day(anchor)}, in {left.days} days")
    digest = hashlib.sha256(bundle)
    for _, contents in extra:
        digest.update(contents)
    version = " + ".join([bundle_name] * bool(bundle) + [name for name, _ in extra])
    return Trust(tuple(anchors.values()), version, digest.digest(), tuple(notes))


def choose(
    of_certifi: Literal["web", "all", "none"], extra: Iterable[tuple[str, bytes]], today: datetime
) -> Trust:
    """Choose the anchors of a build: as much of certifi as is wanted, and further files.

    Args:
        of_certifi: The core of the web, all of it, or nothing.
        extra: Name and contents of PEM files.
        today: When it is, for anchors that end.

    Raises:
        TrustError: A file holds no anchor, or one that does not count any more.
    """
    name, bundle = "", b""
    if of_certifi != "none":
        name = f"certifi {metadata.version('certifi')}"
        bundle = Path(certifi.where()).read_bytes()
    return gather(bundle, name, extra, core=of_certifi == "web", today=today)


def _day(anchor: Anchor) -> str:
    return anchor.not_after.date().isoformat()
