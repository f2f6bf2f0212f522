"""Subjects, keys and lines of NATS, one by one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.simulation.nats.auth import nkey_bytes, nkey_text
from emulator.simulation.nats.protocol import Command, Parser, header_block, header_value
from emulator.simulation.nats.subjects import collide, matches, valid
from tests.support.nats_script import cas, hpub, pub

TOKENS = st.lists(st.sampled_from(["a", "b", "*"]), min_size=1, max_size=4)


@pytest.mark.parametrize(
    ("pattern", "subject", "wanted"),
    [
        ("a.b", "a.b", True), ("a.b", "a.c", False), ("a.*", "a.b", True), ("a.*", "a", False),
        ("a.*", "a.b.c", False), ("a.>", "a.b.c", True), ("a.>", "a", False), (">", "a", True),
        ("*.b", "a.b", True), ("*", "a.b", False),
    ],
)  # fmt: skip
def test_matches(pattern, subject, wanted):
    assert matches(pattern, subject) is wanted


@given(TOKENS, TOKENS, st.lists(st.sampled_from("ab"), min_size=1, max_size=4))
def test_patterns_with_a_subject_in_common_collide(one, other, subject):
    text = ".".join(subject)
    if matches(".".join(one), text) and matches(".".join(other), text):
        assert collide(".".join(one), ".".join(other))


@pytest.mark.parametrize("bad", ["", "a.", ".a", "a..b", "a.>.b", "a b"])
def test_subjects_that_are_none(bad):
    assert not valid(bad)


def test_an_nkey_of_the_documentation():
    text = "UB2DMS2NCEO53QQ45DTHCVXGR4UDGY3HQD4ZD5ATKXL7Y4XRSCJ2TF5F"
    assert nkey_text(nkey_bytes(text)) == text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("U!", "is no nkey"),
        ("UB2DMS2NCEO53QQ45DTHCVXGR4UDGY3HQD4ZD5ATKXL7Y4XRSCJ2TF5G", "its checksum is wrong"),
        ("AB2DMS2NCEO53QQ45DTHCVXGR4UDGY3HQD4ZD5ATKXL7Y4XRSCJ2TF5F", "no user's public nkey"),
    ],
)
def test_texts_that_are_no_nkey(text, says):
    with pytest.raises(ValueError, match=says):
        nkey_bytes(text)


@given(st.data())
def test_words_split_anywhere_are_the_same_words(data):
    said = cas("a.b", 7, b"body\r\n", "r") + pub("x", b"1") + b"SUB a.> 5\r\nping\r\n"
    said += hpub("h", b"", Nats_Msg_Id="1") + b"UNSUB 5 1\r\n"
    whole = list(Parser(1000).feed(said))
    assert [each.verb for each in whole] == ["PUB", "PUB", "SUB", "PING", "PUB", "UNSUB"]
    parser, start = Parser(1000), 0
    found: list[Command] = []
    for end in [*sorted(data.draw(st.lists(st.integers(0, len(said))))), len(said)]:
        found += parser.feed(said[start:end])
        start = end
    assert found == whole


def test_a_header_has_values():
    block = header_block("503", Nats_Subject="x")
    assert block == b"NATS/1.0 503\r\nNats-Subject: x\r\n\r\n"
    assert header_value(block, "Nats-Subject") == "x"
    assert header_value(block, "Nats-Msg-Id") is None
    assert header_value(None, "x") is None
