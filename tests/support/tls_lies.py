"""Every lie that a server tells a node: what it does, what the node finds, what it is told.

The rules are those of RFC 8446 with the client's rules of RFC 9846; each row names the site of
`firmware/layouts/tls_sites.py` and the alert that the server has to read.
"""

from __future__ import annotations

import functools
import ssl
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from firmware.layouts import tls_sites as s
from firmware.layouts.tls import (
    CIPHERTEXT_MAX,
    CONTENT_MAX,
    MEANINGLESS_MAX,
    MESSAGE_MAX,
    Extension,
    HandshakeType,
    Scheme,
)
from firmware.layouts.tls_sites import Alert
from pxe.gateway.certificates import KEY_FILE, LEAF_FILE, Span, make_chain
from tests.support import tls_tricks as t
from tests.support.tls_liar import (
    ALERT,
    CCS,
    DATA,
    HANDSHAKE,
    Acts,
    header,
    message,
    vector,
    write_extensions,
)
from tests.support.tls_lies_hello import HELLOS, RETRIES
from tests.support.tls_peer import Identity, identity, new_folder
from tests.support.tls_tricks import DECODE, ILLEGAL, UNEXPECTED, UNKNOWN, UNSUPPORTED, Lie

T, E = HandshakeType, Extension
HOST = "gateway.test"
ECDSA_OID = bytes.fromhex("2a8648ce3d040302")
"""With SHA-256; its last byte is the hash."""
ED25519, ECDSA_SHA1 = 0x0807, 0x0203
STATUS, CERTIFICATE_STATUS, HELLO_REQUEST, HEARTBEAT = 5, 22, 0, 24
CCS_RECORD = header(CCS, 1) + b"\x01"


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


