"""The upgrade response: right ones in any cut and spelling, wrong ones by site."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware.layouts.shard import End, FailureFlag, ShardContext
from firmware.layouts.websocket import (
    ACCEPT_FIELD,
    EXTENSION,
    FIELD_MISSING,
    HEADER_LINE,
    RESPONSE_TOO_LONG,
    STATUS_LINE,
    SUBPROTOCOL,
    UPGRADE_CHALLENGED,
    UPGRADE_REFUSED,
    WsState,
)
from firmware.websocket.response import ws_response
from tests.support.lab import Lab

LAB = Lab(ws_response)
ACCEPT = b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
GOOD = (
    b"HTTP/1.1 101 Switching Protocols\r\n"
    b"Upgrade: websocket\r\n"
    b"Connection: Upgrade\r\n"
    b"Sec-WebSocket-Accept: " + ACCEPT + b"\r\n"
    b"\r\n"
)


def respond(head, *, follows=b"", scanned=0):
    """Feed one piece; return bytes taken and the context."""
    LAB.reset()
    shard = LAB.shard()
    ws = LAB.view(ShardContext, shard).websocket
    ws.state, ws.scanned = WsState.HANDSHAKE, scanned
    ws.accept[:] = ACCEPT
    where = LAB.machine.alloc(len(head) + len(follows) + 64)
    LAB.machine.write(where, head + follows + b"\xa5" * 64)
    result = LAB.call(ws_response, shard=shard, head=where, length=len(head + follows))
    return result.outputs["ecx"], LAB.view(ShardContext, shard)


def test_ws_response_good_head_opens_and_leaves_the_first_frame():
    taken, shard = respond(GOOD, follows=b"\x81\x02{}")
    assert taken == len(GOOD)
    assert shard.websocket.state == WsState.OPEN
    assert shard.failure == End.NONE


def test_ws_response_incomplete_head_waits_at_every_cut():
    for cut in range(len(GOOD)):
        taken, shard = respond(GOOD[:cut])
        assert taken == 0
        assert shard.websocket.state == WsState.HANDSHAKE
        taken, shard = respond(GOOD, scanned=shard.websocket.scanned)
        assert taken == len(GOOD)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"Upgrade: websocket", b"UPGRADE:\t WebSocket \t"),
        (b"Connection: Upgrade", b"connection: keep-alive, uPGRADE"),
        (b"Connection: Upgrade", b"Connection: keep-alive\r\nConnection: ;Upgrade;"),
        (b"Connection: Upgrade", b"Connection: Upgrade,"),
        (b"Connection: Upgrade", b"X-Empty:\r\nX-Blank: \t\r\nConnection: Upgrade"),
        (b" Switching Protocols", b""),
        (b" Switching Protocols", b" "),
        (b"Upgrade: websocket", b"Server: \xc3\xa9\r\nDate: x\r\nUpgrade: websocket"),
    ],
)
def test_ws_response_other_spellings_are_fine(old, new):
    head = GOOD.replace(old, new, 1)
    taken, shard = respond(head)
    assert taken == len(head)
    assert shard.websocket.state == WsState.OPEN


@pytest.mark.parametrize("at", range(0, len(ACCEPT), 4))
def test_ws_response_every_part_of_the_accept_value_counts(at):
    wrong = ACCEPT[:at] + b"#" + ACCEPT[at + 1 :]
    assert respond(GOOD.replace(ACCEPT, wrong))[1].last_error == ACCEPT_FIELD.code


WRONG = [
    (STATUS_LINE, b"HTTP/1.1 101", b"HTTP/1.0 101"),
    (STATUS_LINE, b"HTTP/1.1 101", b"HTTP/1.1  101"),
    (STATUS_LINE, b"HTTP/1.1 101", b"HTTP/1.1\t101"),
    (STATUS_LINE, b"101 Switching", b"10x Switching"),
    (STATUS_LINE, b"101 Switching", b"/01 Switching"),
    (STATUS_LINE, b"101 Switching", b"1:1 Switching"),
    (STATUS_LINE, b"101 Switching", b"1010 Switching"),
    (STATUS_LINE, b"Protocols\r\n", b"Protocols\n"),
    (STATUS_LINE, b"Protocols\r\n", b"Proto\x00cols\r\n"),
    (HEADER_LINE, b"Upgrade: websocket", b"Upgrade : websocket"),
    (HEADER_LINE, b"Upgrade: websocket", b" Upgrade: websocket"),
    (HEADER_LINE, b"Upgrade: websocket", b": websocket"),
    (HEADER_LINE, b"Upgrade: websocket", b"Upgrade websocket"),
    (HEADER_LINE, b"websocket\r\n", b"websocket\n"),
    (HEADER_LINE, b"websocket\r\n", b"websocket\r"),
    (HEADER_LINE, b"websocket\r\n", b"web\x7fsocket\r\n"),
    (FIELD_MISSING, b"Upgrade: websocket\r\n", b""),
    (FIELD_MISSING, b"Upgrade: websocket", b"Upgrade: websocket2"),
    (FIELD_MISSING, b"Upgrade: websocket", b"Upgrade: h2c"),
    (FIELD_MISSING, b"Connection: Upgrade\r\n", b""),
    (FIELD_MISSING, b"Connection: Upgrade", b"Connection: keep-alive"),
    (FIELD_MISSING, b"Sec-WebSocket-Accept: " + ACCEPT + b"\r\n", b""),
    (ACCEPT_FIELD, ACCEPT, ACCEPT.lower()),
    (ACCEPT_FIELD, ACCEPT, ACCEPT[:-1]),
    (ACCEPT_FIELD, b"\r\n\r\n", b"\r\nSec-WebSocket-Accept: " + ACCEPT + b"\r\n\r\n"),
    (EXTENSION, b"\r\n\r\n", b"\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\n"),
    (SUBPROTOCOL, b"\r\n\r\n", b"\r\nsec-websocket-PROTOCOL: chat\r\n\r\n"),
]


@pytest.mark.parametrize(("site", "old", "new"), WRONG, ids=lambda v: getattr(v, "name", None))
def test_ws_response_wrong_head_fails_by_site(site, old, new):
    taken, shard = respond(GOOD.replace(old, new, 1))
    assert taken == 0
    assert shard.websocket.state == WsState.FAILED
    assert shard.last_error & 0xFFFF_0000 == site.code
    assert shard.websocket.error == shard.last_error
    assert (shard.failure, shard.failure_close, shard.failure_flags) == (End.PROTOCOL, 0, 0)


@pytest.mark.parametrize("head", [b"\r\n\r\n", b"HTTP/1.1 10\r\n\r\n", b"HTTP/1.1 101\r\n\r\n"])
def test_ws_response_short_heads_are_judged_inside_their_bytes(head):
    taken, shard = respond(head)
    wanted = FIELD_MISSING if b"101" in head else STATUS_LINE
    assert taken == 0
    assert shard.last_error & 0xFFFF_0000 == wanted.code


@pytest.mark.parametrize("status", [100, 200, 302, 399, 400, 401, 429, 499, 500, 503, 999])
def test_ws_response_refused_upgrade_keeps_the_status(status):
    taken, shard = respond(GOOD.replace(b"101", str(status).encode(), 1))
    assert taken == 0
    assert shard.websocket.http_status == status
    assert shard.last_error == UPGRADE_REFUSED.code | status
    assert shard.failure == End.NETWORK
    assert shard.failure_flags == (FailureFlag.WAIT if status == 429 else 0)


@pytest.mark.parametrize("length", [8191, 8192, 9000])
def test_ws_response_head_is_bounded(length):
    head = GOOD[:-2] + b"X: " + b"y" * (length - len(GOOD) - 1)
    taken, shard = respond(head[:length])
    assert taken == 0
    failed = shard.last_error == RESPONSE_TOO_LONG.code
    assert failed == (length >= 8192)


def test_ws_response_longest_head_fits():
    head = GOOD[:-2] + b"X: " + b"y" * (8192 - len(GOOD) - 5) + b"\r\n\r\n"
    assert len(head) == 8192
    assert respond(head, follows=b"\x81")[0] == 8192


@settings(max_examples=60, deadline=None)
@given(
    at=st.integers(0, len(GOOD) - 1),
    what=st.one_of(st.sampled_from([b"\r", b"\n", b":", b" ", b"\0", b","]), st.binary(max_size=3)),
    drop=st.integers(0, 3),
)
def test_ws_response_damaged_heads_match_the_model(at, what, drop):
    respond(GOOD[:at] + what + GOOD[at + drop :], follows=b"\r\n\r\n")


def refusal(status, *fields):
    head = f"HTTP/1.1 {status} No\r\n" + "".join(f"{field}\r\n" for field in fields) + "\r\n"
    return respond(head.encode())[1]


@pytest.mark.parametrize(
    ("fields", "wait_ms"),
    [
        ((), 0),
        (("Retry-After: 30",), 30_000),
        (("Server: x", "RETRY-AFTER:  7  ", "Retry-After: 9"), 7_000),
        (("Retry-After: 999999999999",), 86_400_000),
        (("Retry-After: Wed, 21 Oct 2026 07:28:00 GMT",), 0),
        (("Retry-After: 1.5",), 0),
        (("Retry-After:",), 0),
        (("Retry-Afte: 5", "Retry-Aftes: 5"), 0),
        (("no colon", "Retry-After: 30"), 0),
    ],
)
@pytest.mark.parametrize("status", [429, 503])
def test_ws_response_refusal_with_retry_after_notes_the_wait(status, fields, wait_ms):
    shard = refusal(status, *fields)
    assert shard.required_wait_ms == wait_ms
    assert shard.failure_flags == (FailureFlag.WAIT if status == 429 else 0)
    assert (shard.failure, shard.websocket.http_status) == (End.NETWORK, status)


@pytest.mark.parametrize(
    ("status", "fields", "challenged"),
    [
        (403, ("cf-mitigated: challenge",), True),
        (403, ("Server: cloudflare", "CF-Mitigated:\tchallenge ", "CF-RAY: 8-FRA"), True),
        (403, ("Cf-Mitigated:",), True),
        (403, ("Retry-After: 7", "cf-mitigated: challenge"), True),
        (403, (), False),
        (403, ("Server: cloudflare", "CF-RAY: 8-FRA"), False),
        (403, ("X-cf-mitigated: challenge", "cf-mitigate: challenge"), False),
        (403, ("no colon", "cf-mitigated: challenge"), False),
        (401, ("cf-mitigated: challenge",), False),
        (404, ("cf-mitigated: challenge",), False),
        (503, ("cf-mitigated: challenge",), False),
    ],
)
def test_ws_response_tells_a_challenge_from_a_refusal(status, fields, challenged):
    shard = refusal(status, *fields)
    assert shard.websocket.http_status == status
    assert shard.websocket.state == WsState.FAILED
    site, end = (
        (UPGRADE_CHALLENGED, End.CHALLENGED) if challenged else (UPGRADE_REFUSED, End.NETWORK)
    )
    assert (shard.failure, shard.failure_flags) == (end, 0)
    assert shard.last_error == shard.websocket.error == site.code | status
    assert shard.required_wait_ms == (7_000 if "Retry-After: 7" in fields else 0)


@settings(max_examples=60, deadline=None)
@given(
    fields=st.lists(
        st.sampled_from(
            ["cf-mitigated: challenge", "CF-MITIGATED:x", "cf-mitigated", "a:", "b: c"]
        ),
        max_size=5,
    ),
    status=st.sampled_from([401, 403, 429]),
)
def test_ws_response_any_refusal_matches_the_model(fields, status):
    refusal(status, *fields)
