"""The judge of ownership: each rule is broken by a fake, and mistakes of a whole node are found."""

from __future__ import annotations

import random
from functools import partial

import pytest

from emulator.simulation.clock import NS_PER_MS, NS_PER_S, EventQueue
from emulator.simulation.fleet_records import LeaseRecord, PlanRecord, cut
from emulator.simulation.invariants import InvariantError
from emulator.simulation.nats.cluster import NatsCluster
from emulator.simulation.nats.faults import plan_actions
from emulator.simulation.operator import Operator
from emulator.simulation.ownership import Ownership
from tests.support.fleet_reference import MISTAKES, ReferenceNode

FAULTS = 8
SEEDS = 60
FOUND_FROM = {"no-deadline": 0, "half-wait": 0, "before-echo": 190, "late-clock": 160}
"""Mistake, and a seed a little before the first one that finds it: two take some 200 seeds."""
KINDS = (
    "cut", "cut", "halt", "freeze", "crash", "kill", "isolate", "lag", "slow", "replan",
)  # fmt: skip
A, B = ("a", "00000001"), ("b", "00000002")


class Court:
    """A log that a test writes by hand, and the judge."""

    def __init__(self) -> None:
        self.events = EventQueue()
        self.cluster = NatsCluster(self.events, random.Random(1), servers=1)
        self.operator = Operator(self.cluster, "b1", PlanRecord(total=4, ranges=cut(4, 2)))
        self.judge = Ownership(self.operator.stream, "b1", self.events)

    def lease(self, slot: int, who=None, **fields) -> None:
        node, boot = who or ("-", "-")
        duration = 20_000 if who else 0
        start = {"start": 2 * slot, "count": 2, "total": 4, "duration_ms": duration}
        record = LeaseRecord(node=node, boot=boot, **(start | fields))
        self.operator.put(f"lease.{slot}", str(record))

    def run_operator(self) -> None:
        while self.operator.busy:
            self.events.run_next()

    def speak(self, who, shard: int, total: int = 4) -> None:
        self.judge.speaks(who, shard, total, "a word")


def test_the_owner_speaks_and_nobody_else():
    court = Court()
    court.lease(0, A, generation=1, op=1)
    court.speak(A, 0)
    court.speak(A, 1)
    for who, shard, says in ((B, 0, "whose owner is a 00000001"), (A, 2, "whose owner is nobody")):
        with pytest.raises(InvariantError, match=rf"rule 'one owner': .*for shard {shard}, {says}"):
            court.speak(who, shard)
    with pytest.raises(InvariantError, match=r"rule 'one owner': a 00000009 sends"):
        court.speak(("a", "00000009"), 0)


def test_an_owner_is_silent_from_the_next_claim_on_and_after_its_release():
    court = Court()
    court.lease(0, A, generation=1, op=1)
    court.speak(A, 0)
    court.events.now_ns += 25 * NS_PER_S
    court.lease(0, B, generation=2, op=1)
    court.speak(B, 0)
    assert (court.judge.takeovers, court.judge.handovers) == (1, [(0, 25.0)])
    with pytest.raises(InvariantError, match=r"rule 'one owner'"):
        court.speak(A, 0)
    court.lease(0, generation=2, op=2)
    with pytest.raises(InvariantError, match="whose owner is nobody"):
        court.speak(B, 0)


def test_renewals_keep_what_they_renew():
    court = Court()
    court.lease(0, A, generation=1, op=1)
    court.lease(0, A, generation=1, op=2)
    court.speak(A, 0)
    court.lease(0, A, generation=1, op=3, epoch=2)
    with pytest.raises(InvariantError, match=r"rule 'renewal': slot 0"):
        court.judge.follow()


@pytest.mark.parametrize(("who", "generation"), [(B, 1), (B, 3), (A, 3), (None, 0)])
def test_generations_grow_by_one(who, generation):
    court = Court()
    court.lease(0, A, generation=1, op=1)
    court.lease(0, who, generation=generation, op=9)
    with pytest.raises(InvariantError, match=r"rule 'generations grow': slot 0"):
        court.judge.follow()


def test_a_claim_behind_a_drain_is_never_used():
    court = Court()
    court.operator.put("plan", str(PlanRecord(active=False, total=4, ranges=cut(4, 2))))
    court.lease(0, A, generation=1, op=1)
    with pytest.raises(InvariantError, match=r"rule 'plan': .* under the claim .* another plan"):
        court.speak(A, 0)


def test_the_total_is_that_of_the_record():
    court = Court()
    court.lease(0, A, generation=1, op=1)
    with pytest.raises(InvariantError, match=r"rule 'plan': .*shard 0 of 8"):
        court.speak(A, 0, total=8)