FLIGHTS = {
    "another protocol": Lie(
        t.extensions(lambda _: [(E.ALPN, vector(vector(b"h2", 1), 2))]), s.ALPN, ILLEGAL
    ),
    "two protocols": Lie(
        t.extensions(lambda _: [(E.ALPN, vector(vector(b"http/1.1", 1) * 2, 2))]),
        s.MESSAGE_FORM, DECODE,
    ),
    "an unknown extension in the flight": Lie(
        t.extensions(lambda e: [*e, (UNKNOWN, b"")]), s.EXTENSION_UNSOLICITED, UNSUPPORTED
    ),
    "early data": Lie(
        t.extensions(lambda e: [*e, (E.EARLY_DATA, b"")]), s.EXTENSION_UNSOLICITED, UNSUPPORTED
    ),
    "a key share in EncryptedExtensions": Lie(
        t.extensions(lambda e: [*e, (E.KEY_SHARE, b"")]), s.EXTENSION_MISPLACED, ILLEGAL
    ),
    "supported_versions in EncryptedExtensions": Lie(
        t.extensions(lambda e: [*e, (E.SUPPORTED_VERSIONS, b"\3\4")]), s.EXTENSION_MISPLACED, ILLEGAL
    ),
    "an extension twice": Lie(t.extensions(lambda e: e + e), s.EXTENSION_TWICE, ILLEGAL),
    "a name in server_name": Lie(
        t.extensions(lambda e: [*e, (E.SERVER_NAME, b"\0\0")]), s.MESSAGE_FORM, DECODE
    ),
    "no EncryptedExtensions": Lie(t.without(T.ENCRYPTED_EXTENSIONS), s.MESSAGE, UNEXPECTED),
    "EncryptedExtensions twice": Lie(t.twice(T.ENCRYPTED_EXTENSIONS), s.MESSAGE, UNEXPECTED),
    "ServerHello once more": Lie(
        t.before(T.ENCRYPTED_EXTENSIONS, message(T.SERVER_HELLO, bytes(38))), s.MESSAGE, UNEXPECTED
    ),
    "a request without schemes": Lie(
        t.before(T.CERTIFICATE, EMPTY_REQUEST), s.SCHEMES_MISSING, Alert.MISSING_EXTENSION
    ),
    "a request with a context": Lie(
        t.before(T.CERTIFICATE, message(T.CERTIFICATE_REQUEST, b"\1x" + REQUEST[5:])),
        s.CERTIFICATE_CONTEXT, ILLEGAL,
    ),
    "two requests": Lie(t.before(T.CERTIFICATE, REQUEST * 2), s.MESSAGE, UNEXPECTED),
    "a request behind Certificate": Lie(
        t.before(T.CERTIFICATE_VERIFY, REQUEST), s.MESSAGE, UNEXPECTED
    ),
    "no Certificate": Lie(t.without(T.CERTIFICATE), s.MESSAGE, UNEXPECTED),
    "no CertificateVerify": Lie(t.without(T.CERTIFICATE_VERIFY), s.MESSAGE, UNEXPECTED),
    "Finished before CertificateVerify": Lie(t.flight(t.swap), s.MESSAGE, UNEXPECTED),
    "OCSP in a message of its own": Lie(
        t.before(T.CERTIFICATE_VERIFY, message(CERTIFICATE_STATUS, b"\1\0\0\0")),
        s.MESSAGE, UNEXPECTED,
    ),
    "KeyUpdate before Finished": Lie(t.before(T.FINISHED, KEY_UPDATE), s.MESSAGE, UNEXPECTED),
    "a ticket before Finished": Lie(t.before(T.FINISHED, TICKET), s.MESSAGE, UNEXPECTED),
    "the end of early data": Lie(
        t.before(T.FINISHED, message(T.END_OF_EARLY_DATA, b"")), s.MESSAGE, UNEXPECTED
    ),
    "Certificate with a context": Lie(
        t.certificate(lambda _, chain: b"\1x" + chain), s.CERTIFICATE_CONTEXT, ILLEGAL
    ),
    "no certificates": Lie(
        t.certificate(lambda context, _: context + vector(b"", 3)), s.CERTIFICATE_MISSING, DECODE
    ),
    "bytes behind the certificates": Lie(
        t.certificate(lambda context, chain: context + chain + b"\0"), s.MESSAGE_FORM, DECODE
    ),
    "OCSP beside a certificate": Lie(
        t.certificate(
            lambda context, chain: context + vector(chain[3:-2] + write_extensions([(STATUS, b"")]), 3)
        ),
        s.EXTENSION_UNSOLICITED, UNSUPPORTED,
    ),
    "a leaf with one bit wrong": Lie(
        t.certificate(lambda context, chain: context + t.flip(500)(chain)),
        s.CERTIFICATE_BAD, Alert.BAD_CERTIFICATE,
    ),
    "a longer Certificate than we take": Lie(
        t.certificate(lambda context, chain: context + chain + bytes(MESSAGE_MAX)),
        s.MESSAGE_TOO_LONG, DECODE,
    ),
    "a leaf alone": Lie(Acts(), s.CERTIFICATE_UNKNOWN, Alert.UNKNOWN_CA, "alone"),
    "no key that is pinned": Lie(
        Acts(), s.CERTIFICATE_PIN, Alert.BAD_CERTIFICATE, pins=(bytes(32),)
    ),
    "another host": Lie(Acts(), s.CERTIFICATE_NAME, Alert.CERTIFICATE_UNKNOWN, "other host"),
    "a leaf that is not valid yet": Lie(
        Acts(), s.CERTIFICATE_EARLY, Alert.CERTIFICATE_EXPIRED, "early"
    ),
    "certificates signed with a hash that we do not know": Lie(
        t.certificate(lambda context, chain: context + chain.replace(ECDSA_OID, ECDSA_OID[:-1] + b"\4")),
        s.CERTIFICATE_UNSUPPORTED, Alert.UNSUPPORTED_CERTIFICATE,
    ),
    "a leaf that was valid": Lie(
        Acts(), s.CERTIFICATE_EXPIRED, Alert.CERTIFICATE_EXPIRED, "expired"
    ),
    "a signature with one bit wrong": Lie(
        Acts(t.on(T.CERTIFICATE_VERIFY, t.flip(-1))), s.SIGNATURE, Alert.DECRYPT_ERROR
    ),
    "an RSA signature with one bit wrong": Lie(
        Acts(t.on(T.CERTIFICATE_VERIFY, t.flip(-1))), s.SIGNATURE, Alert.DECRYPT_ERROR, "rsa2048"
    ),
    "a client's signature": Lie(
        t.signed(Scheme.ECDSA_SECP256R1_SHA256, label="client"), s.SIGNATURE, Alert.DECRYPT_ERROR
    ),
    "a scheme of Ed25519": Lie(
        t.signed(ED25519, Scheme.ECDSA_SECP256R1_SHA256), s.SCHEME, ILLEGAL
    ),
    "SHA-1": Lie(t.signed(ECDSA_SHA1), s.SCHEME, ILLEGAL),
    "a scheme for another curve": Lie(
        t.signed(Scheme.ECDSA_SECP384R1_SHA384), s.SCHEME, ILLEGAL
    ),
    "a scheme for another kind of key": Lie(
        t.signed(Scheme.RSA_PSS_RSAE_SHA256, Scheme.ECDSA_SECP256R1_SHA256), s.SCHEME, ILLEGAL
    ),
    "PKCS 1 in CertificateVerify": Lie(
        t.signed(Scheme.RSA_PKCS1_SHA256), s.SCHEME, ILLEGAL, "rsa2048"
    ),
    "PKCS 1 under the name of PSS": Lie(
        t.signed(Scheme.RSA_PSS_RSAE_SHA256, Scheme.RSA_PKCS1_SHA256),
        s.SIGNATURE, Alert.DECRYPT_ERROR, "rsa2048",
    ),
    "Finished with one bit wrong": Lie(
        Acts(t.on(T.FINISHED, t.flip(-1))), s.FINISHED, Alert.DECRYPT_ERROR
    ),
    "a short Finished": Lie(
        Acts(t.on(T.FINISHED, lambda d: message(T.FINISHED, d[4:-1]))), s.MESSAGE_FORM, DECODE
    ),
    "a ticket in Finished's record": Lie(t.behind(TICKET), s.KEY_CHANGE, UNEXPECTED),
}  # fmt: skip

