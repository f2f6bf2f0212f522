"""A QEMU node shows every reason that ends a connection, in its lines and in `shardfw status`."""

import asyncio
import json
import re

import pytest

from tests.support.end_reasons import (
    HEARTBEAT_MS,
    REASONS,
    SHARDS,
    page_lines,
    script,
    without_numbers,
)
from tests.support.site import PATIENCE_S, quiet, running
from tests.system.test_run import cli

pytestmark = pytest.mark.system
RECORDS = ("code=lifecycle.connectionLost ", "code=lifecycle.retry ")


async def run(folder):
    options = quiet(
        shards=SHARDS,
        max_concurrency=SHARDS,
        heartbeat_interval_ms=HEARTBEAT_MS,
        heartbeat_grace_ms=60_000,
        identify_tolerance_ms=2_000,
        script=script(),
    )
    overrides = {
        "shards.total": SHARDS, "shards.count": SHARDS, "gateway.max_concurrency": SHARDS,
    }  # fmt: skip
    async with running(folder, options, overrides) as site:
        await site.node.wait_line("reason=timeout", PATIENCE_S)
        await site.until(lambda stats: stats.shards[REASONS["timeout"]].resumes == 1)
        asked = ("status", "--json", "--host", "127.0.0.1", "--port", str(site.diagnostics))
        status = await asyncio.to_thread(cli, *asked)
        assert status.returncode == 0, status.stderr
        lines = [line.text for line in site.node.lines]
        return lines, json.loads(status.stdout)["shards"], site.gateway.stats()


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    return asyncio.run(run(tmp_path_factory.mktemp("ends")))


def records(lines, shard):
    return [
        line
        for line in lines
        if f" shard={shard} " in line and any(code in line for code in RECORDS)
    ]


# Reason to classification, next handshake, code of its record and what the sentence says.
SAYS = {
    "closed": (
        "closed", "resume", "connectionLost",
        "The gateway closed the connection with code 4000 (Unknown error: ",
    ),
    "heartbeatTimeout": (
        "network", "resume", "connectionLost",
        "The gateway did not acknowledge a heartbeat in time. It resumes its session in ",
    ),
    "reconnectRequested": (
        "closed", "resume", "connectionLost",
        "The gateway asked for a reconnect. It resumes its session in ",
    ),
    "invalidSession": (
        "closed", "identify", "connectionLost",
        "It starts a new session after the wait that the gateway requires, ",
    ),
    "protocol": (
        "protocol", "identify", "connectionLost",
        "The gateway sent data that the node cannot accept. It starts a new session in ",
    ),
    "network": (
        "network", "resume", "connectionLost",
        "The gateway connection failed in TCP. It resumes its session in ",
    ),
    "timeout": (
        "ConnectionTimeoutError", "resume", "retry",
        "could not connect. The connection attempt did not finish in time after Resume. It resumes ",
    ),
}  # fmt: skip


@pytest.mark.parametrize("reason", REASONS)
def test_each_end_reason_has_its_line_and_its_status(seen, reason):
    lines, rows, stats = seen
    classification, following, code, sentence = SAYS[reason]
    shard = REASONS[reason]
    line = records(lines, shard)[-1]
    assert re.match(rf"t=\d+ level=warn shard={shard} code=lifecycle\.{code} attempt=\d ", line)
    assert f" reason={reason} classification={classification} " in line
    assert f" next={following} " in line
    assert sentence in line

    row = rows[shard]
    failure = row["last_failure"]
    assert (row["shard"], row["state"], row["recovering"]) == (shard, "READY", False)
    assert (failure["reason"], failure["classification"]) == (reason, classification)
    assert failure["next_step"] == following
    assert f" delayMs={failure['delay_ms']} " in line
    assert row["gap"] == {"resume": "replayed", "identify": "possible"}[following]

    resumed = following == "resume"
    account = stats.shards[shard]
    assert (account.identifies, account.resumes) == (2 - resumed, int(resumed))
    assert any(
        f" shard={shard} code=lifecycle.ready " in text and f" mode={following} " in text
        for text in lines
    )


def test_the_shard_that_is_left_alone_says_none_of_this(seen):
    lines, rows, stats = seen
    assert records(lines, SHARDS - 1) == []
    assert rows[SHARDS - 1]["last_failure"] is None
    assert (stats.shards[-1].identifies, stats.shards[-1].connections) == (1, 1)


def test_the_page_shows_these_lines(seen):
    lines, _, _ = seen
    shown = [records(lines, shard)[-1] for shard in REASONS.values()]
    assert [without_numbers(line) for line in page_lines()] == [
        without_numbers(line) for line in shown
    ], "\n".join(f"    {line}" for line in shown)
