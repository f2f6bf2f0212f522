"""The arena of a handshake: what a shard needs between its SYN and CONNECTED, and no longer.

A few arenas serve all shards of a node; each is wiped when its handshake ends.
"""

from __future__ import annotations

import enum

from firmware.layouts.config import HOST_MAX
from firmware.layouts.crypto import Hash
from firmware.layouts.mlkem import CIPHERTEXT_BYTES, MlKemKey
from firmware.layouts.tls import (
    COOKIE_MAX,
    HANDSHAKE_HEADER_BYTES,
    HELLO_MAX,
    MESSAGE_MAX,
    SECRET_MAX,
    TLS_1_3,
    Extension,
    Group,
    HandshakeType,
    Scheme,
    Suite,
)
from firmware.layouts.x509 import RSA_BYTES_MAX, Slice
from firmware.layouts.x509_chain import Chain
from toolchain.layout import Struct, array, bytes_, nested, ptr, u16, u32
from toolchain.layout.data import constant

RANDOM_BYTES = 32
SESSION_ID_BYTES = 32
SHARE_MAX = 65
"""A P-256 point, uncompressed (RFC 8446 4.2.8.2); X25519 has 32 bytes."""
SHARE_BYTES = {Group.X25519: 32, Group.SECP256R1: 65}
"""Of our share; in X25519MLKEM768 it stands behind the encapsulation key."""
PEER_SHARE_BYTES = {**SHARE_BYTES, Group.X25519MLKEM768: CIPHERTEXT_BYTES + 32}
"""Of the server's."""
PRIVATE_BYTES = 32
SHARED_BYTES = 32
"""Of the secret that X25519, P-256 or ML-KEM gives."""
FOUND_TYPES = 64
"""Extensions of smaller types are noted by place; all that we know are."""
ALPN_NAME = b"http/1.1"
SUITES = (Suite.AES_128_GCM_SHA256, Suite.AES_256_GCM_SHA384, Suite.CHACHA20_POLY1305_SHA256)
GROUPS = (Group.X25519, Group.SECP256R1)
"""What we offer; of the first one there is a share at once, RFC 8446 9.1 asks for the other."""
HYBRID_GROUPS = (Group.X25519MLKEM768, *GROUPS)
"""What we offer unless it is Hybrid.OFF; with Hybrid.SHARE there is a share of the first two."""
SUITES_FIRST = min(SUITES)
RETRY_RANDOM = bytes.fromhex("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c")
"""RFC 8446 4.1.3: SHA-256 of "HelloRetryRequest"."""
DOWNGRADE_RANDOM = b"DOWNGRD"
"""RFC 8446 4.1.3: the last eight bytes of a random begin so, then 0 or 1, for TLS 1.1 or 1.2."""


class Found(Struct):
    """Where the value of an extension lies in the message in hand."""

    SIZE = 8
    offset = u32(0x00, "offset of its value in the arena; 0 = the extension is not there")
    length = u32(0x04, "bytes of its value")


class TlsArena(Struct):
    """Work space of one handshake."""

    SIZE = 0xB000
    # What we say.
    host_len = u32(0x000, "bytes of the host")
    hello_len = u32(0x004, "bytes of our last ClientHello, with its header")
    cookie_len = u32(0x008, "bytes of the cookie that the server wants back; 0 = none")
    share_group = u16(0x00C, "Group of the share that we sent last, or of the first one of two")
    share_len = u16(0x00E, "bytes of `share`")
    retry_suite = u16(0x010, "Suite that HelloRetryRequest chose; 0 = there was none")
    is_address = u16(0x012, "1 = the host is an address, which SNI may not carry")
    hybrid = u16(0x014, "Hybrid: what our hellos say of X25519MLKEM768")
    second_group = u16(0x016, "Group of a second share beside it; 0 = there is none")
    host = bytes_(0x020, HOST_MAX, "name or dotted quad, without a last dot", align=16)
    random = bytes_(0x0A0, RANDOM_BYTES, "our random; the same in both hellos", align=16)
    session_id = bytes_(0x0C0, SESSION_ID_BYTES, "our session id (RFC 8446 D.4)", align=16)
    share = bytes_(0x0E0, SHARE_MAX, "our public key share, that of ML-KEM aside", align=16)
    private = bytes_(0x130, PRIVATE_BYTES, "its private key", align=16)
    # What the server says.
    message_have = u32(0x194, "bytes in `message`, its header included")
    message_need = u32(0x198, "bytes that the message has, its header included; 0 = not known")
    chain_at = u32(0x19C, "offset in the arena of the certificate list in `message`")
    chain_len = u32(0x1A0, "its bytes")
    scheme = u16(0x1A4, "Scheme of CertificateVerify")
    good = u32(0x1AC, "1 = the signature that the chain asked for last is good")
    paused_at = ptr(0x1B0, "the rest of a record whose chain is judged first")
    paused_len = u32(0x1B8, "its bytes")
    paused_record = u32(0x1BC, "bytes of the whole record; 0 = nothing waits")
    signature = nested(0x1C0, Slice, "of CertificateVerify, in `message`")
    found = array(0x200, Found, FOUND_TYPES, "extensions of the message in hand")
    hello = bytes_(0x400, HELLO_MAX, "our last ClientHello", align=16)
    cookie = bytes_(0xE40, COOKIE_MAX, "what the server wants back", align=16)
    peer_share = bytes_(
        0x1240, PEER_SHARE_BYTES[Group.X25519MLKEM768], "the server's key share", align=16
    )
    transcript = nested(0x16A0, Hash, "every handshake message so far")
    digest = bytes_(0x1770, SECRET_MAX, "of the transcript so far", align=16)
    # Secrets (RFC 8446 7.1).
    shared = bytes_(
        0x17A0,
        2 * SHARED_BYTES,
        "what both key shares give; before that, what our key of ML-KEM is made from",
        align=16,
    )
    secret = bytes_(0x17E0, SECRET_MAX, "the handshake secret, then the master secret", align=16)
    client_secret = bytes_(0x1810, SECRET_MAX, "client handshake traffic secret", align=16)
    server_secret = bytes_(0x1840, SECRET_MAX, "server handshake traffic secret", align=16)
    client_data = bytes_(0x1870, SECRET_MAX, "client application traffic secret", align=16)
    derived = bytes_(0x18A0, SECRET_MAX, "a key on its way to another", align=16)
    verify_data = bytes_(0x18D0, SECRET_MAX, "what a Finished has to say", align=16)
    finished = bytes_(
        0x1900, HANDSHAKE_HEADER_BYTES + SECRET_MAX, "our Finished, with its header", align=16
    )
    signed = bytes_(0x1940, 0xA0, "what CertificateVerify is over", align=16)
    kem = nested(0x19E0, MlKemKey, "our key of ML-KEM-768, once there is a share of it")
    message = bytes_(
        0x36E0, HANDSHAKE_HEADER_BYTES + MESSAGE_MAX, "the message that comes in", align=16
    )
    chain = nested(0x9700, Chain, "the certificates, and how far they are judged")
    leaf_key = bytes_(0xA3C0, RSA_BYTES_MAX, "the leaf's key; its message is overwritten", align=64)


