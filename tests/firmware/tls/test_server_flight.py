"""The server's encrypted flight: what each message must look like, cut anywhere and with each fault."""

import pytest

from emulator.constant_time import same_traces
from firmware.errors import describe
from firmware.layouts.tls import Suite, TlsFlag
from firmware.tls.finished import tls_finished_differs
from firmware.tls.server_flight import (
    tls_on_extensions,
    tls_on_request,
    tls_read_certificate,
)
from tests.support import rfc8448 as trace
from tests.support.tls import TlsBench
from tests.support.tls_messages import HTTP, SCHEMES, block

BENCH = TlsBench(
    tls_finished_differs, tls_read_certificate, tls_on_extensions, tls_on_request
)  # fmt: skip


@pytest.fixture(autouse=True)
def _fresh():
    BENCH.reset()


def judged(routine, body):
    return describe(BENCH.call(routine, **BENCH.message(body))["r9d"]).removeprefix("tls.")


def test_a_server_does_not_answer_a_name_that_was_not_sent():
    named = block((0, b""), HTTP)
    assert judged(tls_on_extensions, named) == "none"
    BENCH.arena.is_address = 1
    assert judged(tls_on_extensions, named) == "extension_unsolicited"
    assert judged(tls_on_extensions, block(HTTP)) == "none"


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (block(), "none"),
        (block(HTTP), "none"),
        (block((0, b""), (10, b"\0\2\0\x1d"), HTTP), "none"),
        (block((0, b"x")), "message_form(8)"),
        (block((16, b"\0\3\2h2")), "alpn"),
        (block((16, b"\0\x09\x08http/1.0")), "alpn"),
        (block((16, b"\0\x0a\x09http/1.1x")), "alpn"),
        (block((16, b"\0\x0c\x08http/1.1\2h2")), "message_form(8)"),
        (block((16, b"\0\x09\x09http/1.1")), "message_form(8)"),
        (block((16, b"\0\x08\x08http/1.1")), "message_form(8)"),
        (block((16, b"\0\1\0")), "alpn"),
        (block((16, b"\0\0")), "message_form(8)"),
        (block((16, b"")), "message_form(8)"),
        (block(HTTP, HTTP), "extension_twice(16)"),
        (block((43, b"\3\4")), "extension_misplaced(43)"),
        (block((51, b"")), "extension_misplaced(51)"),
        (block((13, b"")), "extension_misplaced(13)"),
        (block((42, b"")), "extension_unsolicited(42)"),
        (block((1, b"\1")), "extension_unsolicited(1)"),
        (block() + b"\0", "message_form(8)"),
        (b"\0", "message_form(8)"),
        (b"", "message_form(8)"),
    ],
)
def test_encrypted_extensions(body, error):
    assert judged(tls_on_extensions, body) == error


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"\0" + block(SCHEMES), "none"),
        (b"\0" + block(SCHEMES, (47, b"x"), (0x5A5A, b"")), "none"),
        (b"\0" + block(), "schemes_missing"),
        (b"\0" + block((47, b"x")), "schemes_missing"),
        (b"\1c" + block(SCHEMES), "certificate_context"),
        (b"\0" + block(SCHEMES, SCHEMES), "extension_twice(13)"),
        (b"\0" + block(SCHEMES) + b"\0", "message_form(13)"),
        (b"\0\0", "message_form(13)"),
        (b"", "message_form(13)"),
    ],
)
def test_certificate_request(body, error):
    assert judged(tls_on_request, body) == error
    assert bool(BENCH.tls.flags & TlsFlag.REQUESTED) == (error == "none")


def entry(der=b"certificate", extensions=b"\0\0"):
    return len(der).to_bytes(3, "big") + der + extensions


def listed(*entries, context=b"\0", more=b""):
    whole = b"".join(entries)
    return context + len(whole).to_bytes(3, "big") + whole + more


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (listed(entry()), "none"),
        (listed(entry(), entry(b"x"), entry(b"y" * 300)), "none"),
        (trace.CERTIFICATE[4:], "none"),
        (listed(), "certificate_missing"),
        (listed(entry(), context=b"\1c"), "certificate_context"),
        (listed(entry(b"")), "message_form(11)"),
        (listed(entry(), more=b"\0"), "message_form(11)"),
        (listed(entry(), b"\0"), "message_form(11)"),
        (listed(entry(extensions=b"\0\1x")), "message_form(11)"),
        (listed(entry(extensions=b"\0\4\0\5\0\0")), "extension_unsolicited(5)"),
        (listed(entry(extensions=b"\0\4\0\x10\0\0")), "extension_misplaced(16)"),
        (listed(entry(extensions=b"\0\5\0\5\0\0")), "message_form(11)"),
        (b"\0\0\0\0", "certificate_missing"),
        (b"\0\0\0\1", "message_form(11)"),
        (b"\0\0\0", "message_form(11)"),
    ],
)
def test_certificate(body, error):
    assert judged(tls_read_certificate, body) == error
    if error == "none":
        arena = BENCH.arena
        at = arena.address_ + arena.chain_at
        assert BENCH.lab.machine.read(at, arena.chain_len) == body[4:]


def test_a_certificate_cut_anywhere():
    body = listed(entry(b"one"), entry(b"two", b"\0\4\0\5\0\0"))
    for cut in range(len(body)):
        assert judged(tls_read_certificate, body[:cut]) != "none"


@pytest.mark.parametrize(("suite", "size"), [(Suite.AES_128_GCM_SHA256, 32), (0x1302, 48)])
def test_a_finished_counts_in_every_byte(suite, size):
    BENCH.tls.suite = suite
    wanted = bytes(range(1, size + 1))
    BENCH.arena.verify_data[:size] = wanted
    assert BENCH.call(tls_finished_differs, told=BENCH.lab.put(wanted))["cf"] == 0
    for at in range(size):
        wrong = bytearray(wanted)
        wrong[at] ^= 0x80
        assert BENCH.call(tls_finished_differs, told=BENCH.lab.put(bytes(wrong)))["cf"] == 1


def test_a_finished_is_compared_in_the_same_steps():
    def prepare(secret, suite):
        BENCH.reset()
        BENCH.tls.suite = suite
        BENCH.arena.verify_data[:48] = secret
        return {"shard": BENCH.shard, "told": BENCH.lab.put(bytes(48))}

    secrets = [bytes([n]) * 48 for n in (0, 1, 0x55, 0x80, 0xFF)]
    same_traces(
        BENCH.lab.machine, tls_finished_differs, prepare,
        secrets=secrets, publics=list(Suite), minimum=12,
    )  # fmt: skip
