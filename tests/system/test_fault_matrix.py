"""Every fault of the matrix befalls one shard of one QEMU node; all run side by side."""

import asyncio
from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest

from firmware.errors import SITES
from firmware.layouts.log import CONNECTION_ENDED, CONNECTION_LOST, CONNECTION_RETRY
from pxe.gateway.accounting import GatewayStats
from pxe.gateway.events import GatewayEvent
from tests.support.fault import HEARTBEAT_MS, Ended
from tests.support.fault_matrix import FAULTS, QUIET, SHARDS
from tests.support.site import quiet, running
from toolchain.cli.diagnostics import node_report, shard_report
from toolchain.cli.loglines import LogLine, parse_line

pytestmark = pytest.mark.system
PATIENCE_S = 150
NUMBER = {fault.name: n for n, fault in enumerate(FAULTS)}
LONGEST = NUMBER["Resume unanswered while ACKs come"]
DIALS_MOST = 25
"""Of a shard in a minute of failures; doubled delays below a second at first, 30 s at last."""
RECORDS = (CONNECTION_LOST, CONNECTION_RETRY, CONNECTION_ENDED)


@dataclass
class Seen:
    """What came out.

    Attributes:
        stats: The gateway's counts.
        events: The gateway's events, by shard.
        lines: The node's log lines, by shard.
        node: What the node says of itself.
        shards: What it says of each shard.
    """

    stats: GatewayStats
    events: dict[int | None, list[GatewayEvent]]
    lines: dict[int | None, list[LogLine]]
    node: dict[str, Any]
    shards: list[dict[str, Any]]

    def records(self, shard):
        return [line for line in self.lines[shard] if line.code in RECORDS]

    def named(self, fault, code):
        return [line for line in self.lines[NUMBER[fault]] if line.code.name == code]

    def times(self, fault, event):
        return [e.at_ms for e in self.events[NUMBER[fault]] if e.name == event]


async def run(folder):
    events, lines = defaultdict(list), defaultdict(list)
    options = quiet(
        shards=SHARDS,
        max_concurrency=SHARDS,
        heartbeat_interval_ms=HEARTBEAT_MS,
        # The node's own verdicts are looked at here, and what the wire and a busy machine add is not.
        heartbeat_grace_ms=60_000,
        identify_tolerance_ms=2_000,
        doors=True,
        resume_urls={n: fault.url for n, fault in enumerate(FAULTS) if fault.url is not None},
        script=tuple(step for n, fault in enumerate(FAULTS) for step in fault.script(n)),
    )
    overrides = {
        "shards.total": SHARDS, "shards.count": SHARDS, "gateway.max_concurrency": SHARDS,
        "backoff.policy": "jittered", "startup.on_limit": "retry",
    }  # fmt: skip

    def refuse(core):
        for n, fault in enumerate(FAULTS):
            if fault.upgrade is not None:
                core.refuse_upgrades(fault.upgrade, shard=n)

    def observe(event):
        events[event.shard].append(event)

    async with running(folder, options, overrides, observer=observe, connected=False) as site:
        await site.gateway.call(refuse)
        await site.gateway.wait_until(lambda s: s.shards[LONGEST].identifies == 2, PATIENCE_S)
        await site.node.wait_line(rf"shard={LONGEST} code=lifecycle.ready .* mode=identify", 10, 60)
        stats, replies = site.gateway.stats(), await site.status()
        for line in map(parse_line, (line.text for line in site.node.lines)):
            if line is not None:
                lines[line.shard].append(line)
        shards = [shard_report(reply) for reply in replies]
        return Seen(stats, events, lines, node_report(replies[0]), shards)


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    return asyncio.run(run(tmp_path_factory.mktemp("faults")))


