"""The envelope parser against Python's json, over every cut, and what it keeps."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware.layouts import json as layout
from firmware.layouts.json import JsonField, JsonKind, JsonState
from tests.support.json_parser import READY, Parser


def parse(text):
    parser = Parser()
    parser.feed(text)
    return parser


def check_ready(parser):
    assert parser.view.state == JsonState.END
    assert (parser.kind(JsonField.OP), parser.value(JsonField.OP)) == (JsonKind.INTEGER, 0)
    assert (parser.kind(JsonField.S), parser.value(JsonField.S)) == (JsonKind.INTEGER, 1)
    assert parser.text(JsonField.T, "t") == b"READY"
    assert parser.kind(JsonField.D) == JsonKind.OBJECT
    assert parser.text(JsonField.SESSION_ID, "session_id") == b"4e2e56c2d3b7"
    assert parser.text(JsonField.RESUME_URL, "resume_url").startswith(b"wss://gateway-us")
    assert (parser.value(JsonField.SHARD_ID), parser.value(JsonField.SHARD_TOTAL)) == (3, 16)
    assert parser.text(JsonField.USER_ID, "user_id") == b"81384788765712384"
    assert parser.kind(JsonField.SHARD_MORE) == JsonKind.ABSENT
    assert parser.kind(JsonField.HEARTBEAT_INTERVAL) == JsonKind.ABSENT


def test_json_feed_ready_at_every_other_cut():
    parser = Parser()
    for cut in range(0, len(READY) + 1, 2):
        parser.again()
        assert parser.feed(READY[:cut]) == 0
        assert parser.feed(READY[cut:]) == 0
        check_ready(parser)


def test_json_feed_ready_byte_by_byte():
    parser = Parser()
    for n in range(len(READY)):
        assert parser.feed(READY[n : n + 1]) == 0
    check_ready(parser)


@pytest.mark.parametrize("order", ["op s t d", "d t s op", "d op s t", "t d op s"])
def test_json_feed_any_order_of_keys(order):
    whole = json.loads(READY)
    parser = parse(json.dumps({key: whole[key] for key in order.split()}).encode())
    check_ready(parser)


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        (b'{"op":11}', {"OP": "INTEGER"}),
        (b'{"op":9,"d":false}', {"OP": "INTEGER", "D": "FALSE"}),
        (b'{"d":true,"op":9}', {"OP": "INTEGER", "D": "TRUE"}),
        (b'{"op":1,"d":null,"s":null,"t":null}', {"D": "NULL", "S": "NULL", "T": "NULL"}),
        (b'{"op":"0"}', {"OP": "STRING"}),
        (b'{"op":1.0}', {"OP": "DECIMAL"}),
        (b'{"op":1e0}', {"OP": "NUMBER"}),
        (b'{"op":-1}', {"OP": "NUMBER"}),
        (b'{"op":-0}', {"OP": "NUMBER"}),
        (b'{"op":[]}', {"OP": "ARRAY"}),
        (b'{"op":{}}', {"OP": "OBJECT"}),
        (b'{"s":4294967295}', {"S": "INTEGER"}),
        (b'{"s":4294967296}', {"S": "NUMBER"}),
        (b'{"s":99999999999999999999999999}', {"S": "NUMBER"}),
        (b'{"d":{"shard":"x"}}', {"SHARD": "STRING", "SHARD_ID": "ABSENT"}),
        (b'{"d":{"shard":[[1,2],3]}}', {"SHARD_ID": "ARRAY", "SHARD_TOTAL": "ABSENT"}),
        (b'{"d":{"shard":[1,2,3]}}', {"SHARD_MORE": "INTEGER"}),
        (b'{"d":{"shard":[1,2,3,4,5]}}', {"SHARD_MORE": "INTEGER"}),
        (b'{"d":{"shard":[1]}}', {"SHARD_ID": "INTEGER", "SHARD_TOTAL": "ABSENT"}),
        (b'{"d":[{"session_id":"x"}]}', {"SESSION_ID": "ABSENT", "D": "ARRAY"}),
        (b'{"e":{"session_id":"x"}}', {"SESSION_ID": "ABSENT"}),
        (b'{"e":{"a":{}},"d":{"session_id":"x"}}', {"SESSION_ID": "STRING"}),
        (b'{"d":{},"e":{"session_id":"x"}}', {"SESSION_ID": "ABSENT"}),
        (b'{"d":{"a":{"session_id":"x"}}}', {"SESSION_ID": "ABSENT"}),
        (b'{"d":{"op":3},"x":{"op":4}}', {"OP": "ABSENT"}),
        (b'{"\\u006fp":2}', {"OP": "INTEGER"}),
        (b'{"op\\u0000":2}', {"OP": "ABSENT"}),
        (b'{"op\\u00e9":2,"op\\n":1,"opp":1,"o":1,"":1}', {"OP": "ABSENT"}),
        (b'{"heartbeat_interval":1}', {"HEARTBEAT_INTERVAL": "ABSENT"}),
        (b'{"d":{"heartbeat_interval":41250}}', {"HEARTBEAT_INTERVAL": "INTEGER"}),
        (b'{"d":{"resume_gateway_xxx":1}}', {"RESUME_URL": "ABSENT"}),
        (b'{"d":{"heartbeat_intervxx":1}}', {"HEARTBEAT_INTERVAL": "ABSENT"}),
        (b'{"d":{"heartbeat_intervalxxxxxxxxxxxxxxxx":1}}', {"HEARTBEAT_INTERVAL": "ABSENT"}),
        (
            b'{"d":{"opcode":8,"retry_after":30}}',
            {"RATE_OPCODE": "INTEGER", "RETRY_AFTER": "INTEGER"},
        ),
        (b'{"d":{"user":{"id":"1"}}}', {"USER": "OBJECT", "USER_ID": "STRING"}),
        (b'{"d":{"user":{"id":1},"id":"2"}}', {"USER": "OBJECT", "USER_ID": "INTEGER"}),
        (b'{"d":{"user":null,"id":"2"}}', {"USER": "NULL", "USER_ID": "ABSENT"}),
        (b'{"d":{"user":[{"id":"2"}]}}', {"USER": "ARRAY", "USER_ID": "ABSENT"}),
        (b'{"d":{"user":{"a":{"id":"2"}}}}', {"USER": "OBJECT", "USER_ID": "ABSENT"}),
        (b'{"d":{"user":{"a":[{"id":"2"}]}}}', {"USER": "OBJECT", "USER_ID": "ABSENT"}),
        (b'{"d":{"user":{"idx":"2","i":"3"}}}', {"USER_ID": "ABSENT"}),
        (b'{"d":{"a":{"id":"2"},"user":{}}}', {"USER": "OBJECT", "USER_ID": "ABSENT"}),
        (b'{"d":{"user":{},"a":{"id":"2"}}}', {"USER": "OBJECT", "USER_ID": "ABSENT"}),
        (b'{"user":{"id":"2"},"id":"3"}', {"USER": "ABSENT", "USER_ID": "ABSENT"}),
        (b'{"d":{"user":{"a":{}},"opcode":8}}', {"USER": "OBJECT", "RATE_OPCODE": "INTEGER"}),
        (
            b'{"opcode":8,"e":{"retry_after":30}}',
            {"RATE_OPCODE": "ABSENT", "RETRY_AFTER": "ABSENT"},
        ),
    ],
)
def test_json_feed_kinds(text, kinds):
    parser = parse(text)
    assert parser.view.state == JsonState.END
    assert {name: parser.kind(JsonField[name]).name for name in kinds} == kinds


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("30.5", JsonKind.DECIMAL, 30_500),
        ("0.0", JsonKind.DECIMAL, 0),
        ("0.07", JsonKind.DECIMAL, 70),
        ("29.4399999", JsonKind.DECIMAL, 29_439),
        ("4294967.295", JsonKind.DECIMAL, 2**32 - 1),
        ("4294967.296", JsonKind.NUMBER, 0),
        ("4294967295.9", JsonKind.NUMBER, 0),
        ("4294967296.5", JsonKind.NUMBER, 0),
        ("-1.5", JsonKind.NUMBER, 0),
        ("1.5e1", JsonKind.NUMBER, 0),
        ("1e1", JsonKind.NUMBER, 0),
    ],
)
def test_json_feed_fractions_count_in_thousandths(text, kind, value):
    whole = f'{{"d":{{"retry_after":{text}}}}}'.encode()
    for cut in range(len(whole)):
        parser = Parser()
        parser.feed(whole[:cut])
        parser.feed(whole[cut:])
        assert (parser.kind(JsonField.RETRY_AFTER), parser.value(JsonField.RETRY_AFTER)) == (
            kind, value,
        )  # fmt: skip


@settings(max_examples=80, deadline=None)
@given(thousandths=st.integers(0, 2**33), digits=st.text("0123456789", max_size=6))
def test_json_feed_any_decimal_is_cut_to_thousandths(thousandths, digits):
    parser = parse(
        b'{"d":{"retry_after":%d.%03d%s}}' % (*divmod(thousandths, 1000), digits.encode())
    )
    fits = thousandths < 2**32
    assert parser.kind(JsonField.RETRY_AFTER) == (JsonKind.DECIMAL if fits else JsonKind.NUMBER)
    assert parser.value(JsonField.RETRY_AFTER) == (thousandths if fits else 0)


@pytest.mark.parametrize("length", [0, 1, 63, 64, 65, 200])
def test_json_feed_long_text_is_counted_not_stored(length):
    parser = parse(b'{"t":"' + b"x" * length + b'","op":0}')
    assert parser.value(JsonField.T) == min(length, 65)
    assert bytes(parser.view.t[: min(length, 64)]) == b"x" * min(length, 64)
    assert bytes(parser.view.session_id[:1]) == b"\xa5", "what lies behind is untouched"


def test_json_feed_escapes_in_kept_text():
    parser = parse(rb'{"t":"\"\\\/\b\f\n\r\t\u0041\u00e9\ud83d\u0000\u007f\u0080z\u000A"}')
    assert parser.text(JsonField.T, "t") == b'"\\/\b\f\n\r\tA\xff\xff\xff\x7f\xffz\n'


@pytest.mark.parametrize("key", ["op", "s", "t", "d"])
def test_json_feed_a_kept_key_twice_is_refused(key):
    error = Parser().feed(f'{{"{key}":1,"{key}":2}}'.encode())
    assert error == layout.DUPLICATE_KEY.code | JsonField[key.upper()]


def test_json_feed_a_second_user_or_id_of_it_is_refused():
    error = Parser().feed(b'{"d":{"user":{},"user":{}}}')
    assert error == layout.DUPLICATE_KEY.code | JsonField.USER
    error = Parser().feed(b'{"d":{"user":{"id":"1","id":"2"}}}')
    assert error == layout.DUPLICATE_KEY.code | JsonField.USER_ID


@pytest.mark.parametrize(
    "value", ['"x"', "{}", "[]", "true", "false", "null", "1", "-1"]
)  # each way a value begins
def test_json_feed_second_value_of_any_kind_is_refused(value):
    error = Parser().feed(f'{{"d":null,"d":{value}}}'.encode())
    assert error == layout.DUPLICATE_KEY.code | JsonField.D


def test_json_feed_depth_is_bounded():
    text = b'{"d":' + b"[" * 63
    assert Parser().feed(text + b"]" * 63 + b"}") == 0
    assert Parser().feed(text + b"[") == layout.TOO_DEEP.code
    assert Parser().feed(b'{"a":' * 65) == layout.TOO_DEEP.code


@pytest.mark.parametrize("text", [b'{"a":[1}}', b'{"a":{"b":1]}', b"{]", b'{"a":[}'])
def test_json_feed_brackets_must_match(text):
    assert Parser().feed(text) & 0xFFFF_0000 == layout.SYNTAX.code


@pytest.mark.parametrize("tail", [rb"\n", rb"\u0041"])
def test_json_feed_escapes_beyond_the_room_are_counted(tail):
    for size in (63, 64, 65):
        parser = parse(b'{"t":"' + b"x" * size + tail + b'"}')
        assert parser.value(JsonField.T) == min(size + 1, 65)


def test_json_feed_a_refusal_stays():
    parser = Parser()
    error = parser.feed(b'{"op":01}')
    assert error == layout.SYNTAX.code | JsonState.ZERO
    assert parser.feed(b'{"op":1}') == error


def test_json_feed_nothing_is_fine():
    parser = Parser()
    assert parser.feed(b"") == 0
    assert parser.view.state == JsonState.START


@pytest.mark.parametrize("at", range(40))
@pytest.mark.parametrize("what", [b'"', b"\\n", b"\x1f", b" "])
def test_json_feed_long_strings_end_where_they_end(at, what):
    """The fast way through strings stops at each special byte, at each place in a register."""
    text = b'{"x":"' + b"y" * at + what + b'z"}'
    assert bool(parse(text).view.error) == (what in (b'"', b"\x1f"))


@pytest.mark.parametrize("length", [15, 16, 17, 31, 32, 48])
@pytest.mark.parametrize("depth", [1, 3])
def test_json_feed_part_that_ends_inside_a_string_reads_nothing_behind_it(length, depth):
    """A skip of sixteen bytes may end exactly where the part does."""
    parser = Parser()
    assert parser.feed(b'{"x":' * depth + b'"') == 0
    assert parser.feed(b"y" * length) == 0
    assert parser.view.state == JsonState.STRING
    assert parser.feed(b'z"' + b"}" * depth) == 0
    assert parser.view.depth == 0


def strict(text):
    """Tell whether the text is an object for a strict parser."""

    def refuse(_constant):
        raise ValueError

    try:
        return isinstance(json.loads(text.decode(), parse_constant=refuse), dict)
    except (ValueError, RecursionError):
        return False


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)  # fmt: skip


@settings(max_examples=120, deadline=None)
@given(
    value=st.dictionaries(st.sampled_from(["op", "s", "t", "d", "x", "é"]), VALUES, max_size=4),
    ascii_=st.booleans(),
    indent=st.sampled_from([None, 1]),
    cut=st.integers(0, 200),
)
def test_json_feed_whatever_python_writes_is_taken(value, ascii_, indent, cut):
    text = json.dumps(value, ensure_ascii=ascii_, indent=indent).encode()
    parser = Parser()
    assert parser.feed(text[:cut]) == 0
    assert parser.feed(text[cut:]) == 0
    assert parser.view.state == JsonState.END


ALPHABET = st.sampled_from([*'{}[]:,"\\/ \t\n\x01-+.0123eEaAbBfunlrstdop', "true", "null", "é"])


@settings(max_examples=200, deadline=None)
@given(
    start=st.sampled_from(['{"a":', '{"d":{"shard":[', '{"d":[', "{", '{"t":"', '{"op":1']),
    rest=st.lists(ALPHABET, max_size=14).map("".join),
    end=st.sampled_from(["", "}", "}}", "]}", "]}}", '"}']),
)
def test_json_feed_accepts_exactly_what_a_strict_parser_accepts(start, rest, end):
    text = (start + rest + end).encode()
    parser = parse(text)
    whole = not parser.view.error and parser.view.state == JsonState.END
    if parser.view.error & 0xFFFF_0000 == layout.DUPLICATE_KEY.code:
        return
    assert whole == strict(text)
