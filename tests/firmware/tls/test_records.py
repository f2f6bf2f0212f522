"""Records of the server: at every cut, of every type in every state, with every fault."""

import pytest

from firmware.layouts.tls import Suite, TlsFlag, TlsState
from firmware.layouts.tls_sites import REFUSALS
from firmware.limits import RING_BYTES
from firmware.tls.records import tls_next_record
from tests.support.tls import TlsBench

BENCH = TlsBench(tls_next_record)
CCS = b"\x14\x03\x03\x00\x01\x01"
HANDSHAKE_STATES = [s for s in TlsState if s.name.startswith("WAIT_")]


@pytest.fixture(autouse=True)
def _fresh():
    BENCH.reset()
    BENCH.tls.state = TlsState.CONNECTED


def plain(kind, content, version=b"\x03\x03"):
    return bytes([kind]) + version + len(content).to_bytes(2, "big") + content


def next_record():
    """Return type, content and bytes of the next record; None when there is none."""
    got = BENCH.call(tls_next_record)
    if got["cf"]:
        return None
    content = BENCH.lab.machine.read(got["rsi"], got["ecx"]) if got["ecx"] else b""
    return got["eax"], content, got["edx"]


def alerted(peer):
    """Return the alert that we sent, if any."""
    found = peer.open(BENCH.sent())
    assert len(found) <= 1
    return found[0] if found else None


@pytest.mark.parametrize("suite", Suite)
@pytest.mark.parametrize("head", [0, RING_BYTES - 6, RING_BYTES - 20])
@pytest.mark.parametrize("size", [1, 15, 16, 17, 200])
def test_a_record_opens_where_it_lies(size, head, suite):
    peer, _ = BENCH.keyed(suite)
    content = bytes(n & 0xFF for n in range(size))
    BENCH.receive(peer.seal(content), head=head)
    assert next_record() == (23, content, size + 22)
    assert BENCH.context.tcp.ring_ready == size + 22


def test_a_record_is_waited_for_at_every_cut():
    peer, _ = BENCH.keyed()
    record = peer.seal(b"whole")
    for cut in range(len(record)):
        BENCH.context.tcp.ring_ready = 0
        BENCH.receive(record[:cut])
        assert next_record() is None
        assert BENCH.tls.state == TlsState.CONNECTED
    BENCH.context.tcp.ring_ready = 0
    BENCH.receive(record)
    assert next_record() == (23, b"whole", len(record))


def test_the_largest_record_opens():
    peer, _ = BENCH.keyed()
    BENCH.receive(peer.seal(b"x" * 2**14), head=5000)
    assert next_record() == (23, b"x" * 2**14, 2**14 + 22)


@pytest.mark.parametrize("padding", [1, 7, 255])
def test_padding_is_taken_off(padding):
    peer, _ = BENCH.keyed()
    BENCH.receive(peer.seal(b"text", padding=padding))
    assert next_record() == (23, b"text", 4 + 22 + padding)
    BENCH.context.tcp.ring_ready = 0
    BENCH.receive(peer.seal(b"", padding=padding))
    assert next_record() == (23, b"", 22 + padding)


def test_what_is_shown_already_is_passed_over():
    peer, _ = BENCH.keyed()
    BENCH.tls.plain_left, BENCH.tls.gap = 3, 40
    BENCH.receive(b"old" + bytes(40) + peer.seal(b"new"))
    assert next_record()[:2] == (23, b"new")


@pytest.mark.parametrize("version", [b"\x03\x01", b"\x03\x03", b"\x00\x00", b"\xff\xff"])
def test_the_version_of_a_record_means_nothing(version):
    BENCH.tls.state = TlsState.WAIT_SERVER_HELLO
    BENCH.receive(plain(22, b"hello", version))
    assert next_record() == (22, b"hello", 10)


@pytest.mark.parametrize("state", HANDSHAKE_STATES)
def test_change_cipher_spec_may_come_in_every_state_of_a_handshake(state):
    if state >= TlsState.WAIT_EXTENSIONS:
        BENCH.keyed()
    BENCH.tls.state = state
    BENCH.receive(CCS)
    assert next_record() == (20, b"\x01", 6)


def refused(record, site, *, keys, state=TlsState.CONNECTED, detail=""):
    """Let a record fail: the site, the state, and the alert with the keys that we have."""
    peer, ours = BENCH.keyed() if keys else (None, None)
    BENCH.tls.state = state
    BENCH.receive(record(peer) if callable(record) else record)
    assert next_record() is None
    assert BENCH.failure() == (f"tls.{site}{detail}", TlsState.FAILED)
    alert = next(r.alert for s, r in REFUSALS.items() if s.name == site)
    assert alert is not None
    if keys:
        assert alerted(ours) == (21, bytes([2, alert]))
    else:
        assert BENCH.sent() == b"\x15\x03\x03\x00\x02\x02" + bytes([alert])


