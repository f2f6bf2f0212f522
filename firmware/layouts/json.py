"""The envelope parser's state: what it has seen of one Gateway message, and where it stands.

A message is an object; of it the parser keeps `op`, `s`, `t`, the kind of `d`, and eight values inside
`d`. The grammar is RFC 8259's, whole, at any depth; only the body of a dispatch of which nothing is
kept is skipped by its strings and brackets.
"""

from __future__ import annotations

import enum

from firmware.errors import Layer, site
from firmware.limits import SESSION_ID_MAX
from toolchain.asm.operands import Region
from toolchain.layout import Struct, bytes_, enum32, u32, u64


class JsonState(enum.IntEnum):
    """What may come next. SKIP: between two strings of a body of which nothing is kept."""

    START = 0
    END = 1
    VALUE = 2
    ARRAY_FIRST = 3
    OBJECT_FIRST = 4
    KEY = 5
    COLON = 6
    AFTER = 7
    STRING = 8
    SKIP = 9
    ESCAPE = 10
    HEX_1 = 11
    HEX_2 = 12
    HEX_3 = 13
    HEX_4 = 14
    MINUS = 15
    ZERO = 16
    INTEGER = 17
    POINT = 18
    FRACTION = 19
    EXPONENT = 20
    EXPONENT_SIGN = 21
    EXPONENT_DIGITS = 22
    TRUE_R = 23
    TRUE_U = 24
    TRUE_E = 25
    FALSE_A = 26
    FALSE_L = 27
    FALSE_S = 28
    FALSE_E = 29
    NULL_U = 30
    NULL_L = 31
    NULL_L2 = 32


class JsonField(enum.IntEnum):
    """A value that is kept; the number indexes `kinds` and `values`."""

    NONE = 0
    OP = 1
    S = 2
    T = 3
    D = 4
    HEARTBEAT_INTERVAL = 5
    SESSION_ID = 6
    RESUME_URL = 7
    RATE_OPCODE = 8
    RETRY_AFTER = 9
    SHARD = 10
    USER = 11
    SHARD_ID = 12
    SHARD_TOTAL = 13
    SHARD_MORE = 14
    USER_ID = 15


class JsonKind(enum.IntEnum):
    """What a kept value is. INTEGER and DECIMAL fit in 32 bits without sign, NUMBER is any other.

    A DECIMAL has a fraction and no exponent; its value is in thousandths, further digits cut off.
    """

    ABSENT = 0
    NULL = 1
    TRUE = 2
    FALSE = 3
    INTEGER = 4
    NUMBER = 5
    STRING = 6
    OBJECT = 7
    ARRAY = 8
    DECIMAL = 9


class JsonBody(enum.IntEnum):
    """What the object at depth 2 is to the parser; USER = READ, while its `user` runs at depth 3."""

    OTHER = 0
    READ = 1
    SKIPPED = 2
    USER = 3


FRACTION_FULL = 4
"""`number_other` when a number has its three digits behind the point; 1 stands for the point."""
NUMBER_BEYOND = 5
"""`number_other` of a number with a sign, an exponent, or more than 32 bits before the point."""

KEY_MAX, T_MAX, RESUME_URL_MAX = 24, 64, 160
USER_ID_MAX = 20
"""Digits of a 64-bit number."""
ENVELOPE_KEYS = {b"op": JsonField.OP, b"s": JsonField.S, b"t": JsonField.T, b"d": JsonField.D}
DATA_KEYS = {
    b"heartbeat_interval": JsonField.HEARTBEAT_INTERVAL,
    b"session_id": JsonField.SESSION_ID,
    b"resume_gateway_url": JsonField.RESUME_URL,
    b"opcode": JsonField.RATE_OPCODE,
    b"retry_after": JsonField.RETRY_AFTER,
    b"shard": JsonField.SHARD,
    b"user": JsonField.USER,
}
USER_KEYS = {b"id": JsonField.USER_ID}
EVENT_READY, EVENT_RESUMED, EVENT_RATE_LIMITED = b"READY", b"RESUMED", b"RATE_LIMITED"
"""Dispatches that the node itself acts on, by `t`."""
EVENTS_WITH_DATA = (EVENT_READY, EVENT_RATE_LIMITED)
"""Those of them whose kept values inside `d` are read; `d` of every other dispatch is skipped."""


