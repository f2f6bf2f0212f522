"""The times of certificates: the real calendar, and nothing that a strict reader refuses."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware.x509.time import x509_time
from tests.support.lab import Lab

LAB = Lab(x509_time, slots=0)
UTC_TAG, GENERAL_TAG = 0x17, 0x18
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def seconds(text, tag, *, first=False):
    LAB.reset()
    at = LAB.put(text, first=first)
    got = LAB.call(x509_time, contents=at, end=at + len(text), tag=tag).outputs
    if got["cf"]:
        assert got["rax"] == 0
        return None
    return got["rax"] - (got["rax"] >> 63 << 64)


@pytest.mark.parametrize(
    ("tag", "text", "wanted"),
    [
        (UTC_TAG, b"700101000000Z", 0),
        (UTC_TAG, b"691231235959Z", -1),
        (UTC_TAG, b"500101000000Z", -631152000),
        (UTC_TAG, b"491231235959Z", 2524607999),
        (UTC_TAG, b"000229000000Z", 951782400),
        (UTC_TAG, b"260712101112Z", 1783851072),
        (GENERAL_TAG, b"20500101000000Z", 2524608000),
        (GENERAL_TAG, b"99991231235959Z", 253402300799),
        (GENERAL_TAG, b"24000229000000Z", 13574563200),
        (GENERAL_TAG, b"20491231235959Z", None),  # this one is written in two digits
        (GENERAL_TAG, b"00700101000000Z", None),
        (GENERAL_TAG, b"21000229000000Z", None),
        (GENERAL_TAG, b"205001010000Z", None),
        (GENERAL_TAG, b"20500101000000.0Z", None),
        (GENERAL_TAG, b"700101000000Z", None),
        (UTC_TAG, b"20500101000000Z", None),
        (UTC_TAG, b"010229000000Z", None),
        (UTC_TAG, b"010431000000Z", None),
        (UTC_TAG, b"010001000000Z", None),
        (UTC_TAG, b"011301000000Z", None),
        (UTC_TAG, b"010100000000Z", None),
        (UTC_TAG, b"010101240000Z", None),
        (UTC_TAG, b"010101006000Z", None),
        (UTC_TAG, b"010101000060Z", None),
        (UTC_TAG, b"010101000000z", None),
        (UTC_TAG, b"0101010000Z", None),  # no seconds
        (UTC_TAG, b"0101010000+0100", None),
        (UTC_TAG, b"01010100000/Z", None),
        (UTC_TAG, b"0101010000:0Z", None),
        (UTC_TAG, b"-10101000000Z", None),
        (UTC_TAG, b"", None),
        (0x13, b"700101000000Z", None),
    ],
)
def test_x509_time(tag, text, wanted):
    assert seconds(text, tag) == wanted


@settings(max_examples=80)
@given(
    when=st.datetimes(datetime(1950, 1, 1), datetime(9999, 12, 31), timezones=st.just(UTC)),
    first=st.booleans(),
)
def test_x509_time_every_date_of_the_calendar(when, first):
    when = when.replace(microsecond=0)
    short = when.year < 2050
    text = when.strftime("%y%m%d%H%M%SZ" if short else "%Y%m%d%H%M%SZ").encode()
    got = seconds(text, UTC_TAG if short else GENERAL_TAG, first=first)
    assert EPOCH + timedelta(seconds=got) == when


@settings(max_examples=60)
@given(data=st.data(), tag=st.sampled_from([UTC_TAG, GENERAL_TAG]))
def test_x509_time_any_damage_matches_the_model(data, tag):
    raw = bytearray(b"240229235959Z" if tag == UTC_TAG else b"21240229235959Z")
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(raw) - 1))
        raw[at] = data.draw(st.one_of(st.integers(0x2F, 0x3A), st.integers(0, 255)))
    seconds(bytes(raw[: data.draw(st.integers(0, len(raw)))]), tag)
    seconds(bytes(raw), tag)
