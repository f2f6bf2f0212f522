"""Documents that name the gateway: which are taken, what they limit, and which end it for good."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware.layouts.discovery import DISCOVERY_DOCUMENT, DISCOVERY_URL
from firmware.layouts.fleet_config import FLEET_CONFIG, FLEET_MAGIC
from firmware.layouts.gateway import UrlFault
from firmware.layouts.json import JsonState
from firmware.layouts.node import PLAN
from firmware.layouts.permit import PERMITS, PERMITS_MAX
from firmware.layouts.plan import MOVES
from firmware.layouts.profile import ProfileId
from firmware.layouts.tcp import TcpState
from pxe.gateway.rest import FORMS, Reply, json_reply
from tests.support.discovery import BOT, LAB, WELL_KNOWN, Question, ask


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
