"""The outbox: publications byte for byte, room, and the ring's end."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware.events.outbox import outbox_publish, outbox_room, put_token
from firmware.layouts.outbox import ENTRIES, HEAD_MAX, EntryState
from firmware.limits import OUTBOX_BYTES
from tests.support.lab import Lab
from tests.support.publisher import NOW, REGIONS, Publisher

LAB = Lab(outbox_publish, extra=REGIONS)
BODY = b'{"t":"MESSAGE_CREATE","s":41,"op":0,"d":{"id":"1"}}'


@pytest.fixture
def node():
    return Publisher(LAB)


def publish(node, body=BODY, sequence=41, n=0, name=b"MESSAGE_CREATE"):
    at = LAB.machine.alloc(64)
    LAB.machine.write(at, name)
    return node.call(
        outbox_publish,
        n,
        body=LAB.put(body),
        length=len(body),
        sequence=sequence,
        name=at,
        name_len=len(name),
    ).outputs["cf"]


def test_publication_is_what_nats_reads(node):
    assert publish(node) == 0
    headers = (
        b"NATS/1.0\r\nNats-Msg-Id: 5f2c8e0a9b-41\r\nShardfw: g=7 n=n525400123456 t=16 s=41\r\n\r\n"
    )
    total = len(headers) + len(BODY)
    line = b"HPUB shardfw.b1.ev.5.MESSAGE_CREATE _I.n525400123456.3fa2c1d0.d.0 "
    assert node.queued() == line + b"%d %d\r\n" % (len(headers), total) + headers + BODY + b"\r\n"
    row = node.box.entries[0]
    assert (row.end, row.queued_at, row.sequence) == (node.box.end, NOW, 41)
    assert (row.connection, row.slot, row.state) == (3, 0, EntryState.WAITING)
    assert (node.box.first, node.box.next, node.box.published) == (0, 1, 1)


def test_a_notice_has_the_boot_and_the_number_of_its_publication(node):
    node.box.first = node.box.next = 5
    node.box.notice = 1
    publish(node)
    assert b"\r\nNats-Msg-Id: 3fa2c1d0-5\r\nShardfw: g=7 n=n525400123456 " in node.queued()


def test_publications_follow_each_other(node):
    publish(node)
    end = node.box.end
    publish(node, b"{}", 9, 1)
    assert node.box.entries[1].slot == 1
    behind = node.queued()[end:]
    assert behind.startswith(b"HPUB shardfw.b1.ev.6.MESSAGE_CREATE _I.n525400123456.3fa2c1d0.d.1 ")
    assert behind.endswith(b"s=9\r\n\r\n{}\r\n")


@pytest.mark.parametrize("before", [0, 1, 60, 199, 330, 400])
def test_ring_goes_on_at_its_start(node, before):
    publish(node)
    plain = node.queued()
    node = Publisher(LAB)
    node.skip_to(5 * OUTBOX_BYTES - before)
    publish(node)
    assert node.queued() == plain


def test_numbers_wrap(node):
    node.box.first = node.box.next = 2**32 - 1
    publish(node)
    assert (node.box.first, node.box.next) == (2**32 - 1, 0)
    assert b".d.4294967295 " in node.queued()
    publish(node)
    assert b".d.0 " in node.queued()


@pytest.mark.parametrize(
    ("name", "token"),
    [
        (b"A", b"A"),
        (b"GUILD_CREATE", b"GUILD_CREATE"),
        (b"a.b*c>d e", b"a_b_c_d_e"),
        (b"\r\nPUB x", b"__PUB_x"),
        (bytes(range(0x80, 0xA0)), b"_" * 32),
    ],
)
def test_name_becomes_one_token(node, name, token):
    publish(node, name=name)
    assert node.queued().startswith(b"HPUB shardfw.b1.ev.5." + token + b" _I.")


@settings(max_examples=30, deadline=None)
@given(st.binary(min_size=1, max_size=64))
def test_token_has_no_character_with_a_meaning(name):
    LAB.reset()
    at, out = LAB.put(name), LAB.machine.alloc(64)
    end = LAB.call(put_token, text=out, name=at, length=len(name)).outputs["rdi"]
    text = LAB.machine.read(out, end - out)
    assert len(text) == len(name)
    assert not set(text) & set(b" .*>\r\n\t\0")


@pytest.mark.parametrize(
    ("kept", "length", "full"),
    [
        (0, 0, 0),
        (OUTBOX_BYTES - HEAD_MAX - 100, 100, 0),
        (OUTBOX_BYTES - HEAD_MAX - 100, 101, 1),
        (OUTBOX_BYTES - 1, 0, 1),
    ],
)
def test_room_in_bytes(node, kept, length, full):
    node.skip_to(3 * OUTBOX_BYTES)
    node.box.end = node.box.freed + kept
    assert node.call(outbox_room, length=length).outputs["cf"] == full


@pytest.mark.parametrize(("waiting", "full"), [(ENTRIES - 1, 0), (ENTRIES, 1)])
def test_room_in_entries(node, waiting, full):
    node.box.first, node.box.next = 2**32 - 5, waiting - 5
    assert node.call(outbox_room, length=1).outputs["cf"] == full


def test_what_finds_no_room_changes_nothing(node):
    node.box.next = ENTRIES
    before = (node.box.end, node.box.published)
    assert publish(node) == 1
    assert (node.box.end, node.box.published, node.box.next) == (*before, ENTRIES)
