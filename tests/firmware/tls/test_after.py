"""Tickets and KeyUpdate behind the handshake: in any pieces, every fault, never a message between."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware.layouts.tls import TlsFlag, TlsState
from firmware.tls.after import tls_take_after, tls_ticket_byte
from tests.support import rfc8448 as trace
from tests.support.tls import TlsBench

BENCH = TlsBench(tls_take_after, tls_ticket_byte)
UPDATE, ASK = b"\x18\0\0\1\0", b"\x18\0\0\1\1"


@pytest.fixture(autouse=True)
def _fresh():
    BENCH.reset()
    BENCH.tls.state = TlsState.CONNECTED


def take(*pieces):
    for piece in pieces:
        BENCH.call(tls_take_after, content=BENCH.lab.put(piece), length=len(piece))


def ticket(nonce=b"n", value=b"ticket", extensions=b"", *, more=b"", size=None):
    body = b"\0\0\x1c\x20age!" + bytes([len(nonce)]) + nonce
    body += len(value).to_bytes(2, "big") + value
    body += len(extensions).to_bytes(2, "big") + extensions + more
    return b"\x04" + (len(body) if size is None else size).to_bytes(3, "big") + body


@pytest.mark.parametrize("cut", range(1, 205, 7))
def test_the_ticket_of_the_rfc_in_two_pieces(cut):
    take(trace.TICKET[:cut], trace.TICKET[cut:])
    assert (BENCH.tls.state, BENCH.tls.message_have) == (TlsState.CONNECTED, 0)


@pytest.mark.parametrize(
    "message",
    [
        ticket(),
        ticket(nonce=b""),
        ticket(nonce=bytes(255)),
        ticket(value=bytes(300)),
        ticket(extensions=b"\0\x2a\0\4\0\0\4\0"),
        ticket() + ticket(nonce=b"other"),
    ],
)
def test_any_ticket_byte_by_byte(message):
    take(*(message[n : n + 1] for n in range(len(message))))
    assert (BENCH.tls.state, BENCH.tls.message_have) == (TlsState.CONNECTED, 0)


@pytest.mark.parametrize(
    "message",
    [
        ticket(value=b""),
        ticket(more=b"x"),
        ticket(size=10),
        ticket(size=0),
        ticket()[:4] + b"\0" * 4,
        b"\x04\0\0\x01x",
        b"\x04\0\0\x0d" + bytes(13),
    ],
)
def test_a_ticket_that_does_not_add_up(message):
    take(message + bytes(40))
    assert BENCH.failure() == ("tls.message_form(4)", TlsState.FAILED)


@pytest.mark.parametrize(
    "kind", [k for k in (*range(33), 36, 52, 128, 254, 255) if k not in (4, 24)]
)
def test_no_other_message_may_come(kind):
    take(bytes([kind, 0, 0, 1, 0]))
    assert BENCH.failure() == (f"tls.message({TlsState.CONNECTED << 8 | kind})", TlsState.FAILED)


@pytest.mark.parametrize("message", [UPDATE, ASK])
def test_a_key_update_changes_what_we_open_with(message):
    peer, _ = BENCH.keyed()
    take(message[:2], message[2:])
    peer.update()
    assert BENCH.context.tls_keys.receive.secret[:32] == peer.secret
    assert bool(BENCH.tls.flags & TlsFlag.KEY_UPDATE_OWED) == message[-1]
    assert (BENCH.tls.key_updates, BENCH.tls.message_have) == (1, 0)


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"\x18\0\0\1\2", "key_update"),
        (b"\x18\0\0\1\xff", "key_update"),
        (UPDATE + b"\x04", "key_change(24)"),
        (UPDATE + UPDATE, "key_change(24)"),
        (b"\x18\0\0\0", "message_form(24)"),
        (b"\x18\0\0\2\0\0", "message_form(24)"),
        (b"\x18\1\0\1\0", "message_form(24)"),
    ],
)
def test_a_key_update_that_is_wrong(content, error):
    BENCH.keyed()
    take(content)
    assert BENCH.failure() == (f"tls.{error}", TlsState.FAILED)


def test_too_many_key_updates_in_a_row():
    BENCH.keyed()
    BENCH.tls.key_updates = 31
    take(UPDATE)
    assert BENCH.tls.state == TlsState.CONNECTED
    take(UPDATE)
    assert BENCH.failure() == ("tls.record_flood(22)", TlsState.FAILED)


@settings(max_examples=60)
@given(data=st.binary(min_size=1, max_size=60), cuts=st.sets(st.integers(1, 59), max_size=4))
def test_any_bytes_in_any_pieces(data, cuts):
    BENCH.reset()
    BENCH.tls.state = TlsState.CONNECTED
    whole = b"\x04\0\0\x30" + data
    edges = [0, *sorted(cut for cut in cuts if cut < len(whole)), len(whole)]
    for start, end in pairwise(edges):
        if BENCH.tls.state == TlsState.CONNECTED:
            take(whole[start:end])