RECORDS = {
    "a record between the parts of a message": Lie(
        t.between(t.wires(CCS_RECORD)), s.INTERLEAVED, UNEXPECTED
    ),
    "an alert between the parts of a message": Lie(
        t.between(t.says((ALERT, b"\1\x5a"))), s.INTERLEAVED, UNEXPECTED
    ),
    "data before Finished": Lie(t.first(t.says((DATA, b"early"))), s.RECORD_TYPE, UNEXPECTED),
    "a heartbeat": Lie(t.first(t.says((HEARTBEAT, b"\1\0\0"))), s.RECORD_TYPE, UNEXPECTED),
    "an empty record of the handshake": Lie(
        t.first(t.says((HANDSHAKE, b""))), s.RECORD_EMPTY, UNEXPECTED
    ),
    "an empty alert": Lie(t.first(t.says((ALERT, b""))), s.RECORD_EMPTY, UNEXPECTED),
    "a record of padding": Lie(t.first(t.seals(bytes(40))), s.RECORD_EMPTY, UNEXPECTED),
    "too much text": Lie(
        t.first(t.seals(bytes(CONTENT_MAX) + b"x\x16")), s.RECORD_OVERFLOW, Alert.RECORD_OVERFLOW
    ),
    "too much text, padding included": Lie(
        t.first(t.seals(b"x\x16" + bytes(CONTENT_MAX))), s.RECORD_OVERFLOW, Alert.RECORD_OVERFLOW
    ),
    "a record too long": Lie(
        t.first(t.wires(header(DATA, CIPHERTEXT_MAX + 1))), s.RECORD_OVERFLOW, Alert.RECORD_OVERFLOW
    ),
    "a record too short for a tag": Lie(
        t.first(t.wires(header(DATA, 16) + bytes(16))), s.BAD_RECORD_MAC, Alert.BAD_RECORD_MAC
    ),
    "a wrong tag": Lie(t.first(t.broken), s.BAD_RECORD_MAC, Alert.BAD_RECORD_MAC),
    "a record without keys": Lie(
        t.flight(lambda liar, data: liar.plain(HANDSHAKE, data)), s.RECORD_TYPE, UNEXPECTED
    ),
    "a record of no type": Lie(t.first(t.wires(header(99, 1) + b"x")), s.RECORD_TYPE, UNEXPECTED),
    "change_cipher_spec with another byte": Lie(
        t.first(t.wires(header(CCS, 1) + b"\2")), s.CHANGE_CIPHER_SPEC, UNEXPECTED
    ),
    "a long change_cipher_spec": Lie(
        t.first(t.wires(header(CCS, 2) + b"\1\1")), s.CHANGE_CIPHER_SPEC, UNEXPECTED
    ),
    "change_cipher_spec with keys": Lie(
        t.first(t.seals(b"\1\x14")), s.RECORD_TYPE, UNEXPECTED
    ),
    "change_cipher_spec without end": Lie(
        t.first(t.wires(CCS_RECORD, MEANINGLESS_MAX)), s.RECORD_FLOOD, UNEXPECTED
    ),
    "an alert of one byte": Lie(t.first(t.says((ALERT, b"\2"))), s.ALERT_FORM, DECODE),
    "two alerts in a record": Lie(t.first(t.says((ALERT, b"\1\x5a" * 2))), s.ALERT_FORM, DECODE),
    "a handshake that the server gives up": Lie(
        t.first(t.says((ALERT, b"\2\x28"))), s.ALERT_RECEIVED, None
    ),
    "close_notify in the handshake": Lie(
        t.first(t.says((ALERT, b"\1\0"))), s.ALERT_RECEIVED, None
    ),
    "a server that says nothing more": Lie(
        t.flight(lambda _liar, _data: None), s.HANDSHAKE_TIMEOUT, Alert.HANDSHAKE_FAILURE
    ),
    "the end of TCP in the handshake": Lie(
        t.flight(lambda liar, _: liar.end_tcp()), s.TRUNCATED, None
    ),
}  # fmt: skip

