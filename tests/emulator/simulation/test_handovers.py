"""Planned hand-overs in calm times: what is asked for, and what is found when one goes wrong."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest

from emulator.simulation import handovers
from emulator.simulation.clock import NS_PER_S
from emulator.simulation.fleet_shape import Shape
from emulator.simulation.fleet_storm import calm, shape_of
from emulator.simulation.handovers import Order, planned, possible
from emulator.simulation.invariants import InvariantError
from emulator.simulation.leased import LeasedFleet
from toolchain.cli.fleet.records import DRAIN, OPEN

SHAPE = Shape(nodes=3, slots=3, total=3, max_concurrency=2)


@pytest.fixture(scope="module")
def fleet() -> LeasedFleet:
    made = LeasedFleet(11, SHAPE)
    made.until_owned()
    return made


def lease(node: str, start: int) -> Any:
    return SimpleNamespace(node=node, holder=(node, "1"), start=start, count=1)


def hall(*holders: str, cap: int = 2, drained=(), refused=()) -> Any:
    """Three nodes, and who holds each slot."""
    leases = {slot: lease(node, slot) for slot, node in enumerate(holders)}
    return SimpleNamespace(
        shape=SimpleNamespace(cap=cap, refused=refused),
        orders=SimpleNamespace(
            leases=leases, drained=dict.fromkeys(drained, 1),
            held_by=lambda node: [slot for slot, each in leases.items() if each.node == node],
        ),
        stations=[
            SimpleNamespace(name=name, attachment=SimpleNamespace(powered=True)) for name in "abc"
        ],
    )  # fmt: skip


def told(found: list[Order]) -> set[str]:
    return {str(order) for order in found}


def test_orders_are_given_where_there_is_room():
    assert told(possible(hall("a", "a", "b"))) == {
        "move 0 b", "move 1 b", "move 0 c", "move 1 c", "move 2 c", "drain a", "drain b", "drain c",
    }  # fmt: skip
    assert told(possible(hall("a", "b", cap=1))) == {
        "move 0 c",
        "move 1 c",
        "drain a",
        "drain b",
        "drain c",
    }
    assert told(possible(hall("a", "a", "b", "b", drained="c"))) == set()
    assert told(possible(hall("a", "a", "b", refused=("c",)))) == {"move 0 b", "move 1 b"} | {
        "drain b"
    } - {"drain b"}


def test_hand_overs_leave_no_scratch(fleet):
    given = planned(fleet, random.Random(4))
    assert given
    assert fleet.ownership.handovers
    for order in given:
        if not order.drain:
            assert f"1 {order.node}" in [
                " ".join(m.body.decode().split()[::2]) for m in fleet.operator.stream.log
                if m.subject.endswith(f".move.{order.slots[0]}")
            ]  # fmt: skip


def test_orders_wait_until_a_lease_that_runs_out_in_the_calm_has_its_next_owner():
    fleet = LeasedFleet(12, SHAPE)
    fleet.until_owned()
    holder = next(station for station in fleet.stations if fleet.orders.held_by(station.name))
    fleet.world.events.after(NS_PER_S, holder.power_off)
    orders = planned(fleet, random.Random(4))
    assert orders
    assert all(order.node != holder.name for order in orders)


def test_a_slot_that_goes_elsewhere_is_found(fleet, monkeypatch):
    holder = fleet.orders.leases[0].node
    # The order names another node than it is judged by.
    target = next(o.node for o in possible(fleet) if not o.drain and o.slots == (0,))
    monkeypatch.setattr(fleet.orders, "move", lambda _slot, _node: fleet.orders.drain(holder))
    order = Order((0,), "nobody", drain=False)
    assert target != "nobody"
    with pytest.raises(
        InvariantError, match=r"rule 'planned hand-over': move 0 nobody: slot 0 was"
    ):
        handovers._carry_out(fleet, order)
    fleet.orders.undrain(holder)


def test_an_identify_and_a_shard_that_never_resumed_are_found(fleet):
    since = len(fleet.gateway.events)
    with pytest.raises(InvariantError, match=r"shards \[1\] moved, and \[\] resumed"):
        handovers._judge_sessions(fleet, since, {1})
    fleet.gateway.events.append(
        SimpleNamespace(name="identify", shard=1, line=lambda: "event=identify")
    )
    with pytest.raises(InvariantError, match="a shard identifies: event=identify"):
        handovers._judge_sessions(fleet, since, set())
    del fleet.gateway.events[since:]


def test_an_event_that_a_reader_had_to_drop_is_found(fleet, monkeypatch):
    marks = iter([(0, 0, 0), (1, 0, 0)])
    monkeypatch.setattr(handovers, "_blemishes", lambda _fleet: next(marks))
    monkeypatch.setattr(handovers, "possible", lambda _fleet: [])
    with pytest.raises(InvariantError, match=r"repeated, late and out of order were \(0, 0, 0\)"):
        planned(fleet, random.Random(1))


def test_calm_leaves_as_many_nodes_as_the_slots_need():
    made = LeasedFleet(12, SHAPE)
    for station in made.stations:
        made.orders.drain(station.name)
    calm(made)
    assert list(made.orders.asked.values()) == [DRAIN, OPEN, OPEN]


def test_some_fleets_enrol_and_in_some_a_node_is_refused():
    shapes = [shape_of(random.Random(seed)) for seed in range(200)]
    assert 50 < sum(shape.enrol for shape in shapes) < 110
    assert {len(shape.refused) for shape in shapes if shape.enrol} == {0, 1}
    assert {shape.login for shape in shapes if shape.enrol} == {False, True}
    assert not any(shape.login or shape.refused for shape in shapes if not shape.enrol)
