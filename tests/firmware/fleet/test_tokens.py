"""Tokens: what is strict in records, and what is not in answers of a server."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware.fleet.tokens import (
    ACK,
    ack_take,
    digits_take,
    key_find,
    key_number,
    number_take,
    text_differs,
    word_take,
)
from tests.support.lab import INPUT, Lab

LAB = Lab(
    ack_take, digits_take, key_find, key_number, number_take, text_differs, word_take, slots=0
)


def take(routine, text, **more):
    """Return the outputs; nothing is mapped behind the text."""
    LAB.reset()
    at = LAB.put(text)
    found = LAB.call(routine, text=at, end=at + len(text), **more).outputs
    found["left"] = text[found["rsi"] - at :]
    return found


@pytest.mark.parametrize(
    ("text", "value", "left"),
    [
        (b"0", 0, b""),
        (b"7,", 7, b","),
        (b"20000 3", 20000, b" 3"),
        (b"9999999999999999999", 9999999999999999999, b""),
        (b"0x", 0, b"x"),
        (b"", None, b""),
        (b" 1", None, b""),
        (b"-1", None, b""),
        (b"00", None, b""),
        (b"01", None, b""),
        (b"10000000000000000000", None, b""),
        (b"/", None, b""),
        (b":", None, b""),
    ],
)
def test_digits_take(text, value, left):
    found = take(digits_take, text)
    assert found["cf"] == (value is None)
    if value is not None:
        assert (found["rax"], found["left"]) == (value, left)


@pytest.mark.parametrize(
    ("text", "value", "left"),
    [
        (b"7", 7, b""),
        (b"7 8", 7, b"8"),
        (b"7  8", 7, b" 8"),
        (b"7 ", None, b""),
        (b"7.8", None, b""),
        (b"7x", None, b""),
        (b" 7", None, b""),
        (b"", None, b""),
    ],
)
def test_number_take(text, value, left):
    found = take(number_take, text, separator=ord(" "))
    assert found["cf"] == (value is None)
    if value is not None:
        assert (found["rax"], found["left"]) == (value, left)


@pytest.mark.parametrize(
    ("text", "word", "left"),
    [
        (b"held n7", b"held", b"n7"),
        (b"!~", b"!~", b""),
        (b"a  b", b"a", b" b"),
        (b"a ", None, b""),
        (b" a", None, b""),
        (b"", None, b""),
        (b"a\x7f", None, b""),
        (b"a\x1f", None, b""),
        (b"a\xe9", None, b""),
        (b"a\r\n", None, b""),
    ],
)
def test_word_take(text, word, left):
    found = take(word_take, text, separator=ord(" "))
    assert found["cf"] == (word is None)
    if word is not None:
        at = INPUT + 0x4000 - len(text)
        assert text[found["rdi"] - at :][: found["ecx"]] == word
        assert found["left"] == left


@settings(max_examples=150, deadline=None)
@given(
    text=st.text(alphabet="019a-. \x7f", max_size=12).map(str.encode),
    separator=st.sampled_from(b" ."),
)
def test_tokens_any_text_matches_the_model(text, separator):
    take(number_take, text, separator=separator)
    take(word_take, text, separator=separator)
    take(digits_take, text)


@settings(max_examples=40, deadline=None)
@given(one=st.binary(max_size=6), other=st.binary(max_size=6), same=st.booleans())
def test_text_differs_any_texts(one, other, same):
    LAB.reset()
    other = one if same else other
    at, place = LAB.put(one), LAB.put(other, first=True)
    found = LAB.call(text_differs, text=at, size=len(one), other=place, length=len(other))
    assert found.outputs["cf"] == (one != other)


REPLY = b"$JS.ACK.KV_shardfw.8YGLel76.1.11.10.1795955268949452777.5"


def ack(reply):
    LAB.reset()
    found = LAB.call(ack_take, reply=LAB.put(reply), size=len(reply)).outputs
    return None if found["cf"] else (found["rax"], found["r10"], found["r11"])


def test_ack_take_reads_the_sequences_of_a_real_server():
    assert ack(REPLY) == (11, 10, 5)


@pytest.mark.parametrize(
    "reply",
    [
        b"",
        REPLY[: ACK.size - 1],
        REPLY[: ACK.size],
        REPLY.replace(b"shardfw", b"shardfv"),
        REPLY.replace(b"8YGLel76", b""),
        REPLY.replace(b".11.", b".0."),
        REPLY.replace(b".10.", b".0."),
        REPLY.replace(b".10.", b".x."),
        REPLY.replace(b".1.", b".."),
        REPLY + b".1",
        REPLY + b".",
        REPLY[:-2],
        REPLY.replace(b"1795", b"-1795"),
    ],
)
def test_ack_take_refuses_what_no_delivery_has(reply):
    assert ack(reply) is None


@settings(max_examples=60, deadline=None)
@given(cut=st.integers(0, len(REPLY)), more=st.sampled_from([b"", b".", b"7", b"x", b".7"]))
def test_ack_take_any_cut_matches_the_model(cut, more):
    ack(REPLY[:cut] + more)


def number(body, key=b'"seq":'):
    LAB.reset()
    at, place = LAB.put(body), LAB.put(key, first=True)
    found = LAB.call(key_number, text=at, end=at + len(body), key=place, length=len(key)).outputs
    return None if found["cf"] else found["rax"]


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b'{"stream":"KV_shardfw","seq":7}', 7),
        (b'{"stream":"KV_shardfw", "seq": 1,"duplicate": true}', 1),
        (b'{"seq":   12}', 12),
        (b'{"seq":', None),
        (b'{"seq": ', None),
        (b'{"seq":x', None),
        (b'{"se', None),
        (b"", None),
        (b'{"a":"\\"seq\\":9","seq":3}', 3),
    ],
)
def test_key_number(body, value):
    assert number(body) == value


@settings(max_examples=100, deadline=None)
@given(text=st.text(alphabet='"seq: 1', max_size=20).map(str.encode))
def test_key_number_any_text_matches_the_model(text):
    number(text)
