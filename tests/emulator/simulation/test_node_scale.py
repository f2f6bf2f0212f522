"""A full node: 256 shards on one image, and all of them reconnecting at once."""

from __future__ import annotations

from itertools import pairwise

import pytest

from emulator.simulation.clock import NS_PER_MS
from emulator.simulation.node import TSC_AT_ZERO
from firmware.layouts.memory import MEMORY, TABLE_PAGES
from firmware.layouts.node import CORE
from firmware.layouts.policy import DEFAULTS
from firmware.layouts.profile import DISCORD
from firmware.limits import MMIO_BYTES, PAGE, SHARDS_MAX

KEYS = 16
OUTAGE_S = 40
WINDOW_MS = DEFAULTS["min_delay_ms"]
"""The jitter of the first try after a loss."""
RESUMED_AFTER_MS = 3_000
"""From the end of a delay to RESUMED, when many dial together and a SYN is lost."""
RESUMES_WITHIN_MS = 20_000
"""A SYN that was lost is sent again, a name asked for again; nothing else holds a Resume back."""


@pytest.fixture
def full(rig_of, facts):
    """A node that holds as many shards as it can, all READY."""
    # The gateway keeps sessions longer than the outage lasts.
    options = {
        "heartbeat_interval_ms": 10_000,
        "heartbeat_grace_ms": 300_000,
        "guilds_per_shard": 0,
    }
    rig = rig_of(1, facts(shards=SHARDS_MAX, max_concurrency=KEYS), **options)
    rig.until_ready(120)
    return rig


def times(rig, name, since_ms):
    """When the gateway saw an event of that name, by shard, since a time."""
    found: dict[int, list[int]] = {}
    for event in rig.gateway.events:
        if event.name == name and event.at_ms >= since_ms:
            found.setdefault(event.shard, []).append(event.at_ms)
    return found


def test_256_shards_become_ready_and_stay_so(full):
    attempts = [row.attempts for row in full.invariants.rows]
    full.run(30)
    assert full.all_ready()
    assert attempts == [row.attempts for row in full.invariants.rows] == [1] * SHARDS_MAX
    assert full.stats.identify_gate_refusals == 0
    # Every window of the node has its tables: those of DMA and of devices come on top of these.
    tables = int(full.node.g(MEMORY).tables_used)
    assert tables + 1 + MMIO_BYTES // (512 * PAGE) <= TABLE_PAGES


def test_ports_of_256_shards_differ_and_lead_back(full):
    ports = [row.tcp_local_port for row in full.invariants.rows]
    assert len(set(ports)) == SHARDS_MAX
    full.gateway.peer_of(SHARDS_MAX - 1).abort()
    full.run(1)
    lost = [n for n, row in enumerate(full.invariants.rows) if row.reconnects]
    assert lost == [SHARDS_MAX - 1]


def test_after_a_link_flap_resumes_are_unpaced_and_identifies_keep_the_gate(full):
    """All 256 connections die; two sessions of every key are gone at the gateway."""
    link = full.world.port("node")
    link.set_link(up=False)
    full.run(OUTAGE_S)
    assert not any(row.connected_at for row in full.invariants.rows)
    roster = full.gateway.core.roster
    forgotten = set(range(2 * KEYS))
    for shard in forgotten:
        for session in list(roster.of_shard(shard)):
            roster.drop(session)
    back_ms = full.world.now_ns // NS_PER_MS
    link.set_link(up=True)
    full.until_ready(180)

    resumed, identified = times(full, "resumed", back_ms), times(full, "identify", back_ms)
    assert resumed.keys() == set(range(SHARDS_MAX)) - forgotten
    assert identified.keys() == forgotten
    last = max(moment for moments in resumed.values() for moment in moments)
    assert last - back_ms < RESUMES_WITHIN_MS
    for key in range(KEYS):
        moments = sorted(t for s, ts in identified.items() if s % KEYS == key for t in ts)
        assert all(b - a >= DISCORD.identify_spacing_ms for a, b in pairwise(moments))
    assert full.stats.identify_gate_refusals == 0


def test_a_storm_of_256_reconnects_spreads_over_the_jitter_window(full):
    """All connections are reset at once; whoever sees it dials when its own chance says."""
    full.run(70)  # health starts the step again
    full.gateway.core.restart(keep_sessions=True)
    full.gateway.flush()
    begun_ms = full.world.now_ns // NS_PER_MS
    full.run(0.05)
    seen = [row for row in full.invariants.rows if row.reconnects]
    # The card has a buffer for each of the resets.
    assert len(seen) == SHARDS_MAX
    assert full.node.card.dropped == 0
    assert {row.evidence_failed_at // NS_PER_MS for row in seen} <= set(
        range(begun_ms + TSC_AT_ZERO // NS_PER_MS, begun_ms + TSC_AT_ZERO // NS_PER_MS + 50)
    )
    full.until_ready(30)
    rows, resumed = full.invariants.rows, times(full, "resumed", begun_ms)
    assert [row.reconnects for row in rows] == [1] * SHARDS_MAX
    assert resumed.keys() == set(range(SHARDS_MAX))

    delays = [row.evidence_delay_ms for row in rows]
    tenths = [sum(delay * 10 // WINDOW_MS == n for delay in delays) for n in range(10)]
    # 256 delays over ten tenths: 26 in each, give or take five standard deviations.
    assert sum(tenths) == SHARDS_MAX
    assert all(2 <= tenth <= 50 for tenth in tenths), tenths
    for row in rows:
        due_ms = (row.evidence_failed_at - TSC_AT_ZERO) // NS_PER_MS + row.evidence_delay_ms
        assert 0 <= resumed[row.shard_id][0] - due_ms < RESUMED_AFTER_MS
    assert full.stats.identify_gate_refusals == 0


@pytest.mark.parametrize(
    ("shards", "total", "start"), [(16, 16, 0), (64, 64, 0), (16, 65_535, 65_519)]
)
def test_a_turn_with_nothing_due_costs_the_same_for_any_number_of_shards(
    rig_of, facts, shards, total, start
):
    """The table is looked at only when a row is due, and no total enters the cost."""
    rig = rig_of(
        1, facts(shards=shards, total=total, start=start, max_concurrency=KEYS), trace=True
    )
    rig.until_ready(120)
    rig.run(5)
    node, core = rig.node, rig.node.g(CORE)
    node.step(rig.world.now_ns)

    def cost(due):
        for slot in range(due):
            core.slots[slot].deadline = core.slots_due = 0
        assert node.step(rig.world.now_ns) == []
        return node.turn_instructions

    assert cost(0) < 300
    alone, pair, every = cost(1), cost(2), cost(shards)
    # Not every idle shard takes the same way: a timer that is set costs a comparison more.
    assert every - alone == pytest.approx((shards - 1) * (pair - alone), rel=0.25)
