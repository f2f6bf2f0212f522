"""Bodies that are skipped: what passes is exactly the written list, however the text is cut."""

import itertools
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware.json.feed import json_feed, json_reset
from firmware.layouts import json as layout
from firmware.layouts.json import JsonBody, JsonField, JsonKind, JsonParser, JsonState
from firmware.layouts.shard import ShardContext
from tests.support.lab import INPUT_BYTES, Lab
from tests.support.skipped_body import passes

LAB = Lab(json_feed, json_reset)
HEAD = b'{"t":"MESSAGE_CREATE","op":0,"d":'
TAIL = b',"s":7}'


class Parser:
    """The parser of a shard; each part of a text lies before a page that is not mapped, or behind."""

    def __init__(self):
        LAB.reset()
        self.at = LAB.view(ShardContext, LAB.shard()).gateway.parser.address_
        LAB.call(json_reset, parser=self.at)

    @property
    def view(self):
        return LAB.view(JsonParser, self.at)

    def feed(self, text, cuts=(), *, first=False):
        """Feed a text in parts; return the last answer."""
        error = 0
        for start, end in itertools.pairwise((0, *cuts, len(text))):
            part = text[start:end]
            at = LAB.put(part, first=first)
            error = LAB.call(json_feed, parser=self.at, text=at, length=len(part)).outputs["eax"]
        return error

    def whole(self):
        return not self.view.error and self.view.state == JsonState.END

    def kind(self, field):
        return JsonKind(self.view.kinds[field])


def parse(text, cuts=(), *, first=False):
    parser = Parser()
    parser.feed(text, cuts, first=first)
    return parser


def check(text, cuts=(), *, first=False):
    """Feed a message; what is taken and kept must follow the list."""
    parser = parse(text, cuts, first=first)
    if parser.view.error & 0xFFFF_0000 == layout.DUPLICATE_KEY.code:
        return
    assert parser.whole() == passes(HEAD, text[len(HEAD) :])


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=90)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=9), inner, max_size=6),
    max_leaves=25,
)  # fmt: skip
BODIES = st.dictionaries(st.text(max_size=9), VALUES, max_size=9)
CUTS = st.lists(st.integers(0, 1500), max_size=4).map(sorted)


@settings(max_examples=60, deadline=None)
@given(
    body=BODIES,
    ascii_=st.booleans(),
    indent=st.sampled_from([None, None, 1]),
    cuts=CUTS,
    first=st.booleans(),
)
def test_skip_whatever_python_writes_is_taken(body, ascii_, indent, cuts, first):
    written = json.dumps(body, ensure_ascii=ascii_, indent=indent)
    text = (HEAD + written.encode(errors="replace") + TAIL)[:INPUT_BYTES]
    cuts = [cut for cut in cuts if cut <= len(text)]
    parser = parse(text, cuts, first=first)
    assert parser.whole()
    assert parser.kind(JsonField.D) == JsonKind.OBJECT
    assert parser.kind(JsonField.S) == JsonKind.INTEGER
    assert parser.view.body == JsonBody.OTHER


PIECES = st.sampled_from(
    [*'{}[]:,"\\\n\t\x01\x1f1-', '"a"', "{}", "[]", '\\"', "\\u00e9", "\\u00g9", "é"]
)


@settings(max_examples=120, deadline=None)
@given(
    body=BODIES,
    edits=st.lists(st.tuples(st.integers(0, 600), st.integers(0, 3), PIECES), min_size=1, max_size=3),
    cuts=CUTS,
)  # fmt: skip
def test_skip_takes_exactly_what_the_list_lets_pass(body, edits, cuts):
    text = json.dumps(body, ensure_ascii=False).encode(errors="replace")
    for at, gone, piece in edits:
        start = 1 + at % len(text)
        text = text[:start] + piece.encode() + text[start + gone :]
    text = HEAD + text + TAIL
    check(text, [cut for cut in cuts if cut <= len(text)])


@pytest.mark.parametrize("length", [1, 17, 64, 200])
def test_skip_is_cut_anywhere(length):
    body = b'{"a":"' + b"x" * 70 + rb'\"\\","b":[{},[1,{"c":"]}"}]],"d":"\u00e9"' + b" " * 40 + b"}"
    text = HEAD + body + TAIL
    for first in (False, True):
        assert parse(text, range(length, len(text), length), first=first).whole()


