"""Fault plans of a fleet: the seed decides them, their text carries all, and outages end."""

from __future__ import annotations

import random
from collections import Counter

from emulator.simulation.clock import NS_PER_S, EventQueue
from emulator.simulation.faults import FaultPlan
from emulator.simulation.fleet_plans import ENROL_NS, RESUMABLE_CODES, random_fleet_plan
from emulator.simulation.fleet_storm import shape_of
from emulator.simulation.nats.cluster import NatsCluster
from emulator.simulation.nats.faults import plan_actions

DURATION_NS = 120 * NS_PER_S


def plan_of(seed: int) -> FaultPlan:
    return random_fleet_plan(
        random.Random(seed), DURATION_NS, nodes=3, servers=3, shards=6, slots=3, slots_most=4
    )


def test_the_seed_decides_and_the_text_carries_all():
    plans = [plan_of(seed) for seed in range(200)]
    assert plans == [plan_of(seed) for seed in range(200)]
    assert [FaultPlan.parse(str(plan)) for plan in plans] == plans
    assert len({str(plan) for plan in plans}) > 190


def test_every_fault_of_nats_has_its_turn():
    events = Counter(event.name for seed in range(400) for event in plan_of(seed).events)
    known = plan_actions(NatsCluster(EventQueue(), random.Random(1)))
    assert set(known) - set(events) == {"nats-mend"}
    assert {"power-off", "halt", "freeze", "link-down", "replan", "nats-only"} <= set(events)
    assert events["power-off"] == events["power-on"]
    assert events["nats-kill"] + events["nats-stop"] + events["nats-retire"] == events["nats-start"]


def test_an_operator_asks_for_something_in_most_plans():
    plans = [plan_of(seed) for seed in range(200)]
    events = Counter(event.name for plan in plans for event in plan.events)
    assert events["drain"] > events["undrain"] > 50
    assert events["move"] > 100
    asked = sum(any(event.name in ("drain", "move") for event in plan.events) for plan in plans)
    assert 130 < asked < 180


def test_links_are_cut_while_nodes_wait_for_their_token():
    plans = [
        random_fleet_plan(
            random.Random(seed), DURATION_NS, nodes=3, servers=3, shards=6, slots=3, slots_most=4,
            enrol=True,
        )
        for seed in range(100)
    ]  # fmt: skip
    early = [
        any(event.at_ns < ENROL_NS for event in plan.events)
        or any(rule.after_ns < ENROL_NS for rule in plan.rules)
        for plan in plans
    ]
    assert all(early)
    cuts = Counter(event.name for plan in plans for event in plan.events)
    assert cuts["nats-cut"] > 30


def test_a_node_may_lose_nats_and_keep_the_gateway():
    rules = [rule for seed in range(100) for rule in plan_of(seed).rules]
    cuts = [rule for rule in rules if rule.match == "port:4222" and rule.p == 1]
    assert {rule.action for rule in cuts} == {"drop", "delay"}
    assert {rule.src for rule in cuts} >= {"", "node0", "node1", "node2"}
    assert all(rule.before_ns is not None and rule.after_ns < rule.before_ns for rule in cuts)


def test_what_a_node_says_may_be_late_and_what_it_hears():
    rules = [rule for seed in range(200) for rule in plan_of(seed).rules]
    late = [rule for rule in rules if rule.action == "delay" and rule.match == "port:4222"]
    late = [rule for rule in late if rule.p == 1]
    assert {bool(rule.src) for rule in late} == {True, False}


def test_plans_change_while_every_server_is_behind():
    for seed in range(200):
        events = plan_of(seed).events
        behind = [event for event in events if event.name == "nats-behind"]
        started = Counter(event.at_ns for event in behind if not event.argument.endswith(" 0"))
        for at_ns in (at_ns for at_ns, servers in started.items() if servers == 3):
            changes = [e.at_ns for e in events if e.name == "replan" and e.at_ns >= at_ns]
            assert len(changes) >= 5
            ends = [e.at_ns for e in behind if e.argument.endswith(" 0") and e.at_ns > at_ns]
            assert len(ends) >= 3
            return
    raise AssertionError("no plan has it")


def test_a_fleet_can_own_everything_although_a_node_is_missing():
    shapes = [shape_of(random.Random(seed)) for seed in range(100)]
    for shape in shapes:
        assert (shape.nodes - 1) * shape.cap >= shape.slots
        assert sum(count for _, count in shape.ranges) == shape.total
        assert max(abs(ppm) for ppm in shape.clocks_ppm) < 10_000
    assert {shape.slots for shape in shapes} == {2, 3, 4}


def test_a_gateway_closes_with_codes_that_can_be_sent():
    closes = [
        event.argument.split()
        for seed in range(600)
        for event in plan_of(seed).events
        if event.name == "gateway-close"
    ]
    assert {1001, 4008} <= {int(code) for _, code in closes} <= set(RESUMABLE_CODES)
    # No server sends 1006: it is what a client makes of a connection that ends without a close.
    assert 1006 not in RESUMABLE_CODES
