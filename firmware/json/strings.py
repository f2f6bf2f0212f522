"""Strings: keys that are looked up, texts that are kept, and what is passed over.

The registers are those of `firmware.json.feed`; EAX is the byte.
"""

from firmware.json.places import P, Places, begin_value
from firmware.layouts.json import (
    DATA_KEYS,
    DOCUMENT_KEYS,
    DOCUMENT_KEYS_MAX,
    ENVELOPE_KEYS,
    KEY_MAX,
    NOT_ASCII,
    RESUME_URL_MAX,
    T_MAX,
    USER_ID_MAX,
    USER_KEYS,
    JsonBody,
    JsonField,
    JsonKind,
    JsonParser,
    JsonState,
    Vocabulary,
)
from firmware.limits import SESSION_ID_MAX
from toolchain.asm import (
    AE,
    AL,
    EAX,
    EBP,
    EBX,
    ECX,
    EDX,
    NE,
    NZ,
    R10,
    R10D,
    R11,
    R11D,
    R12,
    R15D,
    RAX,
    RCX,
    RDX,
    A,
    Asm,
    B,
    E,
    Label,
    Region,
    mem8,
    mem64,
)
from toolchain.layout.data import constant

NAME_BYTES = KEY_MAX
NAMES = constant(
    "json_names",
    b"".join(name.ljust(NAME_BYTES, b"\0") for name in (*ENVELOPE_KEYS, *DATA_KEYS, *USER_KEYS)),
    "kept keys by depth, each padded with zeros; those of one depth in the order of JsonField",
    align=8,
)
_GROUPS = [group for pair in DOCUMENT_KEYS.values() for group in pair]
DOCUMENT_NAMES = constant(
    "json_document_names",
    b"".join(
        b"".join(name.ljust(NAME_BYTES, b"\0") for name in group).ljust(
            NAME_BYTES * DOCUMENT_KEYS_MAX, b"\xff"
        )
        for group in _GROUPS
    ),
    "kept keys of documents, DOCUMENT_KEYS_MAX a group, by vocabulary and depth; 0xFF = none",
    align=8,
)
DOCUMENT_FIELDS = constant(
    "json_document_fields",
    b"".join(bytes(group.values()).ljust(DOCUMENT_KEYS_MAX, b"\0") for group in _GROUPS),
    "what each of them is kept as",
)
ESCAPES = constant(
    "json_escapes",
    bytes({"b": 8, "f": 12, "n": 10, "r": 13, "t": 9}.get(chr(c), c) for c in range(128)),
    "what an escaped letter stands for",
)
# Texts that are kept, by field: where and how much.
KEPT = (
    (JsonField.T, JsonParser.t, T_MAX),
    (JsonField.SESSION_ID, JsonParser.session_id, SESSION_ID_MAX),
    (JsonField.RESUME_URL, JsonParser.resume_url, RESUME_URL_MAX),
    (JsonField.USER_ID, JsonParser.user_id, USER_ID_MAX),
)
KEPT_TEXT = Region("a kept text", "in the parser, bounded by the room of its field")


def keep(a: Asm) -> None:
    """Append AL to the kept text; beyond its room only the length grows, once."""
    with a.block() as over:
        a.cmp(R11D, a.local(4))
        a.leave(A, over)
        with a.if_(B):
            a.mov(mem8(R10, index=R11, ref=KEPT_TEXT), AL)
        a.inc(R11D)


def choose_key(a: Asm) -> None:
    """Set R10 and the local for a key: kept at depth 1, at depth 2 in `d`, at 3 in its `user`."""
    unwatched, watched, user = map(a.label, ("unwatched", "watched", "user"))
    a.xor(R10D, R10D)
    a.cmp(R15D, 1)
    a.je(watched)
    a.cmp(R15D, 2)
    a.jne(user)
    a.cmp(P.body, JsonBody.READ)
    a.jne(unwatched)
    a.jmp(watched)
    a.place(user)
    a.cmp(R15D, 3)
    a.jne(unwatched)
    a.cmp(P.body, JsonBody.USER)
    a.jne(unwatched)
    a.place(watched)
    a.lea(R10, P.key.address)
    a.mov(a.local(4), KEY_MAX)
    a.place(unwatched)


def choose_value(a: Asm) -> None:
    """Set R10 and the local for a string that is a value."""
    a.xor(R10D, R10D)
    a.mov(EAX, P.field)
    for field, place, room in KEPT:  # unrolled: four texts
        a.cmp(EAX, field)
        with a.if_(E):
            a.lea(R10, JsonParser.at(R12, place.offset).state)
            a.mov(a.local(4), room)


def begin_key(a: Asm, places: Places) -> None:
    """Begin a key."""
    a.mov(P.is_key, 1)
    choose_key(a)
    a.test(R10, R10)
    with a.if_(NZ):
        a.xor(EAX, EAX)
        for n in range(0, KEY_MAX, 8):  # unrolled: three quadwords
            a.mov(P.key.m64(n), RAX)
    a.xor(R11D, R11D)
    a.mov(EBP, JsonState.STRING)
    a.jmp(places.loop)


def begin_string(a: Asm, places: Places) -> None:
    """Begin a string that is a value."""
    begin_value(a, JsonKind.STRING, places)
    a.mov(P.is_key, 0)
    choose_value(a)
    a.xor(R11D, R11D)
    a.mov(EBP, JsonState.STRING)
    a.jmp(places.loop)


