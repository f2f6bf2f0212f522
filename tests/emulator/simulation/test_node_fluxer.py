"""The release image against a gateway of Fluxer's rules, from Identify to every way back."""

from __future__ import annotations

import pytest

from firmware.layouts.profile import ProfileId
from firmware.layouts.shard import End, ShardState

S = ShardState
SHARDS = 4
PATH = "/?v=1&encoding=json"


@pytest.fixture
def fluxer(rig_of, facts):
    """Return a maker of rigs whose gateway and node follow the profile."""

    def make(*, shards=SHARDS, path=PATH, **options):
        return rig_of(1, facts(shards=shards, profile=ProfileId.FLUXER, path=path), **options)

    return make


def act(rig, command):
    command(rig.gateway.core)
    rig.gateway.flush()


def counts(rig):
    """Return how often each shard identified and resumed."""
    return [(s.identifies, s.resumes) for s in rig.stats.shards]


def end_of(rig, slot=0):
    row = rig.invariants.rows[slot]
    return End(row.evidence_end), row.evidence_close_code


def test_shards_become_ready_and_stay_so(fluxer, load):
    rig = fluxer(load=load(rate=40))
    rig.until_ready(10)
    rig.run(300)
    rig.load(None)
    rig.run(5)
    stats = rig.stats
    assert counts(rig) == [(1, 0)] * SHARDS
    assert all(s.heartbeats >= 7 and s.beats_ahead == 0 for s in stats.shards)
    assert [row.sequence for row in rig.invariants.rows] == [s.sequence for s in stats.shards]
    codes = {line["code"] for line in rig.node.log}
    assert "gateway.resume_url_ignored" not in codes


@pytest.mark.parametrize(
    ("command", "end"),
    [
        (lambda core: core.reconnect(0), (End.RECONNECT_REQUESTED, 4000)),
        (lambda core: core.kick(0, 4000), (End.CLOSED, 4000)),
        (lambda core: core.kick(0, 1001), (End.CLOSED, 1001)),
        (lambda core: core.abort(0), (End.TCP_FAILED, 0)),
    ],
)
def test_what_only_ends_the_socket_is_resumed_without_a_gap(fluxer, load, command, end):
    rig = fluxer(load=load(rate=40))
    rig.until_ready(10)
    rig.run(3)
    act(rig, command)
    rig.run(15)
    rig.load(None)
    rig.run(5)
    assert rig.all_ready()
    assert counts(rig) == [(1, 1), *[(1, 0)] * (SHARDS - 1)]
    assert end_of(rig) == end
    stats = rig.stats.shards[0]
    assert rig.invariants.rows[0].sequence == stats.sequence


def test_an_error_of_the_gateway_is_counted_and_ignored(fluxer):
    rig = fluxer(shards=1)
    rig.until_ready(10)
    act(rig, lambda core: core.gateway_error(0, "RATE", "slower"))
    rig.run(1)
    assert rig.all_ready()
    assert rig.node.shard(0).gateway.unknown_ops == 1


def test_a_handshake_that_is_dropped_in_silence_ends_with_the_attempt(fluxer):
    rig = fluxer(shards=1)
    gate = rig.gateway.core.address_gate
    address = rig.internet.dhcp.policy.pool[0]
    for _ in range(300):
        gate.passes(address, 0)
    rig.run(29)
    assert rig.states == [S.STARTING]
    rig.until_ready(50)
    assert end_of(rig)[0] == End.TIMEOUT
    assert gate.drops >= 1
    assert counts(rig) == [(1, 0)]
