"""RFC 8259 as two tables: byte to class, and state with class to the next state or an action."""

import enum

from firmware.layouts.json import JsonState as S
from toolchain.layout.data import constant


class Class(enum.IntEnum):
    """What a byte is to the grammar; letters are apart where literals, escapes or digits differ."""

    CONTROL = 0
    BLANK = 1
    SPACE = 2
    QUOTE = 3
    BACKSLASH = 4
    SLASH = 5
    LEFT_BRACE = 6
    RIGHT_BRACE = 7
    LEFT_BRACKET = 8
    RIGHT_BRACKET = 9
    COLON = 10
    COMMA = 11
    MINUS = 12
    PLUS = 13
    POINT = 14
    ZERO = 15
    DIGIT = 16
    A = 17
    B = 18
    HEX = 19
    E = 20
    BIG_E = 21
    F = 22
    L = 23
    N = 24
    R = 25
    S = 26
    T = 27
    U = 28
    OTHER = 29


class Action(enum.IntEnum):
    """What a byte does beyond a change of state; numbered after the states."""

    ERROR = 40
    QUOTE = 41
    KEY = 42
    STRING = 43
    COMMA = 44
    DIGIT = 45
    NUMBER = 46
    NUMBER_END = 47
    OBJECT = 48
    END_OBJECT = 49
    ARRAY = 50
    END_ARRAY = 51
    TRUE = 52
    FALSE = 53
    NULL = 54
    ESCAPED = 55
    UNICODE = 56
    HEX = 57
    HEX_LAST = 58
    NOT_INTEGER = 59
    FRACTION = 60
    OPEN = 61
    CLOSE = 62


COLUMNS = 32
FIRST_ACTION = Action.ERROR
_BY_BYTE = {
    0x09: Class.BLANK, 0x0A: Class.BLANK, 0x0D: Class.BLANK, 0x20: Class.SPACE,
    **{ord(c): k for c, k in zip('"\\/{}[]:,-+.0', list(Class)[3:16], strict=True)},
    **dict.fromkeys(b"123456789", Class.DIGIT),
    **dict.fromkeys(b"cdABCDF", Class.HEX),
    ord("a"): Class.A, ord("b"): Class.B, ord("e"): Class.E, ord("E"): Class.BIG_E,
    ord("f"): Class.F, ord("l"): Class.L, ord("n"): Class.N, ord("r"): Class.R,
    ord("s"): Class.S, ord("t"): Class.T, ord("u"): Class.U,
}  # fmt: skip


def class_of(byte: int) -> Class:
    """Return the class of a byte."""
    return _BY_BYTE.get(byte, Class.CONTROL if byte < 0x20 else Class.OTHER)


Row = dict[Class, int]
_C = Class


def _row(state: S, *parts: Row) -> Row:
    """Join parts; blanks keep the state outside of tokens."""
    row: Row = dict.fromkeys((_C.BLANK, _C.SPACE), state)
    for part in parts:
        row |= part
    return row