AFTERWARDS = {
    "KeyUpdate that asks for what does not exist": Lie(
        t.after(t.says((HANDSHAKE, message(T.KEY_UPDATE, b"\2")))), s.KEY_UPDATE, ILLEGAL
    ),
    "a long KeyUpdate": Lie(
        t.after(t.says((HANDSHAKE, message(T.KEY_UPDATE, b"\0\0")))), s.MESSAGE_FORM, DECODE
    ),
    "a message behind KeyUpdate in its record": Lie(
        t.after(t.says((HANDSHAKE, KEY_UPDATE + TICKET))), s.KEY_CHANGE, UNEXPECTED
    ),
    "KeyUpdate without end": Lie(
        t.after(t.updates(MEANINGLESS_MAX + 1)), s.RECORD_FLOOD, UNEXPECTED
    ),
    "the old key behind KeyUpdate": Lie(
        t.after(t.says((HANDSHAKE, KEY_UPDATE), (DATA, b"text"))),
        s.BAD_RECORD_MAC, Alert.BAD_RECORD_MAC,
    ),
    "a request behind the handshake": Lie(
        t.after(t.says((HANDSHAKE, REQUEST))), s.MESSAGE, UNEXPECTED
    ),
    "a renegotiation": Lie(
        t.after(t.says((HANDSHAKE, message(HELLO_REQUEST, b"")))), s.MESSAGE, UNEXPECTED
    ),
    "Finished once more": Lie(
        t.after(t.says((HANDSHAKE, message(T.FINISHED, bytes(32))))), s.MESSAGE, UNEXPECTED
    ),
    "a ticket with bytes behind it": Lie(
        t.after(t.says((HANDSHAKE, message(T.NEW_SESSION_TICKET, TICKET[4:] + b"\0")))),
        s.MESSAGE_FORM, DECODE,
    ),
    "a ticket that is empty": Lie(
        t.after(t.says((HANDSHAKE, message(T.NEW_SESSION_TICKET, bytes(8) + b"\0" * 5)))),
        s.MESSAGE_FORM, DECODE,
    ),
    "data between the parts of a ticket": Lie(
        t.after(t.says((HANDSHAKE, TICKET[:30]), (DATA, b"text"), (HANDSHAKE, TICKET[30:]))),
        s.INTERLEAVED, UNEXPECTED,
    ),
    "empty data without end": Lie(
        t.after(t.says((DATA, b""), times=MEANINGLESS_MAX + 1)), s.RECORD_FLOOD, UNEXPECTED
    ),
    "user_canceled without end": Lie(
        t.after(t.says((ALERT, b"\1\x5a"), times=MEANINGLESS_MAX + 1)), s.RECORD_FLOOD, UNEXPECTED
    ),
    "change_cipher_spec behind the handshake": Lie(
        t.after(t.wires(CCS_RECORD)), s.RECORD_TYPE, UNEXPECTED
    ),
    "an alert without keys": Lie(
        t.after(t.wires(header(ALERT, 2) + b"\1\0")), s.RECORD_TYPE, UNEXPECTED
    ),
    "an unknown warning": Lie(t.after(t.says((ALERT, b"\1\xee"))), s.ALERT_RECEIVED, None),
    "a wrong tag behind the handshake": Lie(
        t.after(t.broken), s.BAD_RECORD_MAC, Alert.BAD_RECORD_MAC
    ),
    "a record twice": Lie(t.after(t.repeated), s.BAD_RECORD_MAC, Alert.BAD_RECORD_MAC),
    "records in the wrong order": Lie(t.after(t.swapped), s.BAD_RECORD_MAC, Alert.BAD_RECORD_MAC),
    "the end of TCP without close_notify": Lie(
        t.after(lambda liar: liar.end_tcp()), s.TRUNCATED, None
    ),
}  # fmt: skip