class Vocabulary(enum.IntEnum):
    """Whose keys the parser keeps: those of a Gateway message, or of a discovery document."""

    ENVELOPE = 0
    GATEWAY_BOT = 1
    WELL_KNOWN = 2


class DocumentField(enum.IntEnum):
    """What is kept of a document, in the place of the JsonField of the same number.

    URL shares the room of RESUME_URL; NESTED is the object whose keys count too, as `d` is.
    """

    TOTAL = 1
    REMAINING = 2
    NESTED = 4
    RESET_AFTER = 5
    SHARDS = 6
    URL = 7
    MAX_CONCURRENCY = 8
    RETRY_AFTER = 9


DOCUMENT_KEYS: dict[Vocabulary, tuple[dict[bytes, DocumentField], dict[bytes, DocumentField]]] = {
    Vocabulary.GATEWAY_BOT: (
        {
            b"url": DocumentField.URL,
            b"session_start_limit": DocumentField.NESTED,
            b"retry_after": DocumentField.RETRY_AFTER,
            b"shards": DocumentField.SHARDS,
        },
        {
            b"total": DocumentField.TOTAL,
            b"remaining": DocumentField.REMAINING,
            b"reset_after": DocumentField.RESET_AFTER,
            b"max_concurrency": DocumentField.MAX_CONCURRENCY,
        },
    ),
    Vocabulary.WELL_KNOWN: (
        {b"endpoints": DocumentField.NESTED, b"retry_after": DocumentField.RETRY_AFTER},
        {b"gateway": DocumentField.URL},
    ),
}
"""Kept keys at depth 1, and at depth 2 in the NESTED object."""
DOCUMENT_KEYS_MAX = 4
NOT_ASCII = 0xFF
"""Kept for an escape that is not a character of ASCII: no kept text may hold it."""

TEXT_IN = Region("the message's text", "in the receive ring, bounded by the length of the part")

SYNTAX = site(Layer.JSON, 1, "syntax", "not JSON; detail: the parser's state")
TOO_DEEP = site(Layer.JSON, 2, "too_deep", "more than JSON_DEPTH_MAX levels")
DUPLICATE_KEY = site(Layer.JSON, 3, "duplicate_key", "a kept key twice; detail: which JsonField")
INCOMPLETE = site(Layer.JSON, 4, "incomplete", "the message ends inside the text")


class JsonParser(Struct):
    """The parser of one shard."""

    SIZE = 0x2A0
    state = enum32(0x00, JsonState, "what may come next")
    depth = u32(0x04, "open objects and arrays")
    stack = u64(0x08, "one bit a level, the innermost lowest; 1 = object")
    number = u64(0x10, "value of the running integer, or of the running \\u escape")
    number_other = u32(
        0x18, "0 = the running number is a 32-bit integer; up to FRACTION_FULL: has a fraction"
    )
    field = enum32(0x1C, JsonField, "what the value that comes or runs is kept as")
    body = enum32(0x20, JsonBody, "READ or SKIPPED: the object at depth 2 is the value of `d`")
    is_key = u32(0x24, "1 = the running string is a key")
    count = u32(0x28, "bytes of the running kept string; one beyond its room = too long")
    error = u32(0x2C, "why nothing more is read; 0 = fine")
    kinds = bytes_(0x30, 16, "JsonKind by JsonField", align=8)
    values = bytes_(0x40, 64, "by JsonField: 32-bit integers, lengths of strings", align=8)
    key = bytes_(0x80, KEY_MAX, "the running key that may be kept, padded with zeros", align=8)
    vocabulary = enum32(0x98, Vocabulary, "whose keys are kept; a new message leaves it as it is")
    strict = u32(0x9C, "1 = no body is skipped; a new message leaves it as it is")
    t = bytes_(0xA0, T_MAX, "event name", align=8)
    session_id = bytes_(0xE0, SESSION_ID_MAX, "of READY", align=8)
    resume_url = bytes_(0x1E0, RESUME_URL_MAX, "resume_gateway_url of READY", align=8)
    user_id = bytes_(0x280, USER_ID_MAX, "user.id of READY", align=8)


JSON_HEAD_BYTES = JsonParser.key.offset
"""What a new message sets to zero."""