LEAF = TlsArena.chain.offset + Chain.certificates.offset
"""Offset of the server's own certificate in the arena."""


class Place(enum.IntEnum):
    """Where extensions of a server stand (RFC 8446 4.2)."""

    SERVER_HELLO = 0
    RETRY = 1
    ENCRYPTED = 2
    REQUEST = 3
    ENTRY = 4


def _bits(*kinds: Extension) -> int:
    return sum(1 << kind for kind in kinds)


_E = Extension
OFFERED = _bits(
    _E.SERVER_NAME, _E.SUPPORTED_GROUPS, _E.SIGNATURE_ALGORITHMS, _E.ALPN, _E.SUPPORTED_VERSIONS,
    _E.KEY_SHARE,
)  # fmt: skip
"""What ClientHello carries, as bits by type; a server answers nothing else."""
EVERYTHING = (1 << FOUND_TYPES) - 1
ALLOWED: dict[Place, int] = {
    Place.SERVER_HELLO: _bits(_E.SUPPORTED_VERSIONS, _E.KEY_SHARE),
    Place.RETRY: _bits(_E.SUPPORTED_VERSIONS, _E.KEY_SHARE, _E.COOKIE),
    Place.ENCRYPTED: _bits(_E.SERVER_NAME, _E.ALPN, _E.SUPPORTED_GROUPS),
    Place.REQUEST: EVERYTHING,
    Place.ENTRY: 0,
}
"""What may stand where, as bits by type. What a CertificateRequest asks for we may ignore."""
TLS_PLACES = constant(
    "tls_places",
    b"".join(ALLOWED[place].to_bytes(8, "little") for place in Place),
    "extensions that may stand in a place, as bits by type",
    align=8,
)


def _u16(value: int) -> bytes:
    return value.to_bytes(2, "big")


def _listed(items: tuple[int, ...]) -> bytes:
    return _u16(2 * len(items)) + b"".join(map(_u16, items))


def _extension(kind: Extension, value: bytes) -> bytes:
    return _u16(kind) + _u16(len(value)) + value


HELLO_SUITES = _listed(SUITES) + b"\x01\x00"
"""Cipher suites, and the one compression that there is: none."""
HELLO_GROUPS = _extension(_E.SUPPORTED_GROUPS, _listed(GROUPS))
HELLO_HYBRID_GROUPS = _extension(_E.SUPPORTED_GROUPS, _listed(HYBRID_GROUPS))
HELLO_EXTENSIONS = (
    _extension(_E.SIGNATURE_ALGORITHMS, _listed(tuple(Scheme)))
    + _extension(_E.ALPN, _u16(1 + len(ALPN_NAME)) + bytes([len(ALPN_NAME)]) + ALPN_NAME)
    + _extension(_E.SUPPORTED_VERSIONS, b"\x02" + _u16(TLS_1_3))
)
"""Extensions that are the same in every ClientHello."""
TLS_HELLO_GROUPS = constant("tls_hello_groups", HELLO_GROUPS, "the groups that we offer")
TLS_HELLO_HYBRID_GROUPS = constant(
    "tls_hello_hybrid_groups", HELLO_HYBRID_GROUPS, "those with X25519MLKEM768"
)
TLS_HELLO_SUITES = constant("tls_hello_suites", HELLO_SUITES, "suites and compression of ours")
TLS_HELLO_EXTENSIONS = constant(
    "tls_hello_extensions", HELLO_EXTENSIONS, "extensions of every ClientHello"
)
TLS_RETRY_RANDOM = constant(
    "tls_retry_random", RETRY_RANDOM, "the random that makes a ServerHello a retry", align=8
)
VERIFY_CONTEXT = b" " * 64 + b"TLS 1.3, server CertificateVerify\0"
"""RFC 8446 4.4.3: what stands before the digest in what a server signs."""
TLS_VERIFY_CONTEXT = constant("tls_verify_context", VERIFY_CONTEXT, "what a signature begins with")
TLS_EMPTY_CERTIFICATE = constant(
    "tls_empty_certificate",
    bytes((HandshakeType.CERTIFICATE, 0, 0, 4, 0, 0, 0, 0)),
    "the answer to a CertificateRequest: no context, no certificate",
)
TLS_ALPN_NAME = constant("tls_alpn_name", ALPN_NAME, "the protocol that we speak", align=8)