UNUSUAL = {
    "the truth": Acts(),
    "a retry with a cookie": Acts(group="secp256r1"),
    "a request for a certificate": Acts(request=True),
    "the flight in records of nine bytes": t.in_pieces(9),
    "the flight in padded records": t.in_pieces(100, padding=200),
    "much change_cipher_spec": t.first(t.wires(CCS_RECORD, MEANINGLESS_MAX - 1)),
    "a hundred tickets": t.after(t.says((HANDSHAKE, TICKET), times=100)),
    "tickets in one record": t.after(t.says((HANDSHAKE, TICKET * 50))),
    "a ticket in parts": t.after(
        t.says((HANDSHAKE, TICKET[:3]), (HANDSHAKE, TICKET[3:9]), (HANDSHAKE, TICKET[9:]))
    ),
    "much empty data": t.after(t.says((DATA, b""), times=MEANINGLESS_MAX)),
    "many KeyUpdates": t.after(t.updates(MEANINGLESS_MAX)),
}
"""What a server may do."""

OWN = {
    s.NO_ENTROPY: "the node's own",
    s.CLOCK_IMPOSSIBLE: "the node's own",
    s.NO_ARENA: "the node's own",
    s.NO_ROOM: "no handshake fills the transmit buffer",
    s.RECORD_NO_ROOM: "no reader of the release image leaves so much unread",
    s.CRYPTO_BROKEN: "the node's own",
}
"""Failures that no server causes, and why."""
LIES = HELLOS | RETRIES | FLIGHTS | RECORDS | AFTERWARDS


@functools.cache
def shown(name: str) -> Identity:
    """Return a server's certificates: a kind of key, or how they are wrong."""
    if name == "other host":
        return identity(host="other.test")
    if name == "expired":
        return identity(host=HOST, days=30)
    if name == "early":
        folder = new_folder()
        year = [datetime(2027 + n, 6, 1, tzinfo=UTC) for n in (0, 1)]
        made = make_chain((HOST,), spans={"leaf": Span(*year)})
        made.write(folder)
        root = ssl.PEM_cert_to_DER_cert(made.root.decode())
        return Identity(str(folder / LEAF_FILE), str(folder / KEY_FILE), root)
    if name == "alone":
        whole = identity(host=HOST)
        leaf, mark, _ = Path(whole.chain).read_text().partition("-----END CERTIFICATE-----\n")
        file = new_folder() / "leaf.pem"
        file.write_text(leaf + mark)
        return replace(whole, chain=str(file))
    return identity(name, host=HOST)
