"""The release image asks where its gateway is: one question for all shards, whatever comes back."""

from __future__ import annotations

import itertools

import pytest

from emulator.simulation.clock import NS_PER_S
from emulator.simulation.rig import GATEWAY_ADDRESS
from firmware.layouts.discovery import (
    DISCOVERY,
    DISCOVERY_LOCATION,
    DISCOVERY_REDIRECTS,
    DISCOVERY_STATUS,
    DISCOVERY_TOO_BIG,
    DISCOVERY_UNAVAILABLE,
    DISCOVERY_URL,
    DOCUMENT_MAX,
    DiscoveryMode,
)
from firmware.layouts.gateway import UrlFault
from firmware.layouts.policy import OnLimit
from firmware.layouts.profile import ProfileId
from firmware.layouts.shard import End, Phase, ShardState
from pxe.gateway import Step
from pxe.gateway.rest import FORMS, Reply, json_reply, rate_limit, redirect

S = ShardState
PATHS = {ProfileId.DISCORD: "/gateway/bot", ProfileId.FLUXER: "/.well-known/fluxer"}
SHARDS = 16


@pytest.fixture
def asking(rig_of, facts):
    """Return a maker of rigs whose node asks the gateway's own host."""

    def make(*, profile=ProfileId.DISCORD, seed=1, shards=SHARDS, config=None, **options):
        node = facts(
            shards=shards,
            profile=profile,
            discovery=DiscoveryMode.HTTP,
            path=PATHS[profile],
            **(config or {}),
        )
        return rig_of(seed, node, **options)

    return make


def questions(rig):
    """Return the GET requests: when, for what, and whether the token came along."""
    return [
        (event.at_ms, event.fields["path"], event.fields["authorized"])
        for event in rig.gateway.events
        if event.name == "http"
    ]


def seconds_between(rig):
    times = [at for at, _path, _token in questions(rig)]
    return [round((b - a) / 1000) for a, b in itertools.pairwise(times)]


def row(rig, slot=0):
    return rig.invariants.rows[slot]


def statuses(rig):
    return {rig.node.shard(slot).evidence.http_status for slot in range(rig.facts.shards)}


def errors(rig):
    return {r.evidence_error for r in rig.invariants.rows}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("profile", ProfileId)
def test_sixteen_shards_ask_once_and_become_ready(asking, profile, form):
    rig = asking(profile=profile, http_form=form)
    rig.until_ready(10)
    ((_at, path, token),) = questions(rig)
    assert path == PATHS[profile]
    assert token == (profile == ProfileId.DISCORD)
    assert len(rig.monitor.dials(GATEWAY_ADDRESS, 80)) == SHARDS + 1
    assert [s.identifies for s in rig.stats.shards] == [1] * SHARDS
    assert [r.reconnects for r in rig.invariants.rows] == [0] * SHARDS


@pytest.mark.parametrize("faults", ["drop p=0.1", "reorder p=0.2 by=20ms; duplicate p=0.1"])
def test_a_bad_network_changes_nothing(asking, faults):
    rig = asking(shards=4, faults=faults)
    rig.until_ready(60)
    assert len(questions(rig)) >= 1


def test_what_was_found_is_not_asked_for_again(asking):
    rig = asking(shards=4)
    rig.until_ready(10)
    for shard in range(4):
        rig.gateway.core.invalidate(shard, resumable=False)
    rig.gateway.flush()
    rig.run(30)
    assert rig.all_ready()
    assert [s.identifies for s in rig.stats.shards] == [2] * 4
    assert len(questions(rig)) == 1


def test_the_limits_of_the_answer_pace_identify(asking):
    # Configured for one at a time; the service says that all four may go at once.
    rig = asking(shards=4, config={"max_concurrency": 1}, max_concurrency=16)
    rig.until_ready(4)
    # And the other way round.
    slow = asking(shards=4, config={"max_concurrency": 16}, max_concurrency=1)
    slow.until_ready(40)
    assert slow.now_s() >= 15
    assert slow.stats.identify_gate_refusals == 0
    assert [slow.node.shard(slot).attempts for slot in range(4)] == [1] * 4


