"""What a lying server may do: change a message, send records otherwise, go on behind the handshake."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from firmware.layouts.tls import Extension, HandshakeType
from firmware.layouts.tls_sites import Alert
from tests.support.tls_liar import (
    HANDSHAKE,
    Acts,
    Hello,
    Liar,
    message,
    read_extensions,
    split,
    vector,
    write_extensions,
)
from tests.support.tls_signing import sign

if TYPE_CHECKING:
    from collections.abc import Callable

    from firmware.errors import Site
    from tests.support.tls_liar import Extensions

    Change = Callable[[Liar, int, bytes], bytes]

T, E = HandshakeType, Extension
TLS12_SUITE = 0xC02B
UNKNOWN = 0xABCD
"""An extension that nobody knows."""
UNEXPECTED, ILLEGAL = Alert.UNEXPECTED_MESSAGE, Alert.ILLEGAL_PARAMETER
DECODE, UNSUPPORTED = Alert.DECODE_ERROR, Alert.UNSUPPORTED_EXTENSION


@dataclass(frozen=True)
class Lie:
    """One lie.

    Attributes:
        acts: how it is told.
        site: what the node finds.
        alert: what the server reads; None for nothing.
        shown: what the server shows, see `tests.support.tls_lies.shown`.
        pins: keys of which the node wants one in the chain.
    """

    acts: Acts
    site: Site
    alert: Alert | None
    shown: str = "p256"
    pins: tuple[bytes, ...] = ()


# -- how a message is changed -----------------------------------------------------------------------
def on(kind: int, change: Callable[[bytes], bytes]) -> Change:
    """Change messages of one kind."""
    return lambda _liar, found, data: change(data) if found == kind else data


def hello(edit: Callable[[Hello], None], kind: int = T.SERVER_HELLO) -> Acts:
    """Change parts of ServerHello."""

    def change(data: bytes) -> bytes:
        parts = Hello.read(data)
        edit(parts)
        return parts.write()

    retried = kind == T.HELLO_RETRY_REQUEST
    return Acts(on(kind, change), group="secp256r1" if retried else "x25519")


def retry(edit: Callable[[Hello], None]) -> Acts:
    """Change parts of HelloRetryRequest."""
    return hello(edit, T.HELLO_RETRY_REQUEST)


def second(edit: Callable[[Hello], None]) -> Acts:
    """Change parts of the ServerHello behind a retry."""
    return Acts(hello(edit).change, group="secp256r1")


def share(group: int, data: bytes) -> Callable[[Hello], None]:
    """Give ServerHello a key share."""
    body = group.to_bytes(2, "big") + vector(data, 2)
    return lambda parts: parts.set(E.KEY_SHARE, body)


def added(kind: int, data: bytes = b"") -> Callable[[Hello], None]:
    """Give ServerHello one extension more."""
    return lambda parts: parts.extensions.append((kind, data))


def point(change: Callable[[bytes], bytes]) -> Callable[[Hello], None]:
    """Change the point of the share."""

    def edit(parts: Hello) -> None:
        body = dict(parts.extensions)[E.KEY_SHARE]
        share(int.from_bytes(body[:2], "big"), change(body[4:]))(parts)

    return edit


def old(mark: bytes, suite: int = TLS12_SUITE) -> Callable[[Hello], None]:
    """Make ServerHello one of TLS 1.2."""

    def edit(parts: Hello) -> None:
        parts.random = parts.random[: -len(mark) or None] + mark
        parts.suite, parts.extensions = suite, []

    return edit


def put(**values: object) -> Callable[[Hello], None]:
    """Give parts of ServerHello other values."""

    def edit(parts: Hello) -> None:
        for name, value in values.items():
            setattr(parts, name, value)

    return edit


def extensions(edit: Callable[[Extensions], Extensions]) -> Acts:
    """Change EncryptedExtensions."""

    def change(data: bytes) -> bytes:
        return message(T.ENCRYPTED_EXTENSIONS, write_extensions(edit(read_extensions(data[4:]))))

    return Acts(on(T.ENCRYPTED_EXTENSIONS, change))


def certificate(change: Callable[[bytes, bytes], bytes]) -> Acts:
    """Change Certificate: context and list, each behind its length."""

    def edit(data: bytes) -> bytes:
        return message(T.CERTIFICATE, change(data[4:5], data[5:]))

    return Acts(on(T.CERTIFICATE, edit))


def without(kind: int) -> Acts:
    """Leave out a message."""
    return Acts(on(kind, lambda _data: b""))


def before(kind: int, another: bytes, **more: bool) -> Acts:
    """Send a message before another one."""
    return Acts(on(kind, lambda data: another + data), **more)  # type: ignore[arg-type] # of Acts


def twice(kind: int, **more: bool) -> Acts:
    """Send a message twice."""
    return Acts(on(kind, lambda data: data + data), **more)  # type: ignore[arg-type] # of Acts


def signed(scheme: int, made_with: int = 0, label: str = "server") -> Acts:
    """Sign with one scheme, and call it another; or for somebody else."""

    def change(liar: Liar, kind: int, data: bytes) -> bytes:
        if kind != T.CERTIFICATE_VERIFY:
            return data
        made = sign(liar.shown, made_with or scheme, label, liar.transcript())
        return message(kind, scheme.to_bytes(2, "big") + vector(made, 2))

    return Acts(change)


def flight(act: Callable[[Liar, bytes], None]) -> Acts:
    """Send the flight otherwise."""
    return Acts(flight=act)


def first(act: Callable[[Liar], None]) -> Acts:
    """Do something between ServerHello and the flight."""

    def both(liar: Liar, data: bytes) -> None:
        act(liar)
        liar.record(HANDSHAKE, data)

    return Acts(flight=both)


def between(act: Callable[[Liar], None]) -> Acts:
    """Do something between the parts of a message."""

    def parts(liar: Liar, data: bytes) -> None:
        liar.record(HANDSHAKE, data[:20])
        act(liar)
        liar.record(HANDSHAKE, data[20:])

    return Acts(flight=parts)


def after(act: Callable[[Liar], None]) -> Acts:
    """Do something behind the handshake."""
    return Acts(after=act)


def flip(at: int) -> Callable[[bytes], bytes]:
    """Turn one bit."""

    def change(data: bytes) -> bytes:
        turned = bytearray(data)
        turned[at] ^= 1
        return bytes(turned)

    return change


def says(*parts: tuple[int, bytes], times: int = 1) -> Callable[[Liar], None]:
    """Send records."""

    def act(liar: Liar) -> None:
        for kind, content in parts * times:
            liar.record(kind, content)

    return act


def wires(data: bytes, times: int = 1) -> Callable[[Liar], None]:
    """Send bytes."""
    return lambda liar: liar.wire(data * times)


def seals(inner: bytes) -> Callable[[Liar], None]:
    """Send a record with any inner text."""
    return lambda liar: liar.wire(liar.sealed(inner))


def broken(liar: Liar) -> None:
    """Send a record whose tag is wrong."""
    liar.wire(flip(-1)(liar.sealed(b"text\x17")))


def repeated(liar: Liar) -> None:
    """Send a record twice."""
    liar.wire(liar.sealed(b"text\x17") * 2)


def swapped(liar: Liar) -> None:
    """Send two records in the wrong order."""
    one, two = liar.sealed(b"one\x17"), liar.sealed(b"two\x17")
    liar.wire(two + one)


def updates(count: int) -> Callable[[Liar], None]:
    """Change keys again and again."""

    def act(liar: Liar) -> None:
        for _ in range(count):
            liar.update_keys()

    return act


def behind(data: bytes) -> Acts:
    """Send something in Finished's record, behind it."""
    return flight(lambda liar, sent: liar.record(HANDSHAKE, sent + data))


def in_pieces(size: int, padding: int = 0) -> Acts:
    """Send the flight in records of a size."""

    def act(liar: Liar, data: bytes) -> None:
        for at in range(0, len(data), size):
            liar.wire(liar.sealed(data[at : at + size] + b"\x16" + bytes(padding)))

    return Acts(flight=act)


def swap(liar: Liar, data: bytes) -> None:
    """Send Finished before CertificateVerify."""
    *others, verify, finished = split(data)
    liar.record(HANDSHAKE, b"".join([*others, finished, verify]))


TICKET = message(
    T.NEW_SESSION_TICKET,
    bytes(8) + vector(b"n", 1) + vector(b"ticket" * 20, 2) + write_extensions([]),
)
EMPTY_REQUEST = message(T.CERTIFICATE_REQUEST, b"\0" + write_extensions([]))
REQUEST = message(
    T.CERTIFICATE_REQUEST,
    b"\0" + write_extensions([(E.SIGNATURE_ALGORITHMS, vector(b"\x04\x03", 2))]),
)
KEY_UPDATE = message(T.KEY_UPDATE, b"\0")
