"""Records of sessions: what is asked and written byte for byte, and what a record may say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmware.layouts.bus import LinkState
from firmware.layouts.config import CONFIG
from firmware.layouts.fleet import FLEET_OUT, KEY_MAX, VALUE_MAX
from firmware.layouts.fleet_config import FLEET_CONFIG, NAME_MAX
from firmware.layouts.handover import ASK_MAX, HANDOVER
from firmware.layouts.shard import SSES_VALID, ShardContext
from firmware.limits import RESUME_HOST_MAX, SESSION_ID_MAX
from firmware.node.handover_text import (
    session_ask,
    session_key,
    session_parse,
    session_put_url,
    session_text,
)
from tests.support.bus import BusBench
from tests.support.fleet import name_node

BENCH = BusBench(session_ask, session_key, session_parse, session_put_url, session_text)
LAB = BENCH.lab
BIG = 2**32 - 1
GOOD = b"1 3 16 77 5f2c8e0a9b wss://gateway-us-east1-b.discord.gg"


@pytest.fixture(autouse=True)
def node():
    BENCH.reset()
    name_node(LAB)
    LAB.g(CONFIG).gateway_secure = 1


def shard(session_id=b"5f2c8e0a9b", host=b"gateway-us-east1-b.discord.gg", port=443, **fields):
    made = LAB.view(ShardContext, BENCH.shards[1])
    made.shard_id, made.shard_total, made.events.fence = 7, 16, 3
    session = made.session
    session.valid = SSES_VALID
    session.session_id_len, session.resume_host_len = len(session_id), len(host)
    session.session_id[: len(session_id)], session.resume_host[: len(host)] = session_id, host
    session.resume_port = port
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def record():
    out = LAB.g(FLEET_OUT)
    return bytes(out.key[: out.key_len]), bytes(out.value[: out.value_len])


def write(made, sequence=77, live=1):
    LAB.call(session_key, shard=made.address_)
    LAB.call(session_text, shard=made.address_, sequence=sequence, live=live)
    return record()


def test_a_record_is_what_others_expect():
    assert write(shard()) == (b"$KV.shardfw.b1.sess.7", GOOD)


def test_a_record_without_a_session_says_so():
    assert write(shard(), live=0)[1] == b"1 3 16 0 - -"


@pytest.mark.parametrize(
    ("secure", "host", "port", "url"),
    [
        (1, b"", 443, b"-"),
        (1, b"gw", 443, b"wss://gw"),
        (1, b"gw", 80, b"wss://gw:80"),
        (0, b"gw", 80, b"ws://gw"),
        (0, b"10.0.0.1", 65535, b"ws://10.0.0.1:65535"),
    ],
)
def test_a_url_names_a_port_that_the_scheme_does_not(secure, host, port, url):
    LAB.g(CONFIG).gateway_secure = secure
    assert write(shard(host=host, port=port))[1] == b"1 3 16 77 5f2c8e0a9b " + url


def longest():
    name_node(LAB, node=b"n" * NAME_MAX)
    config = LAB.g(FLEET_CONFIG)
    config.bot[:NAME_MAX], config.bot_len = b"b" * NAME_MAX, NAME_MAX
    made = shard(
        b"i" * SESSION_ID_MAX, b"h" * RESUME_HOST_MAX, 65535, shard_id=BIG, shard_total=BIG
    )
    made.events.fence = BIG
    return made


def test_the_longest_record_fits():
    key, value = write(longest(), BIG)
    assert len(key) <= KEY_MAX
    assert len(value) <= VALUE_MAX


def test_a_request_asks_the_stream_for_the_key():
    BENCH.up()
    LAB.g(CONFIG).gateway_secure = 0
    out = LAB.call(session_ask, shard=shard().address_).outputs
    assert (out["cf"], out["eax"]) == (0, 1)
    assert BENCH.queued() == (
        b"PUB $JS.API.DIRECT.GET.KV_shardfw.$KV.shardfw.b1.sess.7 _I.n7.3fa2c1d0.c.1 0\r\n\r\n"
    )


def test_the_longest_request_fits():
    BENCH.up().inbox_next = BIG - 1
    LAB.g(CONFIG).gateway_secure = 0
    assert LAB.call(session_ask, shard=longest().address_).outputs["cf"] == 0
    assert len(BENCH.queued()) <= ASK_MAX


def test_without_a_link_nothing_is_asked():
    BENCH.up(LinkState.HELLO)
    assert LAB.call(session_ask, shard=shard().address_).outputs["cf"] == 1
    assert BENCH.queued() == b""


def parse(text):
    """A record is followed by the end of its message."""
    at = LAB.put(text + b"\r\n")
    return LAB.call(session_parse, text=at, end=at + len(text)).outputs["cf"]


def told():
    found, read = LAB.g(HANDOVER).found, LAB.machine.read
    return (
        found.generation, found.total, found.sequence,
        read(found.id, found.id_len) if found.id_len else b"",
        read(found.host, found.host_len) if found.host_len else b"", found.port,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (GOOD, (3, 16, 77, b"5f2c8e0a9b", b"gateway-us-east1-b.discord.gg", 443)),
        (b"1 3 16 0 - -", (3, 16, 0, b"", b"", 0)),
        (b"1 4294967295 4294967295 4294967295 a -", (BIG, BIG, BIG, b"a", b"", 0)),
        (b"1 0 1 0 -- wss://g", (0, 1, 0, b"--", b"g", 443)),
        (b"1 3 16 77 a wss://gw:8443/?v=10", (3, 16, 77, b"a", b"gw", 8443)),
        (b"1 3 16 77 %b -" % (b"i" * 256), (3, 16, 77, b"i" * 256, b"", 0)),
        (b"1 3 16 77 a wss://%b" % (b"h" * 128), (3, 16, 77, b"a", b"h" * 128, 443)),
    ],
)
def test_a_record_is_read(text, expected):
    assert parse(text) == 0
    assert told() == expected


def test_what_was_written_is_read():
    made = shard(port=8443)
    _, text = write(made)
    assert parse(text) == 0
    assert told() == (3, 16, 77, b"5f2c8e0a9b", b"gateway-us-east1-b.discord.gg", 8443)


@pytest.mark.parametrize(
    "text",
    [
        b"", b"1", b"1 3", b"1 3 16", b"1 3 16 77", b"1 3 16 77 a", b"1 3 16 77 a ",
        b"2 3 16 77 a -", b"0 3 16 77 a -", b"x 3 16 77 a -", b"01 3 16 77 a -", b" 1 3 16 77 a -",
        b"1 4294967296 16 77 a -", b"1 x 16 77 a -", b"1 03 16 77 a -", b"1 -3 16 77 a -",
        b"1 3 4294967296 77 a -", b"1 3 x 77 a -", b"1 3 016 77 a -", b"1 3  16 77 a -",
        b"1 3 16 4294967296 a -", b"1 3 16 - a -", b"1 3 16 077 a -", b"1 3 16 77  a -",
        b'1 3 16 77 a"b -', b"1 3 16 77 a\\b -", b"1 3 16 77 a\x7fb -", b"1 3 16 77 a\tb -",
        b"1 3 16 77 \xe9 -", b"1 3 16 77 %b -" % (b"i" * 257),
        b"1 3 16 77 a ws://gw", b"1 3 16 77 a https://gw", b"1 3 16 77 a wss://",
        b"1 3 16 77 a wss:/", b"1 3 16 77 a wss://gw:0", b"1 3 16 77 a wss://gw:65536",
        b"1 3 16 77 a wss://g\xe9w", b"1 3 16 77 a wss://u@gw", b"1 3 16 77 a x",
        b"1 3 16 77 a wss://%b" % (b"h" * 129), b"1 3 16 77 a - ", b"1 3 16 77 a - x",
    ],
)  # fmt: skip
def test_a_record_of_another_form_is_none(text):
    assert parse(text) == 1


@given(st.integers(0, len(GOOD) - 1), st.integers(0, 255))
def test_a_changed_byte_is_judged_as_the_model_says(at, byte):
    BENCH.reset()
    LAB.g(CONFIG).gateway_secure = 1
    parse(GOOD[:at] + bytes([byte]) + GOOD[at + 1 :])


@given(st.integers(0, len(GOOD)))
def test_a_record_that_is_cut_off_is_judged_as_the_model_says(size):
    BENCH.reset()
    LAB.g(CONFIG).gateway_secure = 1
    parse(GOOD[:size])