@pytest.mark.parametrize(
    "what", ['"', '\\"', "\\\\", "\\u0041", "\n", "\x1f", "{", "}", "]", "[]", "é"]
)
@pytest.mark.parametrize("inside", [True, False])
def test_skip_finds_each_byte_at_each_place(what, inside):
    """A block has 64 places; the last block of a text is seen from its end."""
    for at in (*range(0, 70, 6), 127, 128):
        quote = b'"' if inside else b""
        body = b'{"x":' + quote + b"7" * at + what.encode() + b"7" * 70 + quote + b"}"
        check(HEAD + body + TAIL)
        check(HEAD + body)


@pytest.mark.parametrize("pad", [0, 100])
def test_skip_depth_is_bounded(pad):
    """The body is level 2; with blanks behind it whole blocks are seen, without them bytes."""
    for deep in (62, 63):
        body = b'{"x":' + b"[" * deep + b"]" * deep + b"}"
        error = parse(
            HEAD + body + TAIL + b" " * pad, range(0, 200, 1 if not pad else 200)
        ).view.error
        assert error == (0 if deep == 62 else layout.TOO_DEEP.code)


@pytest.mark.parametrize("body", [b'{"x":[}', b'{"x":{"y":1]', b"{]", b'{"x":[1}}'])
@pytest.mark.parametrize("pad", [0, 100])
def test_skip_brackets_must_match(body, pad):
    cuts = () if pad else range(1, len(HEAD + body))
    error = parse(HEAD + body + b" " * pad, cuts).view.error
    assert error == layout.SYNTAX.code | JsonState.SKIP


def test_skip_nothing_behind_the_body_is_skipped():
    assert parse(HEAD + b"{}" + TAIL).whole()
    assert not parse(HEAD + b"{},1:1}").whole()
    assert not parse(HEAD + b'{},"x":01}').whole()
    assert parse(HEAD + b'{},"d":1}').view.error == layout.DUPLICATE_KEY.code | JsonField.D
    assert parse(HEAD + b'{},"x":{"session_id":"y"},"z":"text"}').whole()


ENVELOPES = [
    ('"t":"MESSAGE_CREATE","op":0', True),
    ('"op":0,"t":"MESSAGE_CREATE","s":1', True),
    ('"op":0,"t":""', True),
    ('"op":0,"t":"READ"', True),
    ('"op":0,"t":"READX"', True),
    ('"op":0,"t":"XEADY"', True),
    ('"op":0,"t":"READYX"', True),
    ('"op":0,"t":"RESUMED"', True),
    ('"op":0,"t":"RATE_LIMITEX"', True),
    ('"op":0,"t":"RATE_XIMITED"', True),
    ('"op":0,"t":"XATE_LIMITED"', True),
    ('"op":0,"t":"READY"', False),
    ('"op":0,"t":"READ\\u0059"', False),
    ('"op":0,"t":"RATE_LIMITED"', False),
    ('"op":1,"t":"MESSAGE_CREATE"', False),
    ('"op":0.0,"t":"MESSAGE_CREATE"', False),
    ('"op":null,"t":"MESSAGE_CREATE"', False),
    ('"op":0,"t":null', False),
    ('"op":0', False),
    ('"t":"MESSAGE_CREATE"', False),
]  # fmt: skip


@pytest.mark.parametrize(("envelope", "skipped"), ENVELOPES)
def test_skip_only_dispatches_of_which_nothing_is_kept(envelope, skipped):
    """A comma too many passes where the body is skipped, and only there; so is what could be kept."""
    fields = b'"session_id":"x","heartbeat_interval":1,"shard":[1,2]'
    parser = parse(b"{" + envelope.encode() + b',"d":{' + fields + b"}}")
    assert parser.whole()
    kept = JsonKind.ABSENT if skipped else JsonKind.STRING
    assert parser.kind(JsonField.SESSION_ID) == kept
    assert parse(b"{" + envelope.encode() + b',"d":{"a":1,}}').whole() == skipped


def test_skip_is_not_for_a_strict_parser():
    text = HEAD + b'{"a":1,}}'
    assert parse(text).whole()
    parser = Parser()
    parser.view.strict = 1
    assert parser.feed(text) == layout.SYNTAX.code | JsonState.KEY


@pytest.mark.parametrize("key", ["op", "t"])
def test_skip_needs_what_comes_before_the_body(key):
    parts = {"op": '"op":0', "t": '"t":"X"', "d": '"d":{"session_id":"x","a":1}'}
    order = [k for k in parts if k != key] + [key]
    parser = parse("{{{}}}".format(",".join(parts[k] for k in order)).encode())
    assert parser.whole()
    assert parser.kind(JsonField.SESSION_ID) == JsonKind.STRING
