"""The lies in ServerHello and HelloRetryRequest; `tests/support/tls_lies.py` has all others."""

from __future__ import annotations

from firmware.layouts import tls_sites as s
from firmware.layouts.tls import COOKIE_MAX, Extension, Group, HandshakeType, Suite
from firmware.layouts.tls_sites import Alert
from tests.support import tls_tricks as t
from tests.support.tls_liar import RETRY_RANDOM, Acts, message, vector
from tests.support.tls_tricks import (
    DECODE,
    ILLEGAL,
    TLS12_SUITE,
    UNEXPECTED,
    UNKNOWN,
    UNSUPPORTED,
    Lie,
)

T, E = HandshakeType, Extension
ORDER_8 = bytes.fromhex("e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800")
P384, CCM = 0x0018, 0x1304

HELLOS = {
    "the version field says 1.3": Lie(t.hello(t.put(version=b"\3\4")), s.VERSION, Alert.PROTOCOL_VERSION),
    "TLS 1.2": Lie(t.hello(t.old(b"")), s.VERSION, Alert.PROTOCOL_VERSION),
    "TLS 1.2 with the mark of a downgrade": Lie(t.hello(t.old(b"DOWNGRD\1")), s.DOWNGRADE, ILLEGAL),
    "TLS 1.1 with the mark of a downgrade": Lie(t.hello(t.old(b"DOWNGRD\0")), s.DOWNGRADE, ILLEGAL),
    "1.2 in supported_versions": Lie(
        t.hello(lambda h: h.set(E.SUPPORTED_VERSIONS, b"\3\3")), s.VERSION_SELECTED, ILLEGAL
    ),
    "a draft in supported_versions": Lie(
        t.hello(lambda h: h.set(E.SUPPORTED_VERSIONS, b"\x7f\x1c")), s.VERSION_SELECTED, ILLEGAL
    ),
    "another session id": Lie(t.hello(t.put(session_id=bytes(32))), s.SESSION_ID, ILLEGAL),
    "no session id": Lie(t.hello(t.put(session_id=b"")), s.SESSION_ID, ILLEGAL),
    "a suite that was not offered": Lie(t.hello(t.put(suite=CCM)), s.SUITE, ILLEGAL),
    "a suite of TLS 1.2": Lie(t.hello(t.put(suite=TLS12_SUITE)), s.SUITE, ILLEGAL),
    "compression": Lie(t.hello(t.put(compression=1)), s.COMPRESSION, ILLEGAL),
    "an unknown extension": Lie(t.hello(t.added(UNKNOWN)), s.EXTENSION_UNSOLICITED, UNSUPPORTED),
    "a key from before": Lie(
        t.hello(t.added(E.PRE_SHARED_KEY, b"\0\0")), s.EXTENSION_UNSOLICITED, UNSUPPORTED
    ),
    "ALPN in ServerHello": Lie(
        t.hello(t.added(E.ALPN, vector(vector(b"http/1.1", 1), 2))), s.EXTENSION_MISPLACED, ILLEGAL
    ),
    "two key shares": Lie(
        t.hello(lambda h: h.extensions.append(h.extensions[0])), s.EXTENSION_TWICE, ILLEGAL
    ),
    "no key share": Lie(
        t.hello(lambda h: h.set(E.KEY_SHARE, None)), s.KEY_SHARE_MISSING, Alert.MISSING_EXTENSION
    ),
    "a share of P-384": Lie(t.hello(t.share(P384, bytes(97))), s.GROUP, ILLEGAL),
    "a share of P-256 that nobody asked for": Lie(
        t.hello(t.share(Group.SECP256R1, b"\4" + bytes(64))), s.GROUP, ILLEGAL
    ),
    "a short share": Lie(t.hello(t.point(lambda p: p[:31])), s.KEY_SHARE, ILLEGAL),
    "a long share": Lie(t.hello(t.point(lambda p: p + b"\0")), s.KEY_SHARE, ILLEGAL),
    "the share zero": Lie(t.hello(t.point(lambda _: bytes(32))), s.KEY_SHARE, ILLEGAL),
    "the share one": Lie(t.hello(t.point(lambda _: b"\1" + bytes(31))), s.KEY_SHARE, ILLEGAL),
    "a share of order eight": Lie(t.hello(t.point(lambda _: ORDER_8)), s.KEY_SHARE, ILLEGAL),
    "bytes behind the extensions": Lie(t.hello(t.put(rest=b"\0")), s.MESSAGE_FORM, DECODE),
    "a ServerHello that is cut": Lie(
        Acts(t.on(T.SERVER_HELLO, lambda d: message(T.SERVER_HELLO, d[4:30]))), s.MESSAGE_FORM, DECODE
    ),
    "a message behind ServerHello in its record": Lie(
        Acts(t.on(T.SERVER_HELLO, lambda d: d + message(T.ENCRYPTED_EXTENSIONS, b"\0\0"))),
        s.KEY_CHANGE, UNEXPECTED,
    ),
    "ClientHello": Lie(
        Acts(t.on(T.SERVER_HELLO, lambda d: message(T.CLIENT_HELLO, d[4:]))), s.MESSAGE, UNEXPECTED
    ),
    "a retry by its old number": Lie(
        Acts(t.on(T.SERVER_HELLO, lambda d: message(T.HELLO_RETRY_REQUEST, d[4:]))),
        s.MESSAGE, UNEXPECTED,
    ),
}  # fmt: skip

