"""The lease on the whole image: silence from the tick that sees the expiry, life after a grant."""

from __future__ import annotations

import pytest

from firmware.layouts.node import LEASE
from firmware.layouts.shard import Hold, ShardState

S = ShardState
LEASE_S = 20


def expired_rig(rig_of, facts, **options):
    rig = rig_of(1, facts(shards=4, lease_ms=LEASE_S * 1000), **options)
    rig.until_ready(10)
    rig.run(LEASE_S - rig.now_s() - 0.001)
    assert rig.all_ready()
    return rig


@pytest.mark.parametrize("rate", [None, 50])
def test_expiry_stops_all_traffic_within_one_tick(rig_of, facts, load, rate):
    rig = expired_rig(rig_of, facts, load=load(rate=rate) if rate else None)
    rig.run(0.1)
    held = [(S.ASSIGNED, Hold.LEASE_EXPIRED)] * 4
    assert [(row.state, row.hold) for row in rig.invariants.rows] == held
    # The lease runs from the boot at time zero; the turn that saw its end sent nothing.
    assert rig.monitor.sent_since(LEASE_S * 1_000_000_000 - 1) == []
    rig.run(40)
    assert rig.monitor.sent_since(LEASE_S * 1_000_000_000 - 1) == []
    assert [(row.state, row.hold) for row in rig.invariants.rows] == held
    codes = [line["code"] for line in rig.node.log]
    assert codes.count("lease.expired") == 1
    assert codes.count("shard.held") == 4


def test_nothing_restarts_until_a_grant_and_then_everything_does(rig_of, facts):
    rig = expired_rig(rig_of, facts)
    rig.run(30)
    for line in ("lease renew 60000", "lease arm", "lease arm 0", "lease arm 9x", "nonsense"):
        rig.node.console(line)
        rig.run(1)
        assert rig.node.g(LEASE).expired == 1
    bad = [line for line in rig.node.log if line["code"] == "lease.bad_command"]
    assert len(bad) == 5
    assert rig.monitor.sent_since(LEASE_S * 1_000_000_000) == []
    generation = rig.node.g(LEASE).generation
    rig.node.console("lease arm 60000")
    rig.until_ready(20)
    assert rig.node.g(LEASE).generation == generation + 1
    # The sessions were kept in memory, and the gateway still knew them.
    assert [s.resumes for s in rig.stats.shards] == [1] * 4
    rig.run(61)
    assert {row.hold for row in rig.invariants.rows} == {Hold.LEASE_EXPIRED}


def test_a_grant_soon_after_an_expiry_wakes_every_shard_at_once(rig_of, facts):
    rig = rig_of(1, facts(shards=4))
    rig.until_ready(10)
    rig.node.console("lease expire")
    rig.run(1)
    assert set(rig.states) == {S.ASSIGNED}
    rig.node.console("lease arm 60000")
    rig.until_ready(0.5)


def test_a_renewed_lease_holds_on_without_a_break(rig_of, facts):
    rig = expired_rig(rig_of, facts)
    rig.node.console("lease renew 60000")
    rig.run(50)
    assert rig.all_ready()
    assert all(s.resumes == 0 for s in rig.stats.shards)
    rig.run(12)
    assert set(rig.states) == {S.ASSIGNED}


def test_the_operator_can_end_a_lease_at_once(rig_of, facts):
    rig = rig_of(1, facts(shards=4))
    rig.until_ready(10)
    now_ns = rig.world.now_ns
    rig.node.console("lease expire")
    rig.run(60)
    assert set(rig.states) == {S.ASSIGNED}
    assert rig.monitor.sent_since(now_ns) == []
    assert rig.status(0)["lease_expired"] == 1


def test_an_expiry_in_the_middle_of_every_phase_is_as_silent(rig_of, facts):
    # One node for each millisecond of the start-up: some phase is cut in each.
    for lease_ms in range(1, 40, 3):
        rig = rig_of(1, facts(shards=2, lease_ms=lease_ms))
        rig.run(3)
        assert {row.state for row in rig.invariants.rows} == {S.ASSIGNED}
        assert rig.monitor.sent_since(lease_ms * 1_000_000 - 1) == []
