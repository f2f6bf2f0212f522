"""ServerHello and HelloRetryRequest: good ones, every fault of the checklist, every cut."""

import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware.errors import describe
from firmware.layouts.tls import COOKIE_MAX, Group
from firmware.layouts.tls_arena import Place
from firmware.tls.server_hello import (
    tls_is_retry,
    tls_judge_hello,
    tls_take_retry,
    tls_take_share,
)
from tests.support.tls import TlsBench
from tests.support.tls_messages import SHARE, VERSIONS, hello, share

BENCH = TlsBench(tls_is_retry, tls_judge_hello, tls_take_retry, tls_take_share)
RETRY = hashlib.sha256(b"HelloRetryRequest").digest()


def judged(body, place=Place.SERVER_HELLO):
    return describe(BENCH.call(tls_judge_hello, **BENCH.message(body), place=place)["r9d"])


@pytest.fixture(autouse=True)
def _fresh():
    BENCH.reset()


@pytest.mark.parametrize("suite", [0x1301, 0x1302, 0x1303])
@pytest.mark.parametrize("order", [1, -1])
def test_a_good_hello_is_taken(suite, order):
    assert judged(hello(*(VERSIONS, share())[::order], suite=suite)) == "none"
    assert BENCH.tls.suite == suite
    assert BENCH.call(tls_take_share)["r9d"] == 0
    assert BENCH.tls.group == Group.X25519
    assert BENCH.arena.peer_share[:32] == SHARE


def test_a_share_of_p256_is_taken_when_we_sent_one():
    BENCH.arena.share_group = Group.SECP256R1
    assert judged(hello(VERSIONS, share(0x0017, b"\x04" + bytes(64)))) == "none"
    assert BENCH.call(tls_take_share)["r9d"] == 0
    assert BENCH.arena.peer_share[:65] == b"\x04" + bytes(64)


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (hello(), "tls.version(771)"),
        (hello(version=0x0302), "tls.version(770)"),
        (hello(random=b"r" * 24 + b"DOWNGRD\x01"), "tls.downgrade"),
        (hello(random=b"r" * 24 + b"DOWNGRD\x00"), "tls.downgrade"),
        (hello(random=b"r" * 24 + b"DOWNGRD\x02"), "tls.version(771)"),
        (hello(share(), random=b"r" * 24 + b"DOWNGRD\x01"), "tls.downgrade"),
        (hello(VERSIONS, share(), random=b"r" * 24 + b"DOWNGRD\x01"), "none"),
        (hello((43, b"\x03\x03"), share()), "tls.version_selected(771)"),
        (hello((43, b"\x7f\x1c"), share()), "tls.version_selected(32540)"),
        (hello((43, b"\x03\x04\x00"), share()), "tls.message_form(2)"),
        (hello((43, b""), share()), "tls.message_form(2)"),
        (hello(VERSIONS, share(), version=0x0304), "tls.version(772)"),
        (hello(VERSIONS, share(), version=0x0301), "tls.version(769)"),
        (hello(VERSIONS, share(), session_id=bytes(32)), "tls.session_id"),
        (hello(VERSIONS, share(), session_id=bytes(range(100, 131))), "tls.session_id"),
        (hello(VERSIONS, share(), session_id=b""), "tls.session_id"),
        (hello(VERSIONS, share(), session_id=bytes(33)), "tls.message_form(2)"),
        (hello(VERSIONS, share(), suite=0x1300), "tls.suite(4864)"),
        (hello(VERSIONS, share(), suite=0x1304), "tls.suite(4868)"),
        (hello(VERSIONS, share(), suite=0xC02F), "tls.suite(49199)"),
        (hello(VERSIONS, share(), compression=1), "tls.compression"),
        (hello(VERSIONS, share(), (16, b"\x00\x03\x02h2")), "tls.extension_misplaced(16)"),
        (hello(VERSIONS, share(), (0, b"")), "tls.extension_misplaced"),
        (hello(VERSIONS, share(), (41, b"\0\0")), "tls.extension_unsolicited(41)"),
        (hello(VERSIONS, share(), (44, b"\0\1c")), "tls.extension_unsolicited(44)"),
        (hello(VERSIONS, share(), (23, b"")), "tls.extension_unsolicited(23)"),
        (hello(VERSIONS, VERSIONS, share()), "tls.extension_twice(43)"),
        (hello(VERSIONS, share(), share()), "tls.extension_twice(51)"),
        (hello(VERSIONS, share(), tail=b"\0"), "tls.message_form(2)"),
        (hello(tail=b"\0"), "tls.message_form(2)"),
        (hello(tail=b"\0\0"), "tls.version(771)"),
    ],
)
def test_what_is_wrong_with_a_hello_is_said(body, error):
    assert judged(body) == error


def test_the_session_id_counts_in_every_byte():
    for at in range(32):
        wrong = bytearray(range(100, 132))
        wrong[at] ^= 1
        assert judged(hello(VERSIONS, share(), session_id=bytes(wrong))) == "tls.session_id"


