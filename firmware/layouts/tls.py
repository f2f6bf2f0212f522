"""TLS 1.3 (RFC 8446, client rules of RFC 9846): states, messages, the table of moves, the contexts.

`MOVES` is the client machine of RFC 8446 appendix A.1. What stands in no row is refused with
unexpected_message. Generator, models, documents and the exhaustive test read it.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from toolchain.asm.operands import Region
from toolchain.layout import Struct, bytes_, enum32, flags32, nested, ptr, u8, u16, u32, u64
from toolchain.layout.data import constant


class TlsState(enum.IntEnum):
    """Progress of TLS; PASS_THROUGH while the transport is plain."""

    IDLE = 0
    PASS_THROUGH = 1
    FAILED = 2
    WAIT_SERVER_HELLO = 3
    WAIT_SECOND_HELLO = 4
    WAIT_EXTENSIONS = 5
    WAIT_CERTIFICATE_OR_REQUEST = 6
    WAIT_CERTIFICATE = 7
    WAIT_VERIFY = 8
    WAIT_FINISHED = 9
    CONNECTED = 10
    ENDED = 11


class HandshakeType(enum.IntEnum):
    """RFC 8446 4. The wire has no 6: a ServerHello with the random of a retry counts as that."""

    CLIENT_HELLO = 1
    SERVER_HELLO = 2
    NEW_SESSION_TICKET = 4
    END_OF_EARLY_DATA = 5
    HELLO_RETRY_REQUEST = 6
    ENCRYPTED_EXTENSIONS = 8
    CERTIFICATE = 11
    CERTIFICATE_REQUEST = 13
    CERTIFICATE_VERIFY = 15
    FINISHED = 20
    KEY_UPDATE = 24
    MESSAGE_HASH = 254


class Action(enum.IntEnum):
    """What a message that may come now is given to."""

    REFUSE = 0
    RETRY = 1
    SERVER_HELLO = 2
    EXTENSIONS = 3
    REQUEST = 4
    CERTIFICATE = 5
    VERIFY = 6
    FINISHED = 7
    TICKET = 8
    KEY_UPDATE = 9


@dataclass(frozen=True)
class Move:
    """What happens to a message, and the state behind it when nothing is wrong with it."""

    action: Action
    next: TlsState


_S, _T, _A = TlsState, HandshakeType, Action
MOVES: dict[tuple[TlsState, HandshakeType], Move] = {
    (_S.WAIT_SERVER_HELLO, _T.HELLO_RETRY_REQUEST): Move(_A.RETRY, _S.WAIT_SECOND_HELLO),
    (_S.WAIT_SERVER_HELLO, _T.SERVER_HELLO): Move(_A.SERVER_HELLO, _S.WAIT_EXTENSIONS),
    (_S.WAIT_SECOND_HELLO, _T.SERVER_HELLO): Move(_A.SERVER_HELLO, _S.WAIT_EXTENSIONS),
    (_S.WAIT_EXTENSIONS, _T.ENCRYPTED_EXTENSIONS): Move(
        _A.EXTENSIONS, _S.WAIT_CERTIFICATE_OR_REQUEST
    ),
    (_S.WAIT_CERTIFICATE_OR_REQUEST, _T.CERTIFICATE_REQUEST): Move(_A.REQUEST, _S.WAIT_CERTIFICATE),
    (_S.WAIT_CERTIFICATE_OR_REQUEST, _T.CERTIFICATE): Move(_A.CERTIFICATE, _S.WAIT_VERIFY),
    (_S.WAIT_CERTIFICATE, _T.CERTIFICATE): Move(_A.CERTIFICATE, _S.WAIT_VERIFY),
    (_S.WAIT_VERIFY, _T.CERTIFICATE_VERIFY): Move(_A.VERIFY, _S.WAIT_FINISHED),
    (_S.WAIT_FINISHED, _T.FINISHED): Move(_A.FINISHED, _S.CONNECTED),
    (_S.CONNECTED, _T.NEW_SESSION_TICKET): Move(_A.TICKET, _S.CONNECTED),
    (_S.CONNECTED, _T.KEY_UPDATE): Move(_A.KEY_UPDATE, _S.CONNECTED),
}
MOVE_TYPES = 32
"""Columns of the table; no message that may come has a larger type."""


def _moves() -> bytes:
    """Return the table for the node: for each state and type, the action and the next state."""
    table = bytearray(2 * MOVE_TYPES * len(TlsState))
    for (state, kind), move in MOVES.items():
        at = 2 * (MOVE_TYPES * state + kind)
        table[at : at + 2] = move.action, move.next
    return bytes(table)


TLS_MOVES = constant(
    "tls_moves", _moves(), "two bytes by state and message: Action, and the state behind it"
)


class RecordType(enum.IntEnum):
    """RFC 8446 5.1."""

    CHANGE_CIPHER_SPEC = 20
    ALERT = 21
    HANDSHAKE = 22
    APPLICATION_DATA = 23


class Suite(enum.IntEnum):
    """RFC 8446 B.4, as on the wire."""

    AES_128_GCM_SHA256 = 0x1301
    AES_256_GCM_SHA384 = 0x1302
    CHACHA20_POLY1305_SHA256 = 0x1303


class Group(enum.IntEnum):
    """RFC 8446 4.2.7 and draft-ietf-tls-ecdhe-mlkem, as on the wire."""

    SECP256R1 = 0x0017
    X25519 = 0x001D
    X25519MLKEM768 = 0x11EC


class Hybrid(enum.IntEnum):
    """What our first ClientHello says of X25519MLKEM768: nothing, that we can, or a share of it too."""

    OFF = 0
    OFFER = 1
    SHARE = 2


class Scheme(enum.IntEnum):
    """RFC 8446 4.2.3, as on the wire: what we offer, the likeliest first."""

    ECDSA_SECP256R1_SHA256 = 0x0403
    RSA_PSS_RSAE_SHA256 = 0x0804
    ECDSA_SECP384R1_SHA384 = 0x0503
    RSA_PSS_RSAE_SHA384 = 0x0805
    RSA_PSS_RSAE_SHA512 = 0x0806
    RSA_PKCS1_SHA256 = 0x0401
    RSA_PKCS1_SHA384 = 0x0501
    RSA_PKCS1_SHA512 = 0x0601


class Extension(enum.IntEnum):
    """RFC 8446 4.2: those that we offer or know the place of."""

    SERVER_NAME = 0
    MAX_FRAGMENT_LENGTH = 1
    STATUS_REQUEST = 5
    SUPPORTED_GROUPS = 10
    SIGNATURE_ALGORITHMS = 13
    USE_SRTP = 14
    HEARTBEAT = 15
    ALPN = 16
    SIGNED_CERTIFICATE_TIMESTAMP = 18
    CLIENT_CERTIFICATE_TYPE = 19
    SERVER_CERTIFICATE_TYPE = 20
    PADDING = 21
    PRE_SHARED_KEY = 41
    EARLY_DATA = 42
    SUPPORTED_VERSIONS = 43
    COOKIE = 44
    PSK_KEY_EXCHANGE_MODES = 45
    CERTIFICATE_AUTHORITIES = 47
    OID_FILTERS = 48
    POST_HANDSHAKE_AUTH = 49
    SIGNATURE_ALGORITHMS_CERT = 50
    KEY_SHARE = 51


LEGACY_VERSION, FIRST_VERSION, TLS_1_3 = 0x0303, 0x0301, 0x0304
RECORD_HEADER_BYTES = 5
TAG_BYTES = 16
CONTENT_MAX = 1 << 14
CIPHERTEXT_MAX = CONTENT_MAX + 256
"""RFC 8446 5.2; checked from the header, before a record is waited for."""
RECORD_MAX = RECORD_HEADER_BYTES + CIPHERTEXT_MAX
RECORD_COST = RECORD_HEADER_BYTES + 1 + TAG_BYTES
"""Bytes that a record of ours adds to its content."""
HANDSHAKE_HEADER_BYTES = 4
MESSAGE_MAX = 24 * 1024
"""Longest handshake message that we take, without its header: a chain is 5 to 8 KB."""
HELLO_MAX = 0xA40
"""The longest name and cookie, and shares of X25519MLKEM768 and X25519."""
COOKIE_MAX = 0x400
"""What a second ClientHello has room for (RFC 8446 4.2.2)."""
MEANINGLESS_MAX = 32
"""Records or KeyUpdates in a row that carry nothing; one more is refused."""
KEY_RECORDS_MAX = 1 << 23
"""Records under one key before our KeyUpdate; RFC 8446 5.5 allows 2^24.5 with AES-GCM."""
HANDSHAKE_TIMEOUT_MS = 10_000
SECRET_MAX = 48
"""Bytes of a secret: as many as the hash of the suite gives, 48 with SHA-384."""
IV_BYTES = 12
RAW_KEY_MAX = 32
AEAD_KEY_MAX = 0x300
"""Room for what a key was made into, whatever the suite."""

RECORD_IN = Region("the received record", "in the receive ring, bounded by its header's length")
RECORD_OUT = Region("the record being sent", "in the transmit buffer, as long as was reserved")
MESSAGE_IN = Region("the handshake message", "in the arena, bounded by its length")


class TlsFlag(enum.IntFlag):
    """Bits of `TlsContext.flags`."""

    OPENING = 1 << 0
    SEALING = 1 << 1
    CLOSE_NOTIFY = 1 << 2
    CLOSED = 1 << 3
    KEY_UPDATE_OWED = 1 << 4
    CCS_SENT = 1 << 5
    REQUESTED = 1 << 6


class TlsContext(Struct):
    """TLS workspace of one shard: what every read and write looks at; the keys lie elsewhere."""

    SIZE = 0x80
    state = enum32(0x00, TlsState, "progress; FAILED asks the lifecycle for a backoff")
    error = u32(0x04, "last_error of the layer")
    tcp_ptr = ptr(0x08, "the shard's TcpContext; rebound after a reset")
    flags = flags32(0x10, TlsFlag, "see TlsFlag")
    plain_left = u32(0x14, "plaintext at the head of the ring that was not consumed; bytes")
    gap = u32(0x18, "bytes behind it that TCP gets back with its last byte: tags, padding, records")
    message_left = u32(0x1C, "bytes of a message after the handshake that are still to come")
    field_left = u32(0x20, "bytes of its current field that are still to come")
    suite = u16(0x24, "Suite; 0 = not chosen yet")
    group = u16(0x26, "Group of the key share that counts")
    message_type = u8(0x28, "HandshakeType of a message after the handshake")
    message_have = u8(0x29, "bytes of its header that came")
    field = u8(0x2A, "which field of it is read")
    meaningless = u8(0x2B, "records in a row without content")
    key_updates = u8(0x2C, "KeyUpdates in a row without data between")
    peer_alert = u8(0x2D, "alert that the peer sent last")
    arena_ptr = ptr(0x30, "TlsArena of the handshake; 0 = none")
    deadline = u64(0x38, "TSC when the handshake is given up")
    anchor = u64(0x40, "FNV-1a of the subject at the end of the server's chain; 0 = not verified")
    key_kind = u32(0x48, "KeyKind of the server's own key; counts with `anchor`")


class TlsDirection(Struct):
    """What protects one direction (RFC 8446 5.2, 5.3)."""

    SIZE = 0x400
    secret = bytes_(0x00, SECRET_MAX, "the traffic secret", align=16)
    iv = bytes_(0x30, IV_BYTES, "the per-record nonce before the sequence is mixed in", align=16)
    sequence = u64(0x40, "records under this key")
    nonce = bytes_(0x50, IV_BYTES, "of the record in hand", align=16)
    key = bytes_(0x80, AEAD_KEY_MAX, "what the key was made into", align=64)
    raw = bytes_(0x380, RAW_KEY_MAX, "the key itself, while it is made; zeros otherwise", align=16)


class TlsKeys(Struct):
    """The secrets of one connection; erased when it ends, whatever ends it."""

    SIZE = 0x800
    send = nested(0x000, TlsDirection, "what we seal with")
    receive = nested(0x400, TlsDirection, "what we open with")