_VALUE: Row = {
    _C.QUOTE: Action.STRING, _C.LEFT_BRACE: Action.OBJECT, _C.LEFT_BRACKET: Action.ARRAY,
    _C.T: Action.TRUE, _C.F: Action.FALSE, _C.N: Action.NULL,
    **dict.fromkeys((_C.MINUS, _C.ZERO, _C.DIGIT), Action.NUMBER),
}  # fmt: skip
_HEX_CLASSES = (_C.ZERO, _C.DIGIT, _C.A, _C.B, _C.HEX, _C.E, _C.BIG_E, _C.F)
_DIGITS = (_C.ZERO, _C.DIGIT)
_NUMBER_END: Row = dict.fromkeys(
    (_C.BLANK, _C.SPACE, _C.COMMA, _C.RIGHT_BRACE, _C.RIGHT_BRACKET), Action.NUMBER_END
)
_EXPONENT: Row = dict.fromkeys((_C.E, _C.BIG_E), Action.NOT_INTEGER)
_NOT_INTEGER: Row = dict.fromkeys((_C.POINT, _C.E, _C.BIG_E), Action.NOT_INTEGER)
RULES: dict[S, Row] = {
    S.START: _row(S.START, {_C.LEFT_BRACE: Action.OBJECT}),
    S.END: _row(S.END),
    S.VALUE: _row(S.VALUE, _VALUE),
    S.ARRAY_FIRST: _row(S.ARRAY_FIRST, _VALUE, {_C.RIGHT_BRACKET: Action.END_ARRAY}),
    S.OBJECT_FIRST: _row(S.OBJECT_FIRST, {_C.QUOTE: Action.KEY, _C.RIGHT_BRACE: Action.END_OBJECT}),
    S.KEY: _row(S.KEY, {_C.QUOTE: Action.KEY}),
    S.COLON: _row(S.COLON, {_C.COLON: S.VALUE}),
    S.AFTER: _row(
        S.AFTER,
        {_C.COMMA: Action.COMMA, _C.RIGHT_BRACE: Action.END_OBJECT},
        {_C.RIGHT_BRACKET: Action.END_ARRAY},
    ),
    S.STRING: {
        **{c: S.STRING for c in Class if c not in (_C.CONTROL, _C.BLANK)},
        _C.QUOTE: Action.QUOTE,
        _C.BACKSLASH: S.ESCAPE,
    },
    S.SKIP: {
        **{c: S.SKIP for c in Class if c not in (_C.CONTROL, _C.BACKSLASH)},
        _C.QUOTE: S.STRING,
        **dict.fromkeys((_C.LEFT_BRACE, _C.LEFT_BRACKET), Action.OPEN),
        **dict.fromkeys((_C.RIGHT_BRACE, _C.RIGHT_BRACKET), Action.CLOSE),
    },
    S.ESCAPE: {
        **dict.fromkeys(
            (_C.QUOTE, _C.BACKSLASH, _C.SLASH, _C.B, _C.F, _C.N, _C.R, _C.T), Action.ESCAPED
        ),
        _C.U: Action.UNICODE,
    },
    **{s: dict.fromkeys(_HEX_CLASSES, Action.HEX) for s in (S.HEX_1, S.HEX_2, S.HEX_3)},
    S.HEX_4: dict.fromkeys(_HEX_CLASSES, Action.HEX_LAST),
    S.MINUS: {_C.ZERO: S.ZERO, _C.DIGIT: Action.DIGIT},
    S.ZERO: _NUMBER_END | _NOT_INTEGER,
    S.INTEGER: _NUMBER_END | _NOT_INTEGER | dict.fromkeys(_DIGITS, Action.DIGIT),
    S.POINT: dict.fromkeys(_DIGITS, Action.FRACTION),
    S.FRACTION: _NUMBER_END | _EXPONENT | dict.fromkeys(_DIGITS, Action.FRACTION),
    S.EXPONENT: {
        **dict.fromkeys((_C.PLUS, _C.MINUS), S.EXPONENT_SIGN),
        **dict.fromkeys(_DIGITS, S.EXPONENT_DIGITS),
    },
    S.EXPONENT_SIGN: dict.fromkeys(_DIGITS, S.EXPONENT_DIGITS),
    S.EXPONENT_DIGITS: _NUMBER_END | dict.fromkeys(_DIGITS, S.EXPONENT_DIGITS),
    S.TRUE_R: {_C.R: S.TRUE_U},
    S.TRUE_U: {_C.U: S.TRUE_E},
    S.TRUE_E: {_C.E: S.AFTER},
    S.FALSE_A: {_C.A: S.FALSE_L},
    S.FALSE_L: {_C.L: S.FALSE_S},
    S.FALSE_S: {_C.S: S.FALSE_E},
    S.FALSE_E: {_C.E: S.AFTER},
    S.NULL_U: {_C.U: S.NULL_L},
    S.NULL_L: {_C.L: S.NULL_L2},
    S.NULL_L2: {_C.L: S.AFTER},
}

CLASS_TABLE = constant("json_classes", bytes(map(class_of, range(256))), "class of each byte")
RULE_TABLE = constant(
    "json_rules",
    bytes(RULES[s].get(Class(c), Action.ERROR) if c < len(Class) else Action.ERROR
          for s in S for c in range(COLUMNS)),
    "next state or action by state * 32 + class",
)  # fmt: skip
