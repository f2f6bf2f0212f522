"""Records of ours: `cryptography` opens them; alerts, change_cipher_spec and KeyUpdate."""

import pytest

from firmware.layouts.shard import End
from firmware.layouts.tls import Suite, TlsFlag, TlsState
from firmware.layouts.tls_sites import (
    BAD_RECORD_MAC,
    CERTIFICATE_EXPIRED,
    NO_ENTROPY,
    REFUSALS,
    TRUNCATED,
    Alert,
)
from firmware.limits import TX_BYTES
from firmware.tls.fail import tls_fail
from firmware.tls.send import (
    tls_alert,
    tls_change_cipher_spec,
    tls_commit_record,
    tls_reserve_record,
    tls_update_keys,
)
from tests.support.tls import TlsBench

BENCH = TlsBench(
    tls_alert, tls_change_cipher_spec, tls_commit_record, tls_fail, tls_reserve_record,
    tls_update_keys,
)  # fmt: skip


@pytest.fixture(autouse=True)
def _fresh():
    BENCH.reset()
    BENCH.tls.state = TlsState.CONNECTED


def send(content, kind=23):
    got = BENCH.call(tls_reserve_record, length=len(content))
    assert got["cf"] == 0
    if content:
        BENCH.lab.machine.write(got["rdi"], content)
    BENCH.call(tls_commit_record, kind=kind, length=len(content))


def fill(left):
    """Leave so many bytes of the transmit buffer free."""
    BENCH.context.tcp.tx_end = TX_BYTES - left


@pytest.mark.parametrize("suite", Suite)
def test_what_we_seal_opens_at_the_other_end(suite):
    _, peer = BENCH.keyed(suite)
    contents = [b"", b"a", b"hello" * 40, bytes(4096)]
    for content in contents:
        send(content)
    assert peer.open(BENCH.sent()) == [(23, content) for content in contents]


def test_the_first_hello_names_the_oldest_version():
    BENCH.tls.state = TlsState.IDLE
    send(b"hello", 22)
    BENCH.tls.state = TlsState.WAIT_SECOND_HELLO
    send(b"again", 22)
    assert BENCH.sent() == b"\x16\x03\x01\x00\x05hello\x16\x03\x03\x00\x05again"


def test_room_for_header_type_and_tag_is_reserved_too():
    fill(122)
    assert BENCH.call(tls_reserve_record, length=101)["cf"] == 1
    assert BENCH.call(tls_reserve_record, length=100)["cf"] == 0


@pytest.mark.parametrize("alert", [0, 10, 20, 50, 120])
def test_an_alert_is_sealed_when_there_are_keys(alert):
    level = 2 if alert else 1
    assert BENCH.call(tls_alert, alert=alert)["cf"] == 0
    assert BENCH.sent() == b"\x15\x03\x03\x00\x02" + bytes([level, alert])
    _, peer = BENCH.keyed()
    BENCH.call(tls_alert, alert=alert)
    assert peer.open(BENCH.sent()) == [(21, bytes([level, alert]))]


def test_an_alert_without_room_is_not_sent():
    fill(23)
    assert BENCH.call(tls_alert, alert=10)["cf"] == 1
    assert BENCH.context.tcp.tx_end == TX_BYTES - 23


def test_change_cipher_spec_is_sent_once_and_never_sealed():
    BENCH.keyed()
    BENCH.tls.flags &= ~TlsFlag.CCS_SENT
    assert BENCH.call(tls_change_cipher_spec)["cf"] == 0
    assert BENCH.call(tls_change_cipher_spec)["cf"] == 0
    assert BENCH.sent() == b"\x14\x03\x03\x00\x01\x01"


def test_change_cipher_spec_waits_for_room():
    fill(5)
    assert BENCH.call(tls_change_cipher_spec)["cf"] == 1
    assert not BENCH.tls.flags & TlsFlag.CCS_SENT


def test_a_key_update_is_under_the_old_key_and_the_next_record_under_the_new_one():
    _, peer = BENCH.keyed()
    BENCH.tls.flags |= TlsFlag.KEY_UPDATE_OWED
    send(b"before")
    assert BENCH.call(tls_update_keys)["cf"] == 0
    assert peer.open(BENCH.sent()) == [(23, b"before"), (22, b"\x18\0\0\1\0")]
    assert not BENCH.tls.flags & TlsFlag.KEY_UPDATE_OWED
    peer.update()
    send(b"behind")
    assert peer.open(BENCH.sent()) == [(23, b"behind")]


def test_a_key_update_waits_for_room():
    BENCH.keyed()
    BENCH.tls.flags |= TlsFlag.KEY_UPDATE_OWED
    fill(26)
    assert BENCH.call(tls_update_keys)["cf"] == 1
    assert BENCH.tls.flags & TlsFlag.KEY_UPDATE_OWED
    assert BENCH.context.tls_keys.send.sequence == 0


@pytest.mark.parametrize("site", REFUSALS, ids=lambda site: site.name)
def test_every_failure_says_its_alert_and_its_reason(site):
    refusal = REFUSALS[site]
    _, peer = BENCH.keyed()
    BENCH.tls.anchor, BENCH.tls.key_kind = 9, 3
    BENCH.call(tls_fail, error=site.code | 7)
    assert (BENCH.tls.anchor, BENCH.tls.key_kind) == (0, 0)
    assert BENCH.tls.error == site.code | 7
    assert BENCH.failure()[0].startswith(f"tls.{site.name}(")
    assert BENCH.tls.state == TlsState.FAILED
    wanted = [] if refusal.alert is None else [(21, bytes([2, refusal.alert]))]
    assert peer.open(BENCH.sent()) == wanted
    context = BENCH.context
    assert (context.failure, context.failure_flags) == (refusal.end, refusal.flags)
    assert context.required_wait_ms == 1000 * refusal.wait_s
    assert bytes(context.tls_keys.send.secret) == bytes(48)


def test_the_record_for_middleboxes_goes_before_an_alert_that_is_our_first_sealed_record():
    _, peer = BENCH.keyed()
    BENCH.tls.flags &= ~TlsFlag.CCS_SENT
    BENCH.call(tls_fail, error=BAD_RECORD_MAC.code)
    sent = BENCH.sent()
    assert sent[:6] == b"\x14\3\3\0\1\1"
    assert peer.open(sent[6:]) == [(21, bytes([2, Alert.BAD_RECORD_MAC]))]


def test_the_first_failure_counts():
    BENCH.call(tls_fail, error=BAD_RECORD_MAC.code)
    BENCH.sent()
    BENCH.call(tls_fail, error=CERTIFICATE_EXPIRED.code)
    assert BENCH.failure()[0] == "tls.bad_record_mac"
    assert (BENCH.sent(), BENCH.context.required_wait_ms) == (b"", 0)


def test_a_failure_of_another_layer_stays_the_reason():
    context = BENCH.context
    context.failure, context.last_error, context.required_wait_ms = End.PROTOCOL, 0x0600_0000, 5
    BENCH.call(tls_fail, error=CERTIFICATE_EXPIRED.code)
    assert (context.failure, context.last_error) == (End.PROTOCOL, 0x0600_0000)
    assert context.required_wait_ms == 5


def test_what_is_only_ours_is_told_to_nobody():
    silent = {site for site, refusal in REFUSALS.items() if refusal.alert is None}
    assert {NO_ENTROPY, TRUNCATED} < silent
    assert Alert.CLOSE_NOTIFY not in {refusal.alert for refusal in REFUSALS.values()}