def end_string(a: Asm, places: Places) -> None:
    """End a string; a key is looked up."""
    key, found, ended = a.label("key_end"), a.label("found"), a.label("ended")
    document = a.label("document")
    name, row, left = RAX, ECX, EDX
    a.cmp(P.is_key, 0)
    a.jne(key)
    a.mov(EBP, JsonState.SKIP)
    a.cmp(P.body, JsonBody.SKIPPED)
    a.je(ended)
    a.mov(EBP, JsonState.AFTER)
    a.test(R10, R10)
    a.jz(ended)
    a.mov(EDX, P.field)
    a.mov(P.values.m32(index=RDX, scale=4), R11D)
    a.jmp(ended)

    # Which kept key is it? Those of the envelope at depth 1, those of `d` at depth 2.
    a.place(key)
    a.mov(EBP, JsonState.COLON)
    a.xor(row, row)
    a.test(R10, R10)
    a.jz(found)
    a.cmp(P.vocabulary, Vocabulary.ENVELOPE)
    a.jne(document)
    a.lea(name, NAMES.address)
    a.mov(row, JsonField.OP)
    a.mov(left, len(ENVELOPE_KEYS))
    a.cmp(R15D, 1)
    with a.if_(NE):
        a.mov(row, JsonField.HEARTBEAT_INTERVAL)
        a.add(name, NAME_BYTES * len(ENVELOPE_KEYS))
        a.mov(left, len(DATA_KEYS))
        a.cmp(R15D, 2)
        with a.if_(NE):
            a.mov(row, JsonField.USER_ID)
            a.add(name, NAME_BYTES * len(DATA_KEYS))
            a.mov(left, len(USER_KEYS))
    with a.loop() as names:
        with a.block() as other:
            for n in range(0, NAME_BYTES, 8):  # unrolled: three quadwords
                a.mov(R10, mem64(name, n, ref=NAMES))
                a.cmp(R10, P.key.m64(n))
                a.leave(NE, other)
            a.jmp(found)
        a.inc(row)
        a.add(name, NAME_BYTES)
        a.dec(left)
        a.again(NZ, names)
    a.xor(row, row)
    a.place(found)
    a.mov(P.field, row)
    a.place(ended)
    a.xor(R10D, R10D)
    a.xor(R11D, R11D)
    a.jmp(places.loop)

    a.place(document)
    _document_key(a, found)


def _document_key(a: Asm, found: Label) -> None:
    """ECX := what the key of a document is kept as; 0 = not at all."""
    name, row, left = RAX, ECX, EDX
    a.mov(row, P.vocabulary)
    a.add(row, row)
    a.sub(row, 2 * Vocabulary.GATEWAY_BOT)
    a.cmp(R15D, 1)
    with a.if_(NE):
        a.inc(row)
    a.shl(row, DOCUMENT_KEYS_MAX.bit_length() - 1)
    a.imul(EDX, row, NAME_BYTES)
    a.lea(name, DOCUMENT_NAMES.address)
    a.add(name, RDX)
    a.mov(left, DOCUMENT_KEYS_MAX)
    with a.loop() as names:
        with a.block() as other:
            for n in range(0, NAME_BYTES, 8):  # unrolled: three quadwords
                a.mov(R10, mem64(name, n, ref=DOCUMENT_NAMES))
                a.cmp(R10, P.key.m64(n))
                a.leave(NE, other)
            a.lea(RAX, DOCUMENT_FIELDS.address)
            a.movzx(ECX, mem8(RAX, index=RCX, ref=DOCUMENT_FIELDS))
            a.jmp(found)
        a.inc(row)
        a.add(name, NAME_BYTES)
        a.dec(left)
        a.again(NZ, names)
    a.xor(row, row)
    a.jmp(found)


def escaped(a: Asm, places: Places) -> None:
    """Append what an escaped letter stands for."""
    a.mov(EBP, JsonState.STRING)
    a.test(R10, R10)
    a.jz(places.loop)
    a.lea(RDX, ESCAPES.address)
    a.mov(AL, mem8(RDX, index=RAX, ref=ESCAPES))
    keep(a)
    a.jmp(places.loop)


def begin_hex(a: Asm, places: Places) -> None:
    """Begin the four digits of a character."""
    a.xor(EBX, EBX)
    a.mov(EBP, JsonState.HEX_1)
    a.jmp(places.loop)


def _hex_digit(a: Asm) -> None:
    """Append the digit EAX to RBX."""
    a.cmp(EAX, ord("9"))
    with a.if_(A):
        a.or_(EAX, 0x20)
        a.sub(EAX, ord("a") - ord("9") - 1)
    a.sub(EAX, ord("0"))
    a.shl(EBX, 4)
    a.or_(EBX, EAX)


def more_hex(a: Asm, places: Places) -> None:
    """Take one of its first three digits."""
    _hex_digit(a)
    a.inc(EBP)
    a.jmp(places.loop)


def end_hex(a: Asm, places: Places) -> None:
    """Take its last digit, and append the character."""
    _hex_digit(a)
    a.mov(EBP, JsonState.STRING)
    a.test(R10, R10)
    a.jz(places.loop)
    # Nothing that is kept may hold a NUL or a character beyond ASCII.
    a.mov(EAX, EBX)
    a.lea(EDX, mem8(RAX, -1, ref=KEPT_TEXT))
    a.cmp(EDX, 0x7F)
    with a.if_(AE):
        a.mov(EAX, NOT_ASCII)
    keep(a)
    a.jmp(places.loop)
