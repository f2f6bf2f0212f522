"""The stream of plaintext: any records, any segments, any reader; what may not come in between."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware.layouts.tcp import TcpState
from firmware.layouts.tls import Suite, TlsFlag, TlsState
from firmware.limits import RING_BYTES, TX_BYTES
from firmware.tls.stream import (
    tls_append,
    tls_ended,
    tls_pass_over,
    tls_pull,
    tls_take_alert,
)
from firmware.tls.transport import (
    tls_close,
    tls_commit,
    tls_consume,
    tls_more,
    tls_readable,
    tls_reserve,
)
from tests.support.tls import TlsBench

BENCH = TlsBench(
    tls_append, tls_close, tls_commit, tls_consume, tls_ended, tls_more, tls_pass_over, tls_pull,
    tls_readable, tls_reserve, tls_take_alert,
)  # fmt: skip
UPDATE, ASK = b"\x18\0\0\1\0", b"\x18\0\0\1\1"
CLOSE, CANCELED = b"\x01\x00", b"\x01\x5a"


@pytest.fixture(autouse=True)
def _fresh():
    connect()


def connect(suite=Suite.AES_128_GCM_SHA256):
    BENCH.reset()
    peers = BENCH.keyed(suite)
    BENCH.tls.state = TlsState.CONNECTED
    return peers


def readable():
    got = BENCH.call(tls_readable)
    return BENCH.lab.machine.read(got["rsi"], got["ecx"]) if got["ecx"] else b""


def consume(length):
    BENCH.call(tls_consume, length=length)


def more():
    return not BENCH.call(tls_more)["cf"]


def send(content):
    got = BENCH.call(tls_reserve, length=len(content))
    if got["cf"]:
        return False
    BENCH.lab.machine.write(got["rdi"], content)
    BENCH.call(tls_commit, length=len(content))
    return True


@pytest.mark.parametrize("head", [0, RING_BYTES - 30])
def test_records_are_shown_one_by_one_and_given_back(head):
    peer, _ = connect()
    BENCH.receive(peer.seal(b"first", padding=9) + peer.seal(b"second"), head=head)
    assert readable() == b"first"
    consume(3)
    assert readable() == b"st"
    consume(2)
    assert BENCH.context.tcp.ring_ready == 28
    assert readable() == b"second"
    consume(99)
    assert (readable(), BENCH.context.tcp.ring_ready) == (b"", 0)


@pytest.mark.parametrize("left", [1, 2, 7, 8, 9, 20, 26, 27, 28, 64])
def test_what_is_left_is_moved_up_against_the_next_record(left):
    peer, _ = connect()
    first = bytes(range(100, 165))
    BENCH.receive(peer.seal(first) + peer.seal(b"|second"), head=RING_BYTES - 50)
    assert readable() == first
    consume(len(first) - left)
    assert more()
    assert readable() == first[-left:] + b"|second"
    assert not more()
    consume(left + 7)
    assert BENCH.context.tcp.ring_ready == 0


def test_nothing_is_shown_before_its_tag_is_right():
    peer, ours = connect()
    good, bad = peer.seal(b"good"), bytearray(peer.seal(b"evil"))
    bad[7] ^= 1
    BENCH.receive(good + bytes(bad))
    assert readable() == b"good"
    assert not more()
    assert BENCH.failure() == ("tls.bad_record_mac", TlsState.FAILED)
    assert b"evil" not in BENCH.lab.machine.read(BENCH.context.ring_base, 200)
    assert ours.open(BENCH.sent()) == [(21, b"\x02\x14")]


@pytest.mark.parametrize("suite", Suite)
@settings(max_examples=12)
@given(
    records=st.lists(
        st.one_of(
            st.tuples(st.just(23), st.binary(max_size=40), st.integers(0, 9)),
            st.tuples(st.just(22), st.sampled_from([UPDATE, ASK]), st.just(0)),
            st.tuples(st.just(21), st.just(CANCELED), st.just(0)),
        ),
        max_size=6,
    ),
    step=st.integers(1, 90),
    keep=st.integers(0, 12),
    head=st.integers(0, RING_BYTES - 1),
)
def test_any_records_in_any_segments_for_any_reader(suite, records, step, keep, head):
    """A reader that always leaves `keep` bytes, as one that waits for the rest of a frame."""
    peer, _ = connect(suite)
    wire, wanted = b"", b""
    for kind, content, padding in records:
        wire += peer.seal(content, kind, padding)
        if kind == 23:
            wanted += content
        elif kind == 22:
            peer.update()
    BENCH.receive(b"", head=head)
    got = b""
    for at in range(0, len(wire), step):
        BENCH.receive(wire[at : at + step])
        while True:
            shown = readable()
            if len(shown) > keep:
                got += shown[: len(shown) - keep]
                consume(len(shown) - keep)
            if not more():
                break
    assert got + readable() == wanted
    assert BENCH.tls.state == TlsState.CONNECTED


def test_a_record_of_many_segments_at_every_cut():
    peer, _ = connect()
    wire = peer.seal(b"one") + peer.seal(b"two", padding=3)
    keys = BENCH.lab.machine.read(BENCH.context.tls_keys.address_, 0x800)
    for cut in range(len(wire) + 1):
        BENCH.lab.machine.write(BENCH.context.tls_keys.address_, keys)
        BENCH.receive(wire[:cut], head=0)
        got = readable()
        consume(len(got))
        BENCH.receive(wire[cut:])
        while text := readable():
            got += text
            consume(len(text))
        assert got == b"onetwo"


def test_close_notify_ends_in_order():
    peer, ours = connect()
    BENCH.receive(peer.seal(b"last") + peer.seal(CLOSE, 21) + b"whatever follows")
    assert BENCH.call(tls_ended)["cf"] == 1
    assert readable() == b"last"
    assert not more()
    assert BENCH.tls.state == TlsState.ENDED
    assert BENCH.call(tls_ended)["cf"] == 0
    assert readable() == b"last"
    consume(4)
    assert (readable(), more(), send(b"x")) == (b"", False, False)
    BENCH.context.tcp.state = TcpState.ESTABLISHED
    BENCH.call(tls_close)
    BENCH.call(tls_close)
    assert ours.open(BENCH.sent()) == [(21, b"\x01\x00")]
    assert BENCH.context.tcp.state == TcpState.FIN_WAIT_1
    assert BENCH.context.last_error == 0


def test_our_fin_waits_until_close_notify_finds_room():
    _, ours = connect()
    tcp = BENCH.context.tcp
    tcp.state, before, tcp.tx_end = TcpState.ESTABLISHED, tcp.tx_end, TX_BYTES - 23
    BENCH.call(tls_close)
    assert (tcp.state, BENCH.tls.flags & TlsFlag.CLOSED) == (TcpState.ESTABLISHED, 0)
    tcp.tx_end = before
    BENCH.call(tls_close)
    assert ours.open(BENCH.sent()) == [(21, b"\x01\x00")]
    assert (tcp.state, BENCH.tls.flags & TlsFlag.CLOSED) == (TcpState.FIN_WAIT_1, TlsFlag.CLOSED)


@pytest.mark.parametrize("state", [TcpState.CLOSE_WAIT, TcpState.LAST_ACK, TcpState.TIME_WAIT])
def test_a_fin_alone_is_a_truncation(state):
    peer, _ = connect()
    BENCH.receive(peer.seal(b"half")[:-3])
    assert BENCH.call(tls_ended)["cf"] == 1
    BENCH.context.tcp.state = state
    assert BENCH.call(tls_ended)["cf"] == 1
    assert BENCH.failure() == ("tls.truncated", TlsState.FAILED)
    assert BENCH.sent() == b""


@pytest.mark.parametrize("state", TlsState)
@pytest.mark.parametrize("tcp", [TcpState.ESTABLISHED, TcpState.CLOSE_WAIT, TcpState.CLOSED])
def test_every_state_knows_its_end(state, tcp):
    BENCH.tls.state, BENCH.context.tcp.state = state, tcp
    BENCH.call(tls_ended)


@pytest.mark.parametrize("alert", [10, 20, 40, 48, 80, 112, 200])
@pytest.mark.parametrize("level", [1, 2, 7])
def test_any_other_alert_is_fatal_whatever_its_level(alert, level):
    peer, _ = connect()
    BENCH.receive(peer.seal(bytes([level, alert]), 21))
    assert readable() == b""
    assert BENCH.failure() == (f"tls.alert_received({alert})", TlsState.FAILED)
    assert BENCH.tls.peer_alert == alert
    assert BENCH.sent() == b""


def test_records_that_mean_nothing_are_bounded():
    peer, _ = connect()
    for n in range(32):
        BENCH.receive(peer.seal(*((b"", 23) if n % 2 else (CANCELED, 21))))
        assert readable() == b""
    assert BENCH.tls.state == TlsState.CONNECTED
    BENCH.receive(peer.seal(b""))
    assert readable() == b""
    assert BENCH.failure() == ("tls.record_flood(23)", TlsState.FAILED)


def test_data_starts_the_count_anew():
    peer, _ = connect()
    BENCH.tls.meaningless, BENCH.tls.key_updates = 32, 32
    BENCH.receive(peer.seal(b"data") + peer.seal(CANCELED, 21) + peer.seal(UPDATE, 22))
    assert readable() == b"data"
    assert not more()
    assert (BENCH.tls.meaningless, BENCH.tls.key_updates) == (1, 1)


def test_too_many_user_canceled():
    peer, _ = connect()
    BENCH.tls.meaningless = 32
    BENCH.receive(peer.seal(CANCELED, 21))
    readable()
    assert BENCH.failure()[0] == "tls.record_flood(21)"


def test_data_between_the_parts_of_a_message():
    peer, _ = connect()
    BENCH.receive(peer.seal(UPDATE[:3], 22) + peer.seal(b"data"))
    assert readable() == b""
    assert BENCH.failure()[0] == "tls.interleaved(23)"


def test_user_canceled_behind_the_handshake_has_no_arena():
    peer, _ = connect()
    BENCH.tls.arena_ptr = 0
    BENCH.receive(peer.seal(CANCELED, 21))
    assert readable() == b""
    assert (BENCH.tls.state, BENCH.tls.meaningless) == (TlsState.CONNECTED, 1)


def test_user_canceled_between_the_parts_of_a_message():
    peer, _ = connect()
    BENCH.tls.arena_ptr = 0
    BENCH.receive(peer.seal(UPDATE[:3], 22) + peer.seal(CANCELED, 21))
    assert readable() == b""
    assert BENCH.failure()[0] == "tls.interleaved(21)"


def test_user_canceled_between_the_parts_of_a_message_of_the_handshake():
    connect()
    BENCH.tls.state, BENCH.arena.message_have = TlsState.WAIT_FINISHED, 7
    BENCH.call(tls_take_alert, alert=BENCH.lab.put(CANCELED))
    assert BENCH.failure()[0] == "tls.interleaved(21)"


def test_one_answer_to_several_key_updates_before_the_next_record():
    peer, ours = connect()
    for _ in range(3):
        BENCH.receive(peer.seal(ASK, 22))
        peer.update()
    BENCH.receive(peer.seal(b"under the third key"))
    assert readable() == b"under the third key"
    assert BENCH.sent() == b""
    assert send(b"one")
    assert send(b"two")
    sent = BENCH.sent()
    update = 5 + 5 + 17
    assert ours.open(sent[:update]) == [(22, UPDATE)]
    ours.update()
    assert ours.open(sent[update:]) == [(23, b"one"), (23, b"two")]


def test_our_own_key_update_before_the_limit_of_the_cipher():
    _, ours = connect()
    BENCH.context.tls_keys.send.sequence = ours.sequence = (1 << 23) - 1
    assert send(b"last under the old key")
    assert ours.open(BENCH.sent()) == [(23, b"last under the old key")]
    assert send(b"new")
    sent = BENCH.sent()
    assert ours.open(sent[:27]) == [(22, UPDATE)]
    ours.update()
    assert ours.open(sent[27:]) == [(23, b"new")]


def test_a_key_update_without_room_lets_nothing_past():
    BENCH.tls.flags |= TlsFlag.KEY_UPDATE_OWED
    BENCH.context.tcp.tx_end = TX_BYTES - 26
    assert not send(b"x")


@pytest.mark.parametrize("state", [s for s in TlsState if s not in (0, 1, 10)])
def test_nothing_is_sent_or_shown_but_when_connected(state):
    peer, _ = connect()
    BENCH.tls.state = state
    BENCH.receive(peer.seal(b"data"))
    assert (send(b"x"), readable(), more()) == (False, b"", False)