@pytest.mark.parametrize(
    ("extensions", "error"),
    [
        ((), "tls.key_share_missing"),
        ((share(0x0017, b"\x04" + bytes(64)),), "tls.group(23)"),
        ((share(0x0018, bytes(97)),), "tls.group(24)"),
        ((share(key=bytes(31)),), "tls.key_share"),
        ((share(key=bytes(33)),), "tls.key_share"),
        ((share(key=b""),), "tls.key_share"),
        ((share(size=31),), "tls.message_form(2)"),
        ((share(size=33),), "tls.message_form(2)"),
        (((51, b"\x00\x1d\x00"),), "tls.message_form(2)"),
        (((51, b""),), "tls.message_form(2)"),
    ],
)
def test_what_is_wrong_with_a_share_is_said(extensions, error):
    assert judged(hello(VERSIONS, *extensions)) == "none"
    assert describe(BENCH.call(tls_take_share)["r9d"]) == error


def test_a_hello_cut_anywhere_is_refused():
    whole = hello(VERSIONS, share())
    for cut in range(len(whole)):
        # Without its extensions it is a whole hello of an old server.
        assert judged(whole[:cut]) == ("tls.version(771)" if cut == 70 else "tls.message_form(2)")


@settings(max_examples=60)
@given(at=st.integers(0, 200), value=st.integers(0, 255))
def test_one_changed_byte_is_judged_alike_by_both(at, value):
    BENCH.reset()
    body = bytearray(hello(VERSIONS, share()))
    body[at % len(body)] = value
    if judged(bytes(body)) == "none":
        BENCH.call(tls_take_share)


def test_only_that_random_makes_a_retry():
    for random in (RETRY, bytes(32), *(RETRY[:n] + b"\0" + RETRY[n + 1 :] for n in range(1, 31))):
        got = BENCH.call(tls_is_retry, **BENCH.message(hello(VERSIONS, random=random)))
        assert got["zf"] == (random == RETRY)
    for cut in (0, 2, 33):
        assert not BENCH.call(tls_is_retry, **BENCH.message(hello(random=RETRY)[:cut]))["zf"]
    assert BENCH.call(tls_is_retry, **BENCH.message(hello(random=RETRY)[:34]))["zf"]


def retried(*extensions, **others):
    """Return the error of a HelloRetryRequest, and the group that it asks for."""
    error = judged(hello(VERSIONS, *extensions, random=RETRY, **others), Place.RETRY)
    if error != "none":
        return error, 0
    got = BENCH.call(tls_take_retry)
    return describe(got["r9d"]), got["edx"]


def test_a_retry_asks_for_the_other_group_a_cookie_or_both():
    assert retried((51, b"\x00\x17")) == ("none", Group.SECP256R1)
    assert (BENCH.arena.retry_suite, BENCH.arena.cookie_len) == (0x1301, 0)
    BENCH.reset()
    assert retried((44, b"\x00\x03abc")) == ("none", 0)
    assert BENCH.arena.cookie[:3] == b"abc"
    BENCH.reset()
    assert retried((44, b"\x00\x03abc"), (51, b"\x00\x17"), suite=0x1303) == ("none", 0x17)
    assert (BENCH.arena.retry_suite, BENCH.arena.cookie_len) == (0x1303, 3)


def test_a_cookie_may_be_as_long_as_there_is_room():
    longest = COOKIE_MAX.to_bytes(2, "big") + b"c" * COOKIE_MAX
    assert retried((44, longest)) == ("none", 0)
    BENCH.reset()
    longer = (COOKIE_MAX + 1).to_bytes(2, "big") + b"c" * (COOKIE_MAX + 1)
    assert retried((44, longer))[0] == "tls.cookie_too_long"


@pytest.mark.parametrize(
    ("extensions", "error"),
    [
        ((), "tls.retry_unchanged"),
        (((51, b"\x00\x1d"),), "tls.group(29)"),
        (((51, b"\x00\x18"),), "tls.group(24)"),
        (((51, b"\x11\xec"),), "tls.group(4588)"),
        (((51, b"\x00"),), "tls.message_form(6)"),
        (((51, b"\x00\x17\x00"),), "tls.message_form(6)"),
        (((44, b""),), "tls.message_form(6)"),
        (((44, b"\x00"),), "tls.message_form(6)"),
        (((44, b"\x00\x00"),), "tls.message_form(6)"),
        (((44, b"\x00\x02c"),), "tls.message_form(6)"),
        (((44, b"\x00\x01cc"),), "tls.message_form(6)"),
        (((10, b"\x00\x02\x00\x17"),), "tls.extension_misplaced(10)"),
        (((5, b""),), "tls.extension_unsolicited(5)"),
    ],
)
def test_what_is_wrong_with_a_retry_is_said(extensions, error):
    assert retried(*extensions)[0] == error


def test_the_hello_after_a_retry_keeps_its_suite_and_group():
    assert retried((51, b"\x00\x17"), suite=0x1302) == ("none", 0x17)
    BENCH.arena.share_group = Group.SECP256R1
    second = hello(VERSIONS, share(0x0017, b"\x04" + bytes(64)), suite=0x1301)
    assert judged(second) == "tls.retry_suite"
    assert judged(hello(VERSIONS, share(), suite=0x1302)) == "none"
    assert describe(BENCH.call(tls_take_share)["r9d"]) == "tls.group(29)"