def test_an_old_epoch_is_silent_once_a_new_one_spoke():
    court = Court()
    court.lease(0, A, generation=1, op=1)
    court.operator.put("plan", str(PlanRecord(epoch=2, total=4, ranges=cut(4, 2))))
    court.lease(1, B, generation=1, op=1, epoch=2)
    court.speak(A, 0)
    court.speak(B, 2)
    with pytest.raises(InvariantError, match=r"rule 'plan': shard 0 of epoch 1 speaks after"):
        court.speak(A, 0)


def test_an_operator_waits_until_nobody_can_speak():
    court = Court()
    court.lease(0, A, generation=1, op=1)
    court.operator.replan(4, 1)
    court.events.now_ns += 1
    for _ in range(500):
        if not court.operator.busy:
            break
        court.events.run_next()
    assert court.events.now_ns >= 20_700 * NS_PER_MS
    court.judge.follow()
    record = court.judge.grants[0].record
    assert (record.holder, record.generation, record.count) == (None, 1, 4)
    assert court.judge.plan == PlanRecord(epoch=2, total=4, ranges=cut(4, 1))


def test_generations_go_on_above_slots_that_an_earlier_plan_left():
    court = Court()
    court.operator.replan(4, 1)
    court.events.run_next()
    # A claim that came behind the drain, of a slot that the plan does not have any more.
    court.lease(1, A, generation=1, op=1)
    court.operator.replan(4, 2)
    court.run_operator()
    assert court.events.now_ns >= 20_700 * NS_PER_MS
    court.judge.follow()
    grants = court.judge.grants
    assert [grants[slot].record.generation for slot in range(2)] == [1, 1]
    court.lease(1, A, generation=2, op=1, epoch=3)
    court.operator.replan(4, 1)
    court.run_operator()
    court.judge.follow()
    assert grants[1].record.holder is None


@pytest.mark.parametrize("text", [
    b"1 held n1 00000001 1 1 20000 1 0 4", b"1 free - - 1 01 0 1 0 4 16", b"2 free - - 1 1 0 1 0 4 4",
])  # fmt: skip
def test_texts_that_are_no_record(text):
    with pytest.raises(ValueError, match=r"record|written otherwise"):
        LeaseRecord.parse(text)


def torture(seed: int, mistake: str = "") -> Ownership:
    """Three reference nodes under the faults that a fleet meets, for two minutes."""
    rng = random.Random(f"torture {seed}")
    events = EventQueue()
    cluster = NatsCluster(events, random.Random(seed))
    duration_ms = rng.choice((6_000, 20_000))
    plan = PlanRecord(total=6, ranges=cut(6, 3), duration_ms=duration_ms)
    operator = Operator(cluster, "b1", plan)
    judge = Ownership(operator.stream, "b1", events)
    nodes = [
        ReferenceNode(
            cluster, judge, f"n{n}", seed, ppm=rng.randint(-9_900, 9_900), mistake=mistake
        )
        for n in range(3)
    ]
    actions = plan_actions(cluster)
    for _ in range(FAULTS):
        at, length = rng.randrange(120 * NS_PER_S), rng.randrange(40 * NS_PER_S)
        node, server = rng.choice(nodes), rng.randrange(3)
        kind = rng.choice(KINDS)
        if kind == "cut":
            events.at(at, partial(setattr, node, "cut_off", True))
            events.at(at + length, partial(setattr, node, "cut_off", False))
        elif kind in ("halt", "freeze"):
            events.at(at, partial(node.halt, length, freeze=kind == "freeze"))
        elif kind == "crash":
            events.at(at, node.boot)
        elif kind == "replan":
            events.at(at, partial(operator.replan, 6, rng.choice((2, 3))))
        else:
            begin, end = {
                "kill": (f"kill {server}", f"start {server}"),
                "isolate": (f"isolate {server}", "heal"),
                "lag": (f"lag {server} {rng.choice((900, 3000))}", f"lag {server} 0"),
                "slow": ("slow 3000", "slow 0"),
            }[kind]
            for when, what in ((at, begin), (at + length, end)):
                name, _, argument = what.partition(" ")
                events.at(when, partial(actions[f"nats-{name}"], argument))
    while (due := events.next_time()) is not None and due <= 160 * NS_PER_S:
        events.run_next()
    return judge


@pytest.mark.parametrize("seed", range(12))
def test_a_node_without_mistake_breaks_no_rule(seed):
    judge = torture(seed)
    assert judge.handovers or judge.grants


def hunt(mistake: str, first: int) -> None:
    """Run seeds until one fails."""
    for seed in range(first, first + SEEDS):
        torture(seed, mistake)


@pytest.mark.parametrize(("mistake", "first"), FOUND_FROM.items())
def test_each_mistake_of_a_node_is_found(mistake, first):
    with pytest.raises(InvariantError, match=r"rule '(one owner|plan)'"):
        hunt(mistake, first)


def test_the_table_has_every_mistake():
    assert set(FOUND_FROM) == set(MISTAKES)
