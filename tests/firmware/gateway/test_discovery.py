"""The question for the gateway and its answers: heads, lengths, statuses, waits, in any parts."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware.gateway.discovery_ask import REQUEST_MAX, discovery_send
from firmware.gateway.discovery_body import discovery_chunk
from firmware.layouts.config import CONFIG
from firmware.layouts.discovery import (
    DISCOVERY,
    DISCOVERY_ENDED,
    DISCOVERY_HTTP,
    DISCOVERY_STATUS,
    DISCOVERY_TOO_BIG,
    DISCOVERY_UNAVAILABLE,
    DOCUMENT_MAX,
    ChunkState,
    DiscoveryState,
)
from firmware.layouts.profile import ProfileId
from firmware.layouts.tls import TlsState
from firmware.layouts.websocket import RESPONSE_MAX
from pxe.gateway.rest import FORMS, Reply, json_reply, rate_limit, redirect
from tests.support.discovery import BOT, LAB, TOKEN, Question, ask
from tests.support.token import set_token


class TestRequest:
    def test_discord_is_asked_with_the_token(self):
        q = Question()
        assert q.stream.take_sent() == (
            b"GET /gateway/bot HTTP/1.1\r\nHost: api.test\r\n"
            b"User-Agent: DiscordBot (shardfw, 0.1)\r\n"
            b"Accept: application/json\r\nConnection: close\r\n"
            b"Authorization: Bot " + TOKEN + b"\r\n\r\n"
        )
        assert (q.found.requests, q.found.state) == (1, DiscoveryState.HEAD)

    def test_fluxer_is_asked_without(self):
        q = Question(profile=ProfileId.FLUXER, port=8080, path=b"/.well-known/fluxer")
        sent = q.stream.take_sent()
        assert sent.startswith(b"GET /.well-known/fluxer HTTP/1.1\r\nHost: api.test:8080\r\n")
        assert b"Authorization" not in sent
        assert sent.endswith(b"Connection: close\r\n\r\n")

    def test_the_node_calls_itself_what_it_was_told(self):
        config, q = LAB.g(CONFIG), Question()
        config.user_agent[:9] = b"bot (x/1)"
        config.user_agent_len = 9
        q.stream.take_sent()
        q.connect()
        assert b"\r\nUser-Agent: bot (x/1)\r\nAccept: " in q.stream.take_sent()

    def test_the_longest_request_fits_its_room(self):
        config = LAB.g(CONFIG)
        q = Question(host=b"h" * 128, port=65535, path=b"/" + b"p" * 255)
        set_token(LAB, b"t" * 256)
        config.user_agent[:] = b"a" * 64
        config.user_agent_len = 64
        q.stream.take_sent()
        q.connect()
        assert len(q.stream.take_sent()) == REQUEST_MAX

    @pytest.mark.parametrize(
        ("secure", "port", "host"),
        [(0, 80, b"a.test"), (0, 443, b"a.test:443"), (1, 443, b"a.test"), (1, 80, b"a.test:80")],
    )
    def test_the_scheme_s_own_port_is_not_said(self, secure, port, host):
        q = Question(host=b"a.test", port=port)
        q.stream.take_sent()
        LAB.g(CONFIG).gateway_secure, q.shard.tls.state = secure, TlsState.PASS_THROUGH
        q.connect()
        assert b"\r\nHost: " + host + b"\r\n" in q.stream.take_sent()

    def test_without_room_it_waits(self):
        q = Question()
        q.stream.fill(REQUEST_MAX - 1)
        q.found.state = DiscoveryState.CONNECT
        LAB.call(discovery_send, shard=q.at)
        assert (q.found.requests, q.found.state) == (1, DiscoveryState.CONNECT)


class TestBounds:
    def test_a_length_above_one_mebibyte_is_refused_unread(self):
        head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"
        ask(head % (DOCUMENT_MAX + 1)).check_refused(DISCOVERY_TOO_BIG.code)
        assert ask(head % DOCUMENT_MAX).found.state == DiscoveryState.BODY
        ask(head % 10**12).check_refused(DISCOVERY_TOO_BIG.code)

    @pytest.mark.parametrize(
        ("head", "part"),
        [
            (b"\r\n\r\n", b" "),
            (b"\r\nTransfer-Encoding: chunked\r\n\r\n5;", b"x"),
            (b"\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"x"),
        ],
    )
    def test_a_body_that_does_not_end_is_cut_off(self, head, part):
        q = ask(b"HTTP/1.1 200 OK" + head)
        q.found.body_bytes = DOCUMENT_MAX - 1
        assert q.hear(part).found.state == DiscoveryState.BODY
        q.hear(part).check_refused(DISCOVERY_TOO_BIG.code)

    def test_a_chunk_may_not_announce_more(self):
        head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        assert ask(head + b"100000").found.state == DiscoveryState.BODY
        ask(head + b"100001").check_refused(DISCOVERY_TOO_BIG.code)

    @pytest.mark.parametrize("head", [b"\r\nContent-Length: 99999999\r\n\r\n", b"\r\n\r\n"])
    def test_a_wait_with_too_much_to_say_is_still_a_wait(self, head):
        q = ask(b"HTTP/1.1 429 X\r\nRetry-After: 9" + head)
        if q.found.state == DiscoveryState.BODY:
            q.found.body_bytes = DOCUMENT_MAX
            q.hear(b" ")
        q.check_later(DISCOVERY_UNAVAILABLE.code | 429, 9_000)

    def test_a_head_is_bounded(self):
        q = ask(b"HTTP/1.1 200 OK\r\nA: " + b"b" * 8000)
        assert q.found.state == DiscoveryState.HEAD
        q.hear(b"b" * (RESPONSE_MAX - 1 - q.stream.ready))
        assert q.found.state == DiscoveryState.HEAD
        q.hear(b"b").check_later(DISCOVERY_HTTP.code)


class TestStatus:
    @pytest.mark.parametrize("status", [101, 201, 204, 300, 304, 400, 401, 403, 404, 428, 499])
    def test_a_refusal_is_final(self, status):
        q = ask(Reply(status, b"{}").wire())
        q.check_refused(DISCOVERY_STATUS.code | status)
        assert "level=error code=discovery.refused" in q.lines()[-1]

    @pytest.mark.parametrize("status", [500, 502, 503, 599, 999])
    def test_trouble_of_the_server_passes(self, status):
        ask(Reply(status, b"").wire()).check_later(DISCOVERY_UNAVAILABLE.code | status)

    def test_a_status_below_the_interim_ones_is_final_too(self):
        ask(b"HTTP/1.1 099 Early\r\n\r\n").check_refused(DISCOVERY_STATUS.code | 99)

    @pytest.mark.parametrize("status", [b"100", b"103", b"199"])
    def test_interim_answers_are_passed_over(self, status):
        early = b"HTTP/1.1 " + status + b" Early\r\nLink: x\r\n\r\n"
        wire = early * 2 + json_reply(200, BOT).wire()
        ask(wire).gateway()

    @pytest.mark.parametrize(
        "wire",
        [
            b"what?\r\n\r\n",
            b"HTTP/1.0 200 OK\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nA : b\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: \r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}x",
        ],
    )
    def test_bad_framing_is_trouble_of_the_network(self, wire):
        ask(wire).check_later(DISCOVERY_HTTP.code)

    @pytest.mark.parametrize(
        "wire",
        [
            b"",
            b"HTTP/1.1 200 OK\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{}",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n",
        ],
    )
    def test_an_end_too_soon_is_trouble_of_the_network(self, wire):
        ask(wire, close=True).check_later(DISCOVERY_ENDED.code)

    def test_equal_lengths_and_a_length_beside_chunks_are_fine(self):
        body = json.dumps(BOT).encode()
        twice = b"Content-Length: %d\r\n" % len(body)
        ask(b"HTTP/1.1 200\r\n" + twice * 2 + b"\r\n" + body).gateway()
        chunked = b"Transfer-Encoding: Chunked\r\n\r\n%x;a=b\r\n%s\r\n0\r\nT: x\r\n\r\n"
        ask(b"HTTP/1.1 200\r\nContent-Length: 1\r\n" + chunked % (len(body), body)).gateway()


class TestWait:
    @pytest.mark.parametrize(
        ("header", "body", "wait_ms"),
        [
            ("30", None, 30_000),
            ("30", 29, 30_000),
            ("30", 31, 31_000),
            ("30", 30.25, 30_251),
            (None, 64, 64_000),
            (None, 64.57, 64_571),
            (None, None, 5_000),
            ("1", 0.5, 5_000),
            ("86401", None, 86_400_000),
            (None, 86_401, 86_400_000),
            ("999999999999", 4_294_967_295, 86_400_000),
            ("Fri, 31 Dec 1999 23:59:59 GMT", 6, 6_000),
            (None, "7", 5_000),
            (None, -7, 5_000),
        ],
    )
    def test_the_longer_wait_counts(self, header, body, wait_ms):
        fields = () if header is None else (("Retry-After", header),)
        q = ask(json_reply(429, {"retry_after": body}, fields).wire())
        q.check_later(DISCOVERY_UNAVAILABLE.code | 429, wait_ms)
        told = [line for line in q.lines() if "code=discovery.retry_date status=429" in line]
        assert len(told) == int(header is not None and not header.isdigit())
        assert q.lines()[-1].endswith(f"status=429 wait_ms={wait_ms}")

    def test_a_wait_of_503_counts_too(self):
        q = ask(Reply(503, headers=(("retry-after", "60"),)).wire())
        q.check_later(DISCOVERY_UNAVAILABLE.code | 503, 60_000)

    @pytest.mark.parametrize("waits", [(30, 10), (10, 30), (30, 30)])
    def test_the_longest_of_several_headers_counts(self, waits):
        fields = tuple(("Retry-After", str(seconds)) for seconds in waits)
        ask(json_reply(429, {}, fields).wire()).check_later(
            DISCOVERY_UNAVAILABLE.code | 429, 30_000
        )

    def test_words_that_are_no_json_change_nothing(self):
        wire = b"HTTP/1.1 429 X\r\nRetry-After: 8\r\nContent-Length: 10\r\n\r\n<html></h>"
        ask(wire).check_later(DISCOVERY_UNAVAILABLE.code | 429, 8_000)

    def test_a_wait_is_of_one_answer(self):
        q = ask(redirect("/again").wire().replace(b"\r\n\r\n", b"\r\nRetry-After: 99\r\n\r\n"))
        q.connect()
        q.hear(rate_limit(7).wire()).check_later(DISCOVERY_UNAVAILABLE.code | 429, 7_000)


@settings(max_examples=200, deadline=None)
@given(
    state=st.sampled_from(ChunkState),
    byte=st.integers(0, 255) | st.sampled_from(list(b"\r\n; \t0fFgG")),
    left=st.sampled_from([0, 1, DOCUMENT_MAX]),
)
def test_chunk_any_byte_in_any_state(state, byte, left):
    LAB.reset()
    found = LAB.g(DISCOVERY)
    found.chunk, found.left = state, left
    LAB.call(discovery_chunk, byte=byte)


@settings(max_examples=150, deadline=None)
@given(
    wire=st.sampled_from(
        [json_reply(200, BOT, form=form).wire() for form in FORMS]
        + [rate_limit(3, body=4).wire(), redirect("http://b:81/c").wire()]
    ),
    at=st.integers(0, 400),
    what=st.binary(max_size=4),
    drop=st.integers(0, 6),
    cut=st.integers(1, 400),
)
def test_damaged_answers_match_the_model(wire, at, what, drop, cut):
    damaged = wire[:at] + what + wire[at + drop :]
    Question().hear(damaged[:cut], damaged[cut:], close=True)
