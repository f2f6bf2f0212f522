"""The head of an HTTP response: its end and its status line, by pieces of any size."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware.layouts.websocket import RESPONSE_MAX
from firmware.websocket.http import http_find_end, http_status
from tests.support.lab import Lab

LAB = Lab(http_find_end, http_status)
HEAD = b"HTTP/1.1 200 OK\r\nA: b\r\n\r\n"


def find(text, scanned=0):
    LAB.reset()
    found = LAB.call(http_find_end, head=LAB.put(text), length=len(text), scanned=scanned).outputs
    return found["cf"], found["eax"]


def status(head):
    """Judge the status line of a whole head, nothing mapped behind it."""
    LAB.reset()
    at = LAB.put(head)
    found = LAB.call(http_status, head=at, last=at + head.index(b"\r\n\r\n") + 2).outputs
    return None if found["cf"] else (found["eax"], found["rsi"] - at)


def test_http_find_end_at_every_cut():
    for cut in range(len(HEAD)):
        missing, scanned = find(HEAD[:cut])
        assert missing == 1
        assert find(HEAD, scanned) == (0, len(HEAD) - 4)


@pytest.mark.parametrize("length", [RESPONSE_MAX - 1, RESPONSE_MAX, RESPONSE_MAX + 1])
def test_http_find_end_is_bounded(length):
    text = b"x" * (length - 4) + b"\r\n\r\n"
    assert (find(text)[0] == 0) == (length <= RESPONSE_MAX)


@settings(max_examples=60, deadline=None)
@given(text=st.lists(st.sampled_from([b"\r", b"\n", b"a"]), max_size=30).map(b"".join))
def test_http_find_end_any_line_ends(text):
    assert find(text)[0] == int(b"\r\n\r\n" not in text)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"HTTP/1.1 200 OK", 200),
        (b"HTTP/1.1 000", 0),
        (b"HTTP/1.1 999 ", 999),
        (b"HTTP/1.1 429 Too\tMany \xe9", 429),
        (b"HTTP/1.0 200 OK", None),
        (b"HTTP/1.1  200 OK", None),
        (b"HTTP/1.1\t200 OK", None),
        (b"HTTP/1.1 20 OK", None),
        (b"HTTP/1.1 2000", None),
        (b"HTTP/1.1 20x OK", None),
        (b"HTTP/1.1 2x0 OK", None),
        (b"HTTP/1.1 x00 OK", None),
        (b"HTTP/1.1 200\tOK", None),
        (b"HTTP/1.1 200 O\x00K", None),
        (b"HTTP/1.1 200 OK\n", None),
        (b"what?", None),
        (b"", None),
    ],
)
def test_http_status_line(line, expected):
    found = status(line + b"\r\n\r\n")
    assert found == (None if expected is None else (expected, len(line) + 2))