@pytest.mark.parametrize(("told", "budget_s"), [(1, 30 + 75), (16, 30)])
@pytest.mark.parametrize("configured", [1, 4, 16])
def test_the_limits_of_the_answer_move_the_end_of_the_startup(asking, configured, told, budget_s):
    config = {"max_concurrency": configured, "on_limit": OnLimit.FATAL}
    rig = asking(config=config, max_concurrency=told)
    # Late in the startup one shard loses an attempt; what is left has to be enough for the next.
    rig.gateway.core.add_steps(Step(on="identify", do="kick", code=4000, instead=True, shard=12))
    rig.until_ready(budget_s)
    budgets = [x["budgetMs"] for x in rig.node.log if x["code"] == "lifecycle.startupDeadline"]
    before = 30_000 + (SHARDS // configured - 1) * 5_000
    assert budgets == [str(before)] + [str(budget_s * 1_000)] * (configured != told)
    assert [r.reconnects for r in rig.invariants.rows] == [int(n == 12) for n in range(SHARDS)]


def test_a_rate_limit_then_trouble_then_the_answer_cost_three_questions(asking):
    rig = asking()
    rig.gateway.core.answer_http(rate_limit(30), Reply(503))
    rig.run(29)
    assert len(questions(rig)) == 1
    assert statuses(rig) == {429}
    assert errors(rig) == {DISCOVERY_UNAVAILABLE.code | 429}
    rig.until_ready(30)
    first, second = seconds_between(rig)
    assert first >= 30
    assert 5 <= second <= 12
    assert statuses(rig) <= {429, 503}


SHORT_STARTUP = {"max_concurrency": 1, "startup_timeout_ms": 10_000, "attempt_timeout_ms": 9_000}


def ends(rig, code):
    """Return slot, time, classification and reason of every line of a code."""
    return {
        int(line["shard"]): (int(line["t"]), line["classification"], line["stop"])
        for line in rig.node.log
        if line["code"] == code
    }


def test_a_wait_beyond_the_startup_ends_it_for_every_shard(asking):
    # The second shard begins when its key is free, after the question of the first has failed.
    rig = asking(shards=2, config=SHORT_STARTUP | {"on_limit": OnLimit.FATAL}, max_concurrency=1)
    rig.gateway.core.answer_http(rate_limit(60), Reply(silent=True))
    rig.run(9)
    found = ends(rig, "lifecycle.connectionEnded")
    assert {slot: end[1:] for slot, end in found.items()} == dict.fromkeys(
        range(2), ("RateLimitError", "startup_deadline")
    )
    rig.run(120)
    assert rig.all_in(S.FATAL)
    assert len(questions(rig)) == 1


def test_a_wait_beyond_the_startup_is_reported_once_and_waited_for(asking):
    rig = asking(shards=2, config=SHORT_STARTUP, max_concurrency=1)
    rig.gateway.core.answer_http(rate_limit(60), Reply(silent=True))
    rig.run(59)
    found = ends(rig, "lifecycle.startupLimit")
    assert [end[1] for end in found.values()] == ["RateLimitError"] * 2
    assert len(questions(rig)) == 1
    # Then the next question gets no answer, and the attempt ends with the budget of its own.
    rig.world.run_until(lambda: len(questions(rig)) == 2, within_ns=10 * NS_PER_S)
    (asked,) = (at for at, _path, _token in questions(rig)[1:])
    rig.world.run_until(lambda: row(rig).state == S.BACKOFF, within_ns=20 * NS_PER_S)
    assert rig.now_s() * 1_000 - asked == pytest.approx(9_000, abs=300)
    rig.until_ready(60)


def test_a_wait_that_only_the_document_tells_counts(asking):
    rig = asking(shards=2)
    rig.gateway.core.answer_http(rate_limit(1, header=False, body=61.5))
    rig.until_ready(90)
    (between,) = seconds_between(rig)
    assert 61 < between <= 68


def test_three_redirects_are_followed_and_the_fourth_is_not(asking):
    rig = asking(shards=2)
    places = ["/0", "/1", "/gateway/bot"]
    rig.gateway.core.answer_http(*map(redirect, places))
    rig.until_ready(10)
    assert [path for _at, path, _token in questions(rig)] == ["/gateway/bot", *places]

    rig = asking(shards=2)
    rig.gateway.core.answer_http(*[redirect(f"/{n}") for n in range(4)])
    rig.run(60)
    assert len(questions(rig)) == 4
    assert rig.states == [S.FATAL] * 2
    assert errors(rig) == {DISCOVERY_REDIRECTS.code}


def test_the_token_follows_no_redirect_to_another_host(asking):
    rig = asking(shards=2)
    other = rig.internet.gateway("other.test", "203.0.113.9", 81, sessions_of="gateway.test")
    other.core.answer_http(redirect("http://other.test:81/a"), redirect("http://gateway.test/b"))
    rig.run(5)
    assert [(path, token) for _at, path, token in questions(rig)] == [
        ("/gateway/bot", True),
        ("/a", False),
        ("/b", False),
    ]


@pytest.mark.parametrize(
    ("reply", "site"),
    [
        (json_reply(404, {}), DISCOVERY_STATUS.code | 404),
        (json_reply(401, {}), DISCOVERY_STATUS.code | 401),
        (json_reply(200, {"url": "wss://a"}), DISCOVERY_URL.code | UrlFault.SECURITY),
        (redirect("https://discord.com/"), DISCOVERY_LOCATION.code | UrlFault.SECURITY),
        (Reply(200, b" " * (DOCUMENT_MAX + 1), form="close"), DISCOVERY_TOO_BIG.code),
        (Reply(200, b" " * (DOCUMENT_MAX + 1), form="chunked"), DISCOVERY_TOO_BIG.code),
    ],
)  # fmt: skip
def test_an_answer_that_asking_again_cannot_change_is_final(asking, reply, site):
    rig = asking(shards=3)
    rig.gateway.core.answer_http(reply)
    rig.run(200)
    assert rig.states == [S.FATAL] * 3
    assert errors(rig) == {site}
    assert {End(r.evidence_end) for r in rig.invariants.rows} == {End.NETWORK}
    assert len(questions(rig)) == 1


@pytest.mark.parametrize("reply", [Reply(raw=b"what?\r\n\r\n"), Reply(raw=b""), Reply(502)])
def test_an_answer_that_is_none_is_asked_for_again(asking, reply):
    rig = asking(shards=3)
    rig.gateway.core.answer_http(reply)
    rig.until_ready(30)
    (between,) = seconds_between(rig)
    assert 5 <= between <= 12


def test_silence_lasts_as_long_as_an_attempt(asking):
    rig = asking(shards=3)
    rig.gateway.core.answer_http(Reply(silent=True))
    rig.run(29)
    assert rig.states == [S.STARTING] * 3
    rig.run(3)
    # Who tries again by now waits for the permit, whose key is busy for five seconds.
    assert {each.attempts for each in rig.invariants.rows} == {1}
    assert all(each.phase in (Phase.NONE, Phase.PERMIT) for each in rig.invariants.rows)
    assert End(row(rig).evidence_end) == End.TIMEOUT
    rig.until_ready(20)
    (between,) = seconds_between(rig)
    assert 30 < between <= 42


def test_a_host_that_refuses_is_tried_again(asking):
    rig = asking(shards=3, config={"port": 81})
    rig.run(20)
    assert questions(rig) == []
    assert S.FATAL not in rig.states
    assert 2 <= len(rig.monitor.dials(GATEWAY_ADDRESS, 81)) <= 5


def test_a_host_without_a_name_is_tried_again(asking):
    rig = asking(shards=2, config={"host": "nowhere.test"})
    rig.run(20)
    assert rig.monitor.dials() == []
    assert S.FATAL not in rig.states


def test_the_answer_lies_in_one_place_for_all(asking):
    rig = asking(shards=2)
    rig.until_ready(10)
    found = rig.node.g(DISCOVERY)
    assert (found.gateway_port, found.requests, found.owner) == (80, 1, 0)