def ended(line):
    """Return what a record says."""
    values = line.values
    site = SITES[int(values["error"]) & 0xFFFF_0000].name
    return Ended(values["reason"], values["classification"], values.get("next", ""), site)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_the_node_answers_as_the_table_says(seen, fault):
    n = NUMBER[fault.name]
    account, row = seen.stats.shards[n], seen.shards[n]
    ends = [ended(line) for line in seen.records(n)]
    if fault.repeats:
        assert ends == [*fault.ends[:-1], *[fault.ends[-1]] * (len(ends) - len(fault.ends) + 1)]
        assert 3 <= row["attempts"] <= DIALS_MOST
    else:
        assert ends == list(fault.ends)
        assert account.closes == fault.closes
        assert row["state"] == fault.state
        assert row["attempts"] == len(ends) + (fault.state == "READY")
    assert (account.identifies, account.resumes) == (fault.identifies, fault.resumes)
    assert account.duplicate_sessions == 0
    if fault.sequence is not None:
        assert row["sequence"] == fault.sequence
    if not ends:
        assert row["last_failure"] is None
        return
    failure = row["last_failure"]
    assert (failure["reason"], failure["classification"]) == ends[-1][:2]
    assert (failure["next_step"] or "") == ends[-1].next


def test_the_shard_that_is_left_alone_notices_nothing(seen):
    account, row = seen.stats.shards[QUIET], seen.shards[QUIET]
    assert (account.identifies, account.connections, account.resumes) == (1, 1, 0)
    assert account.closes == {}
    assert seen.records(QUIET) == []
    assert (row["state"], row["attempts"], row["last_failure"]) == ("READY", 1, None)


def test_nobody_identified_too_early_and_no_line_was_lost(seen):
    assert seen.stats.identify_gate_refusals == 0
    assert seen.node["log_dropped"] == 0


@pytest.mark.parametrize(
    ("fault", "site", "times", "least_ms"),
    [("no Hello", "hello_timeout", 1, 10_000),
     ("Resume unanswered while ACKs come", "resume_timeout", 3, 20_000)],
)  # fmt: skip
def test_silence_is_waited_for_exactly_so_long(seen, fault, site, times, least_ms):
    pairs = [(a, b) for a, b in pairwise(seen.records(NUMBER[fault])) if ended(b).site == site]
    assert len(pairs) == times
    for before, after in pairs:
        waited = after.t_ms - before.t_ms - int(before.values["delayMs"])
        assert least_ms <= waited < least_ms + 5_000


def test_a_beat_without_ack_is_given_one_interval(seen):
    for fault in ("no ACK, silence", "no ACK while events flow"):
        (zombie,) = seen.named(fault, "gateway.zombie")
        assert HEARTBEAT_MS <= int(zombie.values["pending"]) < 2 * HEARTBEAT_MS
        assert zombie.values["misses"] == 1
    assert seen.stats.shards[NUMBER["no ACK while events flow"]].published > 10


def test_required_waits_are_kept(seen):
    (limited,) = seen.records(NUMBER["close 4008"])
    assert int(limited.values["delayMs"]) >= 5_000
    for line in seen.records(NUMBER["op 9 false to every Identify"]):
        assert int(line.values["delayMs"]) >= 1_000
    identifies = seen.times("op 9 false to every Identify", "identify")
    assert all(b - a >= 3_000 for a, b in pairwise(identifies))


def test_the_startup_limit_is_reported_once_and_the_shard_goes_on(seen):
    (limit,) = seen.named("op 9 false to every Identify", "lifecycle.startupLimit")
    assert limit.values["stop"] == "startup_attempts"
    assert len(seen.records(NUMBER["op 9 false to every Identify"])) > 3


def test_a_fatal_close_ends_one_shard_alone(seen):
    (line,) = seen.records(NUMBER["close 4004"])
    assert line.values["stop"] == "auth"
    assert [row["shard"] for row in seen.shards if row["state"] == "FATAL"] == [
        NUMBER["close 4004"]
    ]


def test_a_forced_beat_is_answered_each_time(seen):
    asked = seen.stats.shards[NUMBER["op 1 five times"]].heartbeats
    quiet_ = seen.stats.shards[QUIET].heartbeats
    assert 4 <= asked - quiet_ <= 6


def test_what_is_odd_is_said(seen):
    assert len(seen.named("READY without a resume URL", "gateway.resume_url_ignored")) == 1
    (lower,) = seen.named("replay below the resumed sequence", "gateway.sequence_lower")
    assert (lower.values["got"], lower.values["known"]) == (2, 4)
