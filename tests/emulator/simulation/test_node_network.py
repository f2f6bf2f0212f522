"""The release image when the network around it misbehaves: names, leases, cables, moves, loss."""

from __future__ import annotations

import pytest

from emulator.simulation.clock import NS_PER_S
from emulator.simulation.packet import ip_text
from emulator.simulation.rig import GATEWAY_ADDRESS
from firmware.layouts.node import NETWORK
from firmware.layouts.shard import ShardState

S = ShardState
NEW_ADDRESS = "203.0.113.77"


def test_a_name_that_does_not_exist_is_asked_for_again_until_it_does(rig_of, fixed):
    rig = rig_of(1, fixed(shards=2))
    zone = rig.internet.dns.zone
    entry = zone.pop("gateway.test")
    rig.run(20)
    assert set(rig.states) == {S.BACKOFF}
    assert rig.monitor.dials() == []
    zone["gateway.test"] = entry
    rig.until_ready(15)


def test_a_deaf_name_server_is_no_dead_end(rig_of, fixed):
    rig = rig_of(1, fixed(shards=2))
    rig.internet.dns.silent = True
    rig.run(40)
    assert set(rig.states) <= {S.BACKOFF, S.STARTING}
    assert 2 <= rig.internet.dns.asked("gateway.test") <= 60
    rig.internet.dns.silent = False
    rig.until_ready(40)


def test_a_gateway_that_moves_is_found_under_its_new_address(rig_of, fixed):
    rig = rig_of(1, fixed(shards=4), heartbeat_interval_ms=10_000)
    rig.until_ready(10)
    rig.internet.move("gateway.test", NEW_ADDRESS)
    rig.run(2)
    rig.world.run_until(
        lambda: len(rig.monitor.dials(NEW_ADDRESS, 80)) >= 4 and rig.all_ready(),
        within_ns=180 * NS_PER_S,
    )
    assert all(s.resumes + s.identifies >= 2 for s in rig.stats.shards)


def test_sixteen_shards_ask_for_their_name_once(rig_of, fixed):
    rig = rig_of(1, fixed())
    rig.until_ready(10)
    assert rig.internet.dns.asked("gateway.test") == 1
    rig.run(120)
    rig.gateway.core.abort(3)
    rig.gateway.flush()
    rig.run(10)
    assert rig.all_ready()
    assert rig.internet.dns.asked("gateway.test") == 2


def test_a_dhcp_lease_is_renewed_and_nobody_notices(rig_of, fixed):
    rig = rig_of(1, fixed(shards=2))
    rig.internet.dhcp.policy.lease_s = 60
    rig.until_ready(10)
    rig.run(300)
    assert rig.all_ready()
    phases = [e.phase for e in rig.internet.dhcp.exchanges if e.request.kind == 3]
    assert phases.count("SELECTING") == 1
    assert 8 <= phases.count("RENEWING") <= 12
    assert all(row.reconnects == 0 for row in rig.invariants.rows)


def test_a_dhcp_lease_that_runs_out_ends_all_use_of_the_address(rig_of, fixed):
    rig = rig_of(1, fixed(shards=2))
    policy = rig.internet.dhcp.policy
    policy.lease_s = 60
    rig.until_ready(10)
    old = rig.node.address()
    policy.silent = True
    rig.run(58)
    assert rig.all_ready()
    rig.run(10)
    lost_ns = rig.world.now_ns
    assert rig.node.address() == ip_text(bytes(4))
    rig.run(60)
    assert rig.monitor.sent_since(lost_ns) == []
    policy.silent = False
    policy.pool = ("10.0.0.99",)
    rig.internet.dhcp.leases.clear()
    rig.world.run_until(lambda: rig.node.address() == "10.0.0.99", within_ns=130 * NS_PER_S)
    rig.run(2)
    rig.until_ready(90)
    assert rig.node.address() != old


def test_a_router_that_is_replaced_is_found_again(rig_of, fixed):
    rig = rig_of(1, fixed(shards=4), heartbeat_interval_ms=10_000)
    rig.until_ready(10)
    rig.internet.router.mac = bytes.fromhex("0200c0ffee01")
    rig.run(40)
    rig.until_ready(200)
    rig.run(60)
    assert rig.all_ready()


@pytest.mark.parametrize("ahead_s", [1, 30, 100_000])
def test_a_clock_that_jumps_ahead_costs_connections_at_most(rig_of, fixed, ahead_s):
    rig = rig_of(1, fixed(shards=4))
    rig.until_ready(10)
    rig.run(50)
    rig.attachment.jump_clock(ahead_s * NS_PER_S)
    rig.run(30)
    rig.until_ready(120)
    rig.run(60)
    assert rig.all_ready()


def test_a_cached_ack_needs_no_discover(rig_of, fixed):
    first = rig_of(1, fixed(shards=1))
    acks: list[bytes] = []
    first.internet.dhcp.script = lambda e: acks.append(e.reply.encode()) if e.reply else None
    first.until_ready(10)
    second = rig_of(2, fixed(shards=1, ack=acks[-1]))
    second.until_ready(10)
    assert second.node.address() == first.node.address()
    assert second.internet.dhcp.seen[1] == 0


def test_without_a_lease_nothing_is_dialled_and_with_one_everything_is(rig_of, fixed):
    rig = rig_of(1, fixed(shards=2))
    rig.internet.dhcp.policy.silent = True
    rig.run(30)
    assert rig.states == [S.ASSIGNED, S.ASSIGNED]
    assert rig.monitor.kinds["tcp"] == 0
    rig.internet.dhcp.policy.silent = False
    rig.until_ready(70)


def test_a_cable_pulled_for_sixty_seconds_heals_by_itself(rig_of, fixed):
    rig = rig_of(1, fixed())
    rig.until_ready(10)
    port = rig.attachment.port
    port.set_link(up=False)
    rig.run(60)
    assert rig.node.g(NETWORK).link_up == 0
    port.set_link(up=True)
    rig.run(2)
    rig.world.run_until(rig.all_ready, within_ns=150 * NS_PER_S)
    rig.run(60)
    assert rig.all_ready()
    assert rig.stats.identify_gate_refusals == 0
    assert rig.monitor.most_dials_in(address=GATEWAY_ADDRESS) <= 16 * 14


@pytest.mark.parametrize("seed", [1, 2])
def test_a_lossy_disordered_wire_costs_time_and_nothing_else(rig_of, seed, fixed):
    faults = "drop p=0.03; duplicate p=0.02; reorder p=0.03 by=3ms; corrupt p=0.005"
    rig = rig_of(seed, fixed(), faults=faults)
    rig.until_ready(90)
    rig.run(30)
    sequences = [(s.sequence, r.sequence) for s, r in _pairs(rig) if r.state == S.READY]
    assert len(sequences) >= 14
    assert rig.stats.identify_gate_refusals == 0


def test_a_ping_is_answered_and_a_flood_of_arp_changes_nothing(rig_of, fixed):
    rig = rig_of(1, fixed(shards=1))
    rig.until_ready(10)
    address = rig.internet.dhcp.lease_of(rig.facts.mac).address
    assert ip_text(address) == rig.node.address()
    rig.operator.ping(address, b"x" * 40)
    rig.run(1)
    assert len(rig.operator.echo_replies) == 1


def _pairs(rig):
    return list(zip(rig.stats.shards, rig.invariants.rows, strict=True))