RETRIES = {
    "a retry for nothing new": Lie(
        t.retry(t.put(extensions=[(E.SUPPORTED_VERSIONS, b"\3\4")])),
        s.RETRY_UNCHANGED, ILLEGAL,
    ),
    "a retry for the share that there is": Lie(
        t.retry(lambda h: h.set(E.KEY_SHARE, b"\0\x1d")), s.GROUP, ILLEGAL
    ),
    "a retry for P-384": Lie(t.retry(lambda h: h.set(E.KEY_SHARE, b"\0\x18")), s.GROUP, ILLEGAL),
    "a retry with a whole share": Lie(
        t.retry(t.share(Group.SECP256R1, b"\4" + bytes(64))), s.MESSAGE_FORM, DECODE
    ),
    "a cookie too long": Lie(
        t.retry(lambda h: h.set(E.COOKIE, vector(bytes(COOKIE_MAX + 1), 2))),
        s.COOKIE_TOO_LONG, Alert.HANDSHAKE_FAILURE,
    ),
    "an empty cookie": Lie(t.retry(lambda h: h.set(E.COOKIE, b"\0\0")), s.MESSAGE_FORM, DECODE),
    "an unknown extension in a retry": Lie(
        t.retry(t.added(UNKNOWN)), s.EXTENSION_UNSOLICITED, UNSUPPORTED
    ),
    "a retry with another session id": Lie(t.retry(t.put(session_id=bytes(32))), s.SESSION_ID, ILLEGAL),
    "a retry with an unknown suite": Lie(t.retry(t.put(suite=CCM)), s.SUITE, ILLEGAL),
    "a retry of TLS 1.2": Lie(
        t.retry(lambda h: h.set(E.SUPPORTED_VERSIONS, None)), s.VERSION, Alert.PROTOCOL_VERSION
    ),
    "a second retry": Lie(t.second(t.put(random=RETRY_RANDOM)), s.MESSAGE, UNEXPECTED),
    "another suite behind a retry": Lie(
        t.second(t.put(suite=Suite.CHACHA20_POLY1305_SHA256)), s.RETRY_SUITE, ILLEGAL
    ),
    "another group behind a retry": Lie(
        t.second(t.share(Group.X25519, b"\x09" + bytes(31))), s.GROUP, ILLEGAL
    ),
    "a point off P-256": Lie(t.second(t.point(t.flip(-1))), s.KEY_SHARE, ILLEGAL),
    "a compressed point": Lie(
        t.second(t.point(lambda p: bytes([2 | p[-1] & 1]) + p[1:33])), s.KEY_SHARE, ILLEGAL
    ),
    "a point without its form": Lie(t.second(t.point(lambda p: b"\5" + p[1:])), s.KEY_SHARE, ILLEGAL),
    "a coordinate beyond the prime": Lie(
        t.second(t.point(lambda p: p[:1] + b"\xff" * 32 + p[33:])), s.KEY_SHARE, ILLEGAL
    ),
    "the point of zeros": Lie(t.second(t.point(lambda _: b"\4" + bytes(64))), s.KEY_SHARE, ILLEGAL),
}  # fmt: skip