@pytest.mark.parametrize(
    ("record", "site"),
    [
        (lambda p: p.seal(b"x")[:-1] + b"\0", "bad_record_mac"),
        (b"\x17\x03\x03\x00\x10" + bytes(16), "bad_record_mac"),
        (b"\x17\x03\x03\x00\x11" + bytes(17), "bad_record_mac"),
        (b"\x17\x03\x03\x00\x00", "bad_record_mac"),
        (b"\x17\x03\x03\x41\x01", "record_overflow"),
        (b"\x17\x03\x03\xff\xff", "record_overflow"),
        (lambda p: p.raw(b"x" * 2**14 + b"\x17\0"), "record_overflow"),
        (lambda p: p.raw(bytes(1)), "record_empty"),
        (lambda p: p.raw(bytes(300)), "record_empty"),
        (lambda p: p.seal(b"", 22), "record_empty"),
        (lambda p: p.seal(b"", 21), "record_empty"),
        (lambda p: p.seal(b"\x01", 21), "alert_form"),
        (lambda p: p.seal(b"\x01\x00\x00", 21), "alert_form"),
    ],
)
def test_a_sealed_record_that_is_wrong(record, site):
    refused(record, site, keys=True)


@pytest.mark.parametrize("kind", [0, 20, 24, 25, 255])
def test_a_sealed_record_of_another_type(kind):
    detail = f"({kind})" if kind else ""
    if kind:
        refused(lambda p: p.seal(b"x", kind), "record_type", keys=True, detail=detail)
    else:
        refused(lambda p: p.raw(b"\0"), "record_empty", keys=True)


@pytest.mark.parametrize("kind", [0, 19, 20, 21, 22, 24, 128, 255])
def test_no_plain_record_comes_behind_the_handshake(kind):
    detail = f"({kind})" if kind else ""
    refused(plain(kind, b"\x01"), "record_type", keys=True, detail=detail)


@pytest.mark.parametrize("kind", [0, 19, 23, 24, 255])
def test_no_other_plain_record_comes_before_keys(kind):
    refused(
        plain(kind, b"x" * 20), "record_type", keys=False, state=TlsState.WAIT_SERVER_HELLO,
        detail=f"({kind})" if kind else "",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("record", "site"),
    [
        (plain(22, b""), "record_empty"),
        (plain(21, b""), "record_empty"),
        (plain(21, b"\x02"), "alert_form"),
        (plain(21, b"\x02\x28\x02\x28"), "alert_form"),
        (b"\x16\x03\x03\x40\x01", "record_overflow"),
        (b"\x14\x03\x03\x00\x02", "change_cipher_spec"),
        (b"\x14\x03\x03\x00\x00", "change_cipher_spec"),
        (b"\x14\x03\x03\x00\x01\x02", "change_cipher_spec"),
        (b"\x14\x03\x03\x00\x01\x00", "change_cipher_spec"),
    ],
)
def test_a_plain_record_that_is_wrong(record, site):
    refused(record, site, keys=False, state=TlsState.WAIT_SERVER_HELLO)


@pytest.mark.parametrize("state", [s for s in HANDSHAKE_STATES if s >= TlsState.WAIT_EXTENSIONS])
def test_no_data_comes_within_the_handshake(state):
    refused(lambda p: p.seal(b"early"), "record_type", keys=True, state=state, detail="(23)")


def test_a_server_without_keys_may_tell_its_alert():
    BENCH.keyed()
    BENCH.tls.state = TlsState.WAIT_EXTENSIONS
    BENCH.receive(plain(21, b"\x02\x28"))
    assert next_record() == (21, b"\x02\x28", 7)
    BENCH.context.tcp.ring_ready = 0
    refused(
        plain(21, b"\x02\x28"), "record_type", keys=True, state=TlsState.WAIT_FINISHED,
        detail="(21)",
    )  # fmt: skip


def test_a_record_that_never_fits_is_not_waited_for():
    BENCH.keyed()
    BENCH.tls.plain_left = RING_BYTES - 1000
    BENCH.receive(bytes(RING_BYTES - 1000) + b"\x17\x03\x03" + (996).to_bytes(2, "big"))
    assert next_record() is None
    assert BENCH.failure()[0] == "tls.record_no_room"


def test_a_record_that_just_fits_is_waited_for():
    BENCH.keyed()
    BENCH.tls.plain_left = RING_BYTES - 1000
    BENCH.receive(bytes(RING_BYTES - 1000) + b"\x17\x03\x03" + (995).to_bytes(2, "big"))
    assert next_record() is None
    assert BENCH.tls.state == TlsState.CONNECTED


def test_keys_are_gone_with_the_failure():
    BENCH.keyed()
    BENCH.receive(b"\x17\x03\x03\xff\xff")
    next_record()
    keys = BENCH.context.tls_keys
    assert bytes(keys.receive.secret) + bytes(keys.send.secret) == bytes(96)
    assert not BENCH.tls.flags & TlsFlag.CLOSED
