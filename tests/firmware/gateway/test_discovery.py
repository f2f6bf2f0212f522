"""The question for the gateway and its answers: heads, bodies, documents, redirects, in any parts."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware.gateway.discovery_ask import REQUEST_MAX, discovery_begin, discovery_send
from firmware.gateway.discovery_body import discovery_body, discovery_chunk
from firmware.gateway.discovery_head import discovery_head
from firmware.layouts.config import CONFIG
from firmware.layouts.discovery import (
    DISCOVERY,
    DISCOVERY_DOCUMENT,
    DISCOVERY_ENDED,
    DISCOVERY_HTTP,
    DISCOVERY_LOCATION,
    DISCOVERY_REDIRECTS,
    DISCOVERY_STATUS,
    DISCOVERY_TOO_BIG,
    DISCOVERY_UNAVAILABLE,
    DISCOVERY_URL,
    DOCUMENT_MAX,
    ChunkState,
    DiscoveryState,
)
from firmware.layouts.fleet_config import FLEET_CONFIG, FLEET_MAGIC
from firmware.layouts.gateway import UrlFault
from firmware.layouts.json import JsonState
from firmware.layouts.log import LOG, LOG_RING
from firmware.layouts.node import CLOCK, CORE, PLAN
from firmware.layouts.permit import PERMITS, PERMITS_MAX
from firmware.layouts.plan import MOVES
from firmware.layouts.profile import ProfileId
from firmware.layouts.shard import End, FailureFlag, ShardContext
from firmware.layouts.tcp import TcpState
from firmware.layouts.tls import TlsState
from firmware.layouts.websocket import RESPONSE_MAX
from pxe.gateway.rest import FORMS, Reply, json_reply, rate_limit, redirect
from tests.support.lab import Lab
from tests.support.stream import Stream
from tests.support.token import set_token

LAB = Lab(discovery_begin, discovery_send, discovery_head, discovery_body, discovery_chunk)
MS, NOW = 1000, 10**9
TOKEN = b"MTk4.token_of-the.bot"
HOST, PATH = b"api.test", b"/gateway/bot"
BOT: dict[str, object] = {
    "url": "ws://gateway.test:8080/ws",
    "shards": 9,
    "session_start_limit": {
        "total": 1000, "remaining": 998, "reset_after": 14400000, "max_concurrency": 16,
    },
}  # fmt: skip
WELL_KNOWN: dict[str, object] = {"endpoints": {"api": "http://x", "gateway": "ws://fluxer.test"}}


class Question:
    """A shard whose connection to the discovery host is open."""

    def __init__(self, *, profile=ProfileId.DISCORD, host=HOST, port=80, path=PATH):
        LAB.reset()
        LAB.g(CLOCK).tsc_cycles_per_ms, LAB.g(CORE).now = MS, NOW
        config = LAB.g(CONFIG)
        config.gateway_port = port
        for name, text in (("gateway_host", host), ("gateway_path", path)):
            getattr(config, name)[: len(text)] = text
            setattr(config, f"{name}_len", len(text))
        set_token(LAB, TOKEN)
        LAB.g(PLAN).global_total = 9
        LAB.g(PERMITS).max_concurrency = 1
        LAB.g(PERMITS).keys[0].owner = 1
        self.at = LAB.shard()
        self.shard.attempts, self.shard.profile = 3, profile
        LAB.call(discovery_begin, shard=self.at)
        self.connect()

    def connect(self):
        self.stream = Stream(LAB, self.at, head=20_000)
        self.found.state = DiscoveryState.CONNECT
        LAB.call(discovery_send, shard=self.at)

    @property
    def shard(self):
        return LAB.view(ShardContext, self.at)

    @property
    def found(self):
        return LAB.g(DISCOVERY)

    @property
    def error(self):
        return self.found.error

    def read(self):
        for state, step in (
            (DiscoveryState.HEAD, discovery_head),
            (DiscoveryState.BODY, discovery_body),
        ):
            if self.found.state == state:
                LAB.call(step, shard=self.at)

    def hear(self, *parts, close=False):
        """Let parts of an answer arrive, then perhaps the end of the stream."""
        for part in parts:
            if self.found.state in (DiscoveryState.HEAD, DiscoveryState.BODY):
                self.stream.feed(part)
                self.read()
        if close and self.shard.tcp.state == TcpState.ESTABLISHED:
            self.stream.tcp.state = TcpState.CLOSE_WAIT
            self.read()
        return self

    def gateway(self):
        """Return what was found: host, port, path."""
        assert self.found.state == DiscoveryState.FOUND
        assert self.found.owner == 0
        host = bytes(self.found.gateway_host[: self.found.gateway_host_len])
        path = bytes(self.found.gateway_path[: self.found.gateway_path_len])
        return host, self.found.gateway_port, path

    def check_refused(self, error):
        assert self.found.state == DiscoveryState.REFUSED
        assert (self.error, self.found.owner) == (error, 0)
        self._check_failure(FailureFlag.FATAL)

    def check_later(self, error, wait_ms=5_000):
        assert self.found.state == DiscoveryState.IDLE
        assert (self.error, self.found.owner) == (error, 0)
        assert (self.found.failed_at, self.found.not_before) == (NOW, NOW + wait_ms * MS)
        self._check_failure(FailureFlag.WAIT if self.found.status == 429 else 0)
        asked = self.found.retry_after_ms != 0
        assert self.shard.required_wait_ms == (wait_ms if asked else 0)

    def _check_failure(self, flags):
        shard = self.shard
        assert (shard.failure, shard.last_error) == (End.NETWORK, self.error)
        assert shard.failure_flags == flags
        assert shard.websocket.http_status == self.found.status

    def lines(self):
        raw = LAB.machine.read(LAB.image.address(LOG_RING), LAB.g(LOG).head)
        return raw.decode().splitlines()


def ask(wire, *, close=False, **options):
    """Return a question that heard one answer in one part."""
    return Question(**options).hear(wire, close=close)


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


class TestDocument:
    @pytest.mark.parametrize("form", FORMS)
    def test_a_bot_document_gives_gateway_and_limits(self, form):
        q = ask(json_reply(200, BOT, form=form).wire(), close=True)
        assert q.gateway() == (b"gateway.test", 8080, b"/ws?v=10&encoding=json")
        permits = LAB.g(PERMITS)
        assert (permits.max_concurrency, permits.total, permits.remaining) == (16, 1000, 998)
        assert (permits.reset_after_ms, permits.said) == (14_400_000, 1)
        # Nobody holds the permit of a key that counts no more.
        assert permits.keys[0].owner == 0
        assert q.shard.tcp.state == TcpState.CLOSED
        assert q.lines()[-1].endswith(
            "code=discovery.found port=8080 max_concurrency=16 remaining=998 requests=1"
        )

    @pytest.mark.parametrize(
        ("shards", "total", "kept", "said"),
        [
            (9, 8, 9, "lifecycle.reshardRecommended total=8 recommended=9"),
            (9, 9, 9, None),
            (9, 16, 9, None),
            (
                2**32 - 1,
                1,
                2**32 - 1,
                "lifecycle.reshardRecommended total=1 recommended=4294967295",
            ),
            ("9", 8, 0, None),
            (9.5, 8, 0, None),
            (-9, 8, 0, None),
            ([9, 9], 8, 0, None),
            (None, 8, 0, None),
        ],
    )
    def test_more_shards_than_planned_are_recommended_once(self, shards, total, kept, said):
        q = Question()
        LAB.g(PLAN).global_total = total
        q.hear(json_reply(200, BOT | {"shards": shards}).wire())
        assert q.gateway() == (b"gateway.test", 8080, b"/ws?v=10&encoding=json")
        assert LAB.g(MOVES).recommended == kept
        codes = [line.split("code=")[1] for line in q.lines()]
        assert [line for line in codes if "reshard" in line] == ([said] if said else [])

    def test_in_a_fleet_the_plan_says_how_many_keys_there_are(self):
        q = Question()
        LAB.g(FLEET_CONFIG).magic, LAB.g(PERMITS).max_concurrency = FLEET_MAGIC, 4
        q.hear(json_reply(200, BOT).wire())
        assert q.gateway() == (b"gateway.test", 8080, b"/ws?v=10&encoding=json")
        permits = LAB.g(PERMITS)
        assert (permits.max_concurrency, permits.total, permits.remaining) == (4, 1000, 998)

    @pytest.mark.parametrize(
        ("fleet", "plan", "service", "said"),
        [
            (1, 4, 16, "plan=4 service=16"),
            (1, 16, 1, "plan=16 service=1"),
            (1, 4, 0, "plan=4 service=0"),
            (1, 4, 2**32 - 1, f"plan=4 service={PERMITS_MAX}"),
            (1, PERMITS_MAX, 2**32 - 1, None),
            (1, 16, 16, None),
            (1, 4, "16", None),
            (1, 4, None, None),
            (0, 4, 16, None),
        ],
    )
    def test_a_plan_with_other_keys_than_the_service_allows_is_told_of(
        self, fleet, plan, service, said
    ):
        q = Question()
        LAB.g(FLEET_CONFIG).magic = FLEET_MAGIC * fleet
        LAB.g(PERMITS).max_concurrency = plan
        limit = {"session_start_limit": {"total": 1000, "max_concurrency": service}}
        q.hear(json_reply(200, BOT | limit).wire())
        assert q.gateway() == (b"gateway.test", 8080, b"/ws?v=10&encoding=json")
        assert LAB.g(PERMITS).max_concurrency == (plan if fleet else service)
        codes = [line.split("code=")[1] for line in q.lines()]
        told = [f"fleet.maxConcurrencyDiffers {said}"] if said else []
        assert [line for line in codes if line.startswith("fleet")] == told

    def test_a_well_known_document_gives_the_gateway_alone(self):
        q = ask(json_reply(200, WELL_KNOWN).wire(), profile=ProfileId.FLUXER)
        assert q.gateway() == (b"fluxer.test", 80, b"/?v=1&encoding=json")
        permits = LAB.g(PERMITS)
        assert (permits.max_concurrency, permits.total, permits.keys[0].owner) == (1, 0, 1)

    @pytest.mark.parametrize(
        ("limit", "keys", "owner"),
        [
            ({"max_concurrency": 1}, 1, 1),
            ({"max_concurrency": 0}, 1, 1),
            ({"max_concurrency": 300}, 256, 0),
            ({"max_concurrency": 2**32 - 1}, 256, 0),
            ({"max_concurrency": "16"}, 1, 1),
            ({"max_concurrency": 2.0}, 1, 1),
            ({}, 1, 1),
            (None, 1, 1),
        ],
    )
    def test_a_limit_that_is_none_leaves_what_is_configured(self, limit, keys, owner):
        document = BOT | {"session_start_limit": limit}
        ask(json_reply(200, document).wire())
        permits = LAB.g(PERMITS)
        assert (permits.max_concurrency, permits.keys[0].owner) == (keys, owner)
        assert permits.total == 0

    @pytest.mark.parametrize(
        ("limit", "kept", "owner"),
        [
            ({"total": 7}, (7, 0, 0), 0),
            ({"remaining": 5}, (0, 5, 0), 1),
            ({"reset_after": 9}, (0, 0, 9), 1),
            ({"total": "7", "remaining": 5, "reset_after": 9}, (0, 5, 9), 1),
            ({"total": 7, "remaining": "5", "reset_after": None}, (7, 0, 0), 0),
        ],
    )
    def test_each_number_of_a_limit_counts_by_itself(self, limit, kept, owner):
        ask(json_reply(200, BOT | {"session_start_limit": limit}).wire())
        permits = LAB.g(PERMITS)
        assert (permits.total, permits.remaining, permits.reset_after_ms) == kept
        assert permits.said == 0
        assert permits.keys[0].owner == owner

    @pytest.mark.parametrize(
        ("url", "gateway"),
        [
            ("ws://a", (b"a", 80, b"/?v=10&encoding=json")),
            ("ws://a?b=c", (b"a", 80, b"/?b=c&v=10&encoding=json")),
            ("ws://10.0.2.2:1/x/", (b"10.0.2.2", 1, b"/x/?v=10&encoding=json")),
            ("ws://a/" + "p" * 153, (b"a", 80, b"/" + b"p" * 153 + b"?v=10&encoding=json")),
        ],
    )
    def test_urls(self, url, gateway):
        assert ask(json_reply(200, BOT | {"url": url}).wire()).gateway() == gateway

    @pytest.mark.parametrize(
        ("url", "error"),
        [
            ("wss://gateway.discord.gg", DISCOVERY_URL.code | UrlFault.SECURITY),
            ("http://a", DISCOVERY_URL.code | UrlFault.SCHEME),
            ("ws:/a/", DISCOVERY_URL.code | UrlFault.SCHEME),
            ("", DISCOVERY_URL.code | UrlFault.SCHEME),
            ("ws://", DISCOVERY_URL.code | UrlFault.HOST),
            ("ws://a:0", DISCOVERY_URL.code | UrlFault.PORT),
            ("ws://a/ b", DISCOVERY_URL.code | UrlFault.TARGET),
            ("ws://a/#", DISCOVERY_URL.code | UrlFault.TARGET),
            ("ws://" + "a" * 156, DISCOVERY_URL.code | UrlFault.TOO_LONG),
            (None, DISCOVERY_URL.code | UrlFault.ABSENT),
            (7, DISCOVERY_URL.code | UrlFault.ABSENT),
        ],
    )
    def test_urls_that_cannot_be_used_end_it_for_good(self, url, error):
        ask(json_reply(200, BOT | {"url": url}).wire()).check_refused(error)

    @pytest.mark.parametrize(
        ("body", "state"),
        [
            (b"", JsonState.START),
            (b"[]", JsonState.START),
            (b'{"url":', JsonState.VALUE),
            (b"{} x", JsonState.END),
            (b"<html>", JsonState.START),
        ],
    )
    def test_what_is_no_document_ends_it_for_good(self, body, state):
        ask(Reply(200, body).wire()).check_refused(DISCOVERY_DOCUMENT.code | state)

    @settings(max_examples=60, deadline=None)
    @given(
        cuts=st.lists(st.integers(1, 60), min_size=1, max_size=40),
        form=st.sampled_from(FORMS),
        profile=st.sampled_from(ProfileId),
    )
    def test_any_parts(self, cuts, form, profile):
        document = BOT if profile == ProfileId.DISCORD else WELL_KNOWN
        wire = json_reply(200, document, (("X-Any", "thing"),), form).wire()
        parts = []
        for cut in cuts:
            parts.append(wire[:cut])
            wire = wire[cut:]
        Question(profile=profile).hear(*parts, wire, close=True).gateway()


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


class TestRedirect:
    @pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
    @pytest.mark.parametrize(
        ("location", "host", "port", "path", "token"),
        [
            ("/x?y=z", HOST, 80, b"/x?y=z", 1),
            ("http://api.test/", HOST, 80, b"/", 1),
            ("http://api.test:80", HOST, 80, b"/", 1),
            ("http://api.test?q", HOST, 80, b"/?q", 1),
            ("http://api.test:81/a", HOST, 81, b"/a", 0),
            ("http://api.tesu/a", b"api.tesu", 80, b"/a", 0),
            ("http://bpi.test/a", b"bpi.test", 80, b"/a", 0),
            ("/" + "p" * 255, HOST, 80, b"/" + b"p" * 255, 1),
            ("http://b", b"b", 80, b"/", 0),
            ("http://" + "h" * 128 + ":65535/" + "p" * 242, b"h" * 128, 65535, b"/" + b"p" * 242, 0),
        ],
    )  # fmt: skip
    def test_is_followed_and_the_token_stays(self, status, location, host, port, path, token):
        q = ask(redirect(location, status).wire())
        found = q.found
        assert found.state == DiscoveryState.RESOLVE
        assert bytes(found.host[: found.host_len]) == host
        assert bytes(found.path[: found.path_len]) == path
        assert (found.port, found.token, found.redirects) == (port, token, 1)
        assert q.shard.tcp.state == TcpState.CLOSED
        assert q.shard.failure == End.NONE

    def test_the_token_does_not_come_back(self):
        q = ask(redirect("http://b/").wire())
        q.connect()
        q.hear(redirect("http://api.test/").wire())
        q.stream.take_sent()
        q.connect()
        assert b"Authorization" not in q.stream.take_sent()

    def test_the_fourth_is_refused(self):
        q = Question()
        for _ in range(3):
            q.hear(redirect("/again").wire())
            assert q.found.state == DiscoveryState.RESOLVE
            q.connect()
        q.hear(redirect("/again").wire()).check_refused(DISCOVERY_REDIRECTS.code)

    @pytest.mark.parametrize(
        ("location", "error"),
        [
            ("https://api.test/", DISCOVERY_LOCATION.code | UrlFault.SECURITY),
            ("//other.test/", DISCOVERY_LOCATION.code | UrlFault.SCHEME),
            ("ftp://a/", DISCOVERY_LOCATION.code | UrlFault.SCHEME),
            ("gateway", DISCOVERY_LOCATION.code | UrlFault.SCHEME),
            ("http:/a", DISCOVERY_LOCATION.code | UrlFault.SCHEME),
            ("http://", DISCOVERY_LOCATION.code | UrlFault.HOST),
            ("http://a:99999/", DISCOVERY_LOCATION.code | UrlFault.PORT),
            ("http://user@a/", DISCOVERY_LOCATION.code | UrlFault.PORT),
            ("/a b", DISCOVERY_LOCATION.code | UrlFault.TARGET),
            ("/" + "p" * 256, DISCOVERY_LOCATION.code | UrlFault.TARGET),
            ("http://a?" + "p" * 255, DISCOVERY_LOCATION.code | UrlFault.TARGET),
            ("/" + "p" * 384, DISCOVERY_LOCATION.code | UrlFault.TOO_LONG),
        ],
    )
    def test_to_nowhere_is_refused(self, location, error):
        ask(redirect(location).wire()).check_refused(error)

    def test_without_a_place_is_refused(self):
        ask(Reply(302).wire()).check_refused(DISCOVERY_LOCATION.code)


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
