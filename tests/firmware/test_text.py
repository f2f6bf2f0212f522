"""Small writers and readers of texts."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware.text import put_decimal, put_escaped, put_hex, take_decimal, take_token
from tests.support.lab import Lab

LAB = Lab(put_decimal, put_escaped, put_hex, take_decimal, take_token)
NUMBERS = [0, 1, 9, 10, 65535, 4294967295, 10**19, 2**64 - 1]


def written(routine, **inputs):
    """Run a writer; return its text."""
    text = LAB.machine.alloc(512)
    end = LAB.call(routine, text=text, **inputs).outputs["rdi"]
    return LAB.machine.read(text, end - text)


@pytest.fixture(autouse=True)
def _fresh():
    LAB.reset()


@pytest.mark.parametrize("value", NUMBERS)
def test_put_decimal_writes_what_python_prints(value):
    assert written(put_decimal, value=value) == str(value).encode()


@pytest.mark.parametrize("value", [0, 0x3FA2C1D0, 0xFFFFFFFF, 0x0123ABCD])
def test_put_hex_writes_eight_small_digits(value):
    assert written(put_hex, value=value) == b"%08x" % value


@pytest.mark.parametrize(
    ("raw", "made"),
    [(b"", b""), (b'a"b', b'a\\"b'), (b"\\", b"\\\\"), (b"\0\x1f \x7f", b"\\u0000\\u001f \x7f")],
)
def test_put_escaped_touches_what_a_string_may_not_hold(raw, made):
    assert written(put_escaped, source=LAB.put(raw), length=len(raw)) == made


@given(value=st.text(alphabet=st.characters(max_codepoint=0x2FF), max_size=40))
@settings(max_examples=60, deadline=None)
def test_what_put_escaped_writes_is_read_as_the_same_by_a_json_parser(value):
    LAB.reset()
    raw = value.encode()
    made = written(put_escaped, source=LAB.put(raw), length=len(raw))
    assert json.loads(b'"' + made + b'"') == value


@pytest.mark.parametrize(
    ("text", "skipped", "token"),
    [
        (b"", 0, 0),
        (b" ", 1, 0),
        (b" \t ", 3, 0),
        (b"a", 0, 1),
        (b"abc", 0, 3),
        (b"abc def", 0, 3),
        (b"  abc\tdef", 2, 3),
        (b"\t abc", 2, 3),
    ],
)
def test_take_token_skips_blanks(text, skipped, token):
    at = LAB.put(text)
    out = LAB.call(take_token, at=at, end=at + len(text)).outputs
    assert (out["rsi"] - at, out["ecx"]) == (skipped, token)


def test_take_token_reads_no_further_than_the_end():
    at = LAB.put(b"abc def")
    assert LAB.call(take_token, at=at, end=at + 2).outputs["ecx"] == 2
    assert LAB.call(take_token, at=at + 3, end=at).outputs["ecx"] == 0


@pytest.mark.parametrize("value", NUMBERS)
def test_take_decimal_reads_what_python_prints(value):
    text = str(value).encode()
    out = LAB.call(take_decimal, text=LAB.put(text), length=len(text)).outputs
    assert (out["cf"], out["rax"]) == (0, value)


@pytest.mark.parametrize(
    "text",
    [b"", b"a", b"1a", b"-1", b"+1", b" 1", b"1 ", b"1/", b"1:", b"18446744073709551616",
     b"99999999999999999999", b"184467440737095516150"],
)  # fmt: skip
def test_take_decimal_refuses_what_is_no_number(text):
    out = LAB.call(take_decimal, text=LAB.put(text), length=len(text)).outputs
    assert (out["cf"], out["rax"]) == (1, 0)
