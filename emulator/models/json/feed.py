"""The envelope parser, by the productions of RFC 8259 and the list of what is kept."""

from typing import TYPE_CHECKING

from emulator.effects import View, World, model
from firmware.layouts.json import (
    DATA_KEYS,
    DOCUMENT_KEYS,
    DUPLICATE_KEY,
    ENVELOPE_KEYS,
    EVENTS_WITH_DATA,
    FRACTION_FULL,
    KEY_MAX,
    NOT_ASCII,
    NUMBER_BEYOND,
    SYNTAX,
    TOO_DEEP,
    USER_KEYS,
    JsonBody,
    JsonField,
    JsonKind,
    JsonParser,
    JsonState,
    Vocabulary,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

_DEPTH_MAX = 64
_BLANK = b" \t\n\r"
_WORDS = {"true": JsonKind.TRUE, "false": JsonKind.FALSE, "null": JsonKind.NULL}
# State names spell what was read: TRUE_U is "true" before its u.
_IN_WORD = {
    JsonState.TRUE_R: "true r", JsonState.TRUE_U: "true u", JsonState.TRUE_E: "true e",
    JsonState.FALSE_A: "false a", JsonState.FALSE_L: "false l", JsonState.FALSE_S: "false s",
    JsonState.FALSE_E: "false e", JsonState.NULL_U: "null u", JsonState.NULL_L: "null l",
    JsonState.NULL_L2: "null l",
}  # fmt: skip
_NEXT = {a: b for a, b in zip(_IN_WORD, list(_IN_WORD)[1:], strict=False) if a.name[0] == b.name[0]}
_ESCAPES = {ord(k): v for k, v in zip('"\\/bfnrt', b'"\\/\b\f\n\r\t', strict=True)}
_KEPT = {
    JsonField.T: "t",
    JsonField.SESSION_ID: "session_id",
    JsonField.RESUME_URL: "resume_url",
    JsonField.USER_ID: "user_id",
}


class _RefusedError(Exception):
    """The text is refused; the argument is the error."""


class _Reader:
    """The parser's state as Python values; kept values go to memory at once, the rest at the end."""

    def __init__(self, view: View) -> None:
        self.v = view
        self.state = JsonState(view.state)
        self.open = [bool(view.stack >> n & 1) for n in reversed(range(view.depth))]
        self.number, self.other, self.count = view.number, view.number_other, view.count

    def save(self) -> None:
        v = self.v
        v.state, v.depth = self.state, len(self.open)
        v.stack = sum(is_object << n for n, is_object in enumerate(reversed(self.open)))
        v.number, v.number_other, v.count = self.number, self.other, self.count

    # -- what is kept -----------------------------------------------------------------------------
    def place(self) -> tuple[str, int] | None:
        """Return where the running string is kept and how much of it, if it is."""
        if not self.v.is_key:
            name = _KEPT.get(self.v.field)
            return (name, getattr(JsonParser, name).size) if name else None
        depth = len(self.open)
        return ("key", KEY_MAX) if depth == 1 or self.reads_body(depth) else None

    def reads_body(self, depth: int) -> bool:
        return (depth, self.v.body) in ((2, JsonBody.READ), (3, JsonBody.USER))

    def nothing_kept(self) -> bool:
        """Whether this is known to be a dispatch of whose `d` nothing is kept."""
        v = self.v
        if v.strict or (v.kinds[JsonField.OP], v.kinds[JsonField.T]) != (
            JsonKind.INTEGER,
            JsonKind.STRING,
        ):
            return False
        values = [
            int.from_bytes(v.values[4 * f : 4 * f + 4], "little")
            for f in (JsonField.OP, JsonField.T)
        ]
        return values[0] == 0 and bytes(v.t[: values[1]]) not in EVENTS_WITH_DATA

    def keep(self, byte: int) -> None:
        where = self.place()
        if where is None:
            return
        if self.count < where[1]:
            getattr(self.v, where[0])[self.count] = byte
        self.count = min(self.count + 1, where[1] + 1)

    def begin_value(self, kind: JsonKind) -> JsonField:
        field = JsonField(self.v.field)
        if field:
            if self.v.kinds[field]:
                raise _RefusedError(DUPLICATE_KEY.code | field)
            self.v.kinds[field] = kind
        return field

    def name_field(self) -> None:
        field = JsonField.NONE
        if self.place():
            groups: dict[Vocabulary, tuple[Mapping[bytes, int], ...]] = {
                Vocabulary.ENVELOPE: (ENVELOPE_KEYS, DATA_KEYS, USER_KEYS),
                **DOCUMENT_KEYS,
            }
            known = groups[Vocabulary(self.v.vocabulary)][len(self.open) - 1]
            field = JsonField(known.get(bytes(self.v.key).rstrip(b"\0"), JsonField.NONE))
        self.v.field = field

    # -- the grammar ------------------------------------------------------------------------------
    def syntax(self, state: JsonState | None = None) -> _RefusedError:
        return _RefusedError(SYNTAX.code | (self.state if state is None else state))

    def take(self, byte: int) -> None:
        name = self.state.name
        if self.state == JsonState.STRING:
            self.string(byte)
        elif self.state == JsonState.ESCAPE:
            self.escape(byte)
        elif name.startswith("HEX"):
            self.hex(byte)
        elif self.state in _IN_WORD:
            if byte != ord(_IN_WORD[self.state][-1]):
                raise self.syntax()
            self.state = _NEXT.get(self.state, JsonState.AFTER)
        elif JsonState.MINUS <= self.state <= JsonState.EXPONENT_DIGITS:
            self.in_number(byte)
        elif self.state == JsonState.SKIP:
            self.skip(byte)
        elif byte not in _BLANK:
            self.between(byte)

    def skip(self, byte: int) -> None:
        """Between the strings of a skipped body only brackets count, and what JSON never holds."""
        char = chr(byte)
        if char == "\\" or (byte < 0x20 and byte not in _BLANK):
            raise self.syntax()
        if char == '"':
            self.state = JsonState.STRING
        elif char in "{[":
            if len(self.open) == _DEPTH_MAX:
                raise _RefusedError(TOO_DEEP.code)
            self.open.append(char == "{")
        elif char in "}]":
            if self.open.pop() != (char == "}"):
                raise self.syntax()
            if len(self.open) == 1:
                self.v.body, self.state = JsonBody.OTHER, JsonState.AFTER

    def between(self, byte: int) -> None:
        """Structure: what may stand between tokens."""
        state, char = self.state, chr(byte)
        if state == JsonState.START and char == "{":
            self.begin_container(is_object=True)
        elif state in (JsonState.OBJECT_FIRST, JsonState.KEY) and char == '"':
            self.begin_key()
        elif state == JsonState.COLON and char == ":":
            self.state = JsonState.VALUE
        elif state in (JsonState.VALUE, JsonState.ARRAY_FIRST) and char in '"{[tfn-0123456789':
            self.value(byte)
        elif state == JsonState.AFTER and char == ",":
            self.comma()
        elif (state == JsonState.AFTER and char in "}]") or (state, char) in (
            (JsonState.OBJECT_FIRST, "}"), (JsonState.ARRAY_FIRST, "]"),
        ):  # fmt: skip
            self.end_container(is_object=char == "}")
        else:
            raise self.syntax()

    def value(self, byte: int) -> None:
        char = chr(byte)
        if char == '"':
            self.begin_value(JsonKind.STRING)
            self.v.is_key, self.count, self.state = 0, 0, JsonState.STRING
        elif char in "{[":
            self.begin_container(is_object=char == "{")
        elif char in "tfn":
            word = next(w for w in _WORDS if w[0] == char)
            self.begin_value(_WORDS[word])
            self.state = next(s for s, text in _IN_WORD.items() if text.startswith(word))
        else:
            self.begin_value(JsonKind.NUMBER)
            self.number, self.other = 0, NUMBER_BEYOND if char == "-" else 0
            self.state = {"-": JsonState.MINUS, "0": JsonState.ZERO}.get(char, JsonState.INTEGER)
            if self.state == JsonState.INTEGER:
                self.number = int(char)

    def begin_container(self, *, is_object: bool) -> None:
        field = self.begin_value(JsonKind.OBJECT if is_object else JsonKind.ARRAY)
        if len(self.open) == _DEPTH_MAX:
            raise _RefusedError(TOO_DEEP.code)
        self.open.append(is_object)
        in_shard = field == JsonField.SHARD and not is_object
        self.v.field = JsonField.SHARD_ID if in_shard else JsonField.NONE
        self.state = JsonState.OBJECT_FIRST if is_object else JsonState.ARRAY_FIRST
        if is_object and len(self.open) == 2:
            self.begin_body(field)
        elif is_object and field == JsonField.USER:
            self.v.body = JsonBody.USER

    def begin_body(self, field: JsonField) -> None:
        if field != JsonField.D:
            self.v.body = JsonBody.OTHER
        elif self.nothing_kept():
            self.v.body, self.v.is_key, self.state = JsonBody.SKIPPED, 0, JsonState.SKIP
        else:
            self.v.body = JsonBody.READ

    def end_container(self, *, is_object: bool) -> None:
        if self.open.pop() != is_object:
            raise self.syntax(JsonState.AFTER if self.state == JsonState.AFTER else None)
        if is_object and len(self.open) == 2 and self.v.body == JsonBody.USER:
            self.v.body = JsonBody.READ
        self.state = JsonState.AFTER if self.open else JsonState.END

    def comma(self) -> None:
        if self.open[-1]:
            self.state = JsonState.KEY
            return
        self.state = JsonState.VALUE
        following = {
            JsonField.SHARD_ID: JsonField.SHARD_TOTAL,
            JsonField.SHARD_TOTAL: JsonField.SHARD_MORE,
            JsonField.SHARD_MORE: JsonField.NONE,
        }
        if self.v.field in following:
            self.v.field = following[self.v.field]

    def begin_key(self) -> None:
        self.v.is_key, self.count, self.state = 1, 0, JsonState.STRING
        if self.place():
            self.v.key[:] = bytes(KEY_MAX)

    # -- strings ----------------------------------------------------------------------------------
    def string(self, byte: int) -> None:
        if byte < 0x20:
            raise self.syntax()
        if byte == ord("\\"):
            self.state = JsonState.ESCAPE
        elif byte != ord('"'):
            self.keep(byte)
        elif self.v.is_key:
            self.name_field()
            self.count, self.state = 0, JsonState.COLON
        elif self.v.body == JsonBody.SKIPPED:
            self.count, self.state = 0, JsonState.SKIP
        else:
            if self.place():
                at = 4 * self.v.field
                self.v.values[at : at + 4] = self.count.to_bytes(4, "little")
            self.count, self.state = 0, JsonState.AFTER

    def escape(self, byte: int) -> None:
        if byte == ord("u"):
            self.number, self.state = 0, JsonState.HEX_1
            return
        if byte not in _ESCAPES:
            raise self.syntax()
        self.keep(_ESCAPES[byte])
        self.state = JsonState.STRING

    def hex(self, byte: int) -> None:
        if chr(byte) not in "0123456789abcdefABCDEF":
            raise self.syntax()
        self.number = self.number * 16 + int(chr(byte), 16)
        if self.state == JsonState.HEX_4:
            self.keep(self.number if 0 < self.number < 0x80 else NOT_ASCII)
            self.state = JsonState.STRING
        else:
            self.state = JsonState(self.state + 1)

    # -- numbers ----------------------------------------------------------------------------------
    def in_number(self, byte: int) -> None:
        state, char = self.state, chr(byte)
        digit = char in "0123456789"
        whole = state in (JsonState.ZERO, JsonState.INTEGER)
        may_end = whole or state in (JsonState.FRACTION, JsonState.EXPONENT_DIGITS)
        if may_end and char in " \t\n\r,]}":
            self.end_number()
            self.take(byte)
        elif digit and state in (JsonState.MINUS, JsonState.INTEGER):
            if state == JsonState.MINUS and char == "0":
                self.state = JsonState.ZERO
                return
            self.number = self.number * 10 + int(char)
            if self.number >> 32:
                self.number, self.other = 0, NUMBER_BEYOND
            self.state = JsonState.INTEGER
        elif whole and char == ".":
            self.state, self.other = JsonState.POINT, self.other or 1
        elif (whole or state == JsonState.FRACTION) and char in "eE":
            self.state, self.other = JsonState.EXPONENT, NUMBER_BEYOND
        elif digit and state in (JsonState.POINT, JsonState.FRACTION):
            self.state = JsonState.FRACTION
            if self.other < FRACTION_FULL:
                self.number, self.other = self.number * 10 + int(char), self.other + 1
        elif state == JsonState.EXPONENT and char in "+-":
            self.state = JsonState.EXPONENT_SIGN
        elif digit and state >= JsonState.EXPONENT:
            self.state = JsonState.EXPONENT_DIGITS
        else:
            raise self.syntax()

    def end_number(self) -> None:
        self.state = JsonState.AFTER
        field, kind = self.v.field, JsonKind.INTEGER
        if not field or self.other > FRACTION_FULL:
            return
        if self.other:
            # A fraction counts in thousandths, as far as they fit.
            self.number *= 10 ** (FRACTION_FULL - self.other)
            self.other, kind = FRACTION_FULL, JsonKind.DECIMAL
        if self.number < 2**32:
            self.v.kinds[field] = kind
            self.v.values[4 * field : 4 * field + 4] = self.number.to_bytes(4, "little")


@model
def json_reset(w: World, parser: int) -> None:
    """Everything but the kept texts becomes zero."""
    w.write(parser, bytes(JsonParser.key.offset))


@model
def json_feed(w: World, parser: int, text: int, length: int) -> int:
    """Read on, byte by byte; the first refusal stays."""
    view = w.view(JsonParser, parser)
    if view.error:
        return int(view.error)
    reader = _Reader(view)
    try:
        for byte in w.read(text, length) if length else b"":
            reader.take(byte)
    except _RefusedError as refusal:
        view.error = refusal.args[0]
        return int(view.error)
    reader.save()
    return 0
