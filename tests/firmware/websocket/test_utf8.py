"""UTF-8 over a stream against Python's own decoder, over every split."""

import codecs

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware.websocket.utf8 import UTF8_ACCEPT, UTF8_REJECT, utf8_check
from tests.support.lab import Lab

LAB = Lab(utf8_check)
TEXTS = [
    b"plain ASCII that is longer than two SSE registers can hold",
    "κόσμε \U0001f600 mixed with ASCII before and after it".encode(),
    "0123456789abcdeé0123456789abcdef".encode(),
    ("x" * 63 + "é" + "y" * 70 + "漢").encode(),
    b"z" * 128,
    bytes.fromhex("c0af"), bytes.fromhex("e080af"), bytes.fromhex("f08080af"),
    bytes.fromhex("eda080"), bytes.fromhex("ed9fbf"), bytes.fromhex("ee8080"),
    bytes.fromhex("f48fbfbf"), bytes.fromhex("f4908080"), bytes.fromhex("f5808080"),
    bytes.fromhex("f7bfbfbf"), bytes.fromhex("fe"), bytes.fromhex("80"), bytes.fromhex("c2"),
    bytes.fromhex("e2"), bytes.fromhex("e28082"), bytes.fromhex("f1808080"), bytes.fromhex("c280"),
]  # fmt: skip


def check(text, state=UTF8_ACCEPT):
    LAB.reset()
    where = LAB.machine.alloc(max(len(text), 1), align=1)
    LAB.machine.write(where, text)
    return LAB.call(utf8_check, text=where, length=len(text), state=state).outputs["eax"]


def verdict(text):
    """Return "whole", "open" or "bad" as Python's incremental decoder sees it."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        decoder.decode(text)
        return "open" if decoder.getstate()[0] else "whole"
    except UnicodeDecodeError:
        return "bad"


def name(state):
    return {UTF8_ACCEPT: "whole", UTF8_REJECT: "bad"}.get(state, "open")


@pytest.mark.parametrize("text", TEXTS, ids=lambda t: t[:8].hex())
def test_utf8_check_at_every_split_agrees_with_python(text):
    for at in range(len(text) + 1):
        first = check(text[:at])
        assert name(check(text[at:], first)) == verdict(text)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.text(max_size=6).map(str.encode),
            st.binary(max_size=3),
            st.sampled_from([b"a" * 17, b"a" * 64]),
        ),
        max_size=5,
    ).map(b"".join)
)
def test_utf8_check_any_bytes_agrees_with_python(text):
    state = check(text)
    if verdict(text) != "open":
        assert name(state) == verdict(text)
    else:
        # Python waits for the whole sequence where the standard already forbids its second byte.
        assert name(state) in ("open", "bad")


def test_utf8_check_a_fault_stays():
    assert check(b"fine again, and long enough for the fast path", UTF8_REJECT) == UTF8_REJECT
