"""An operator's orders: what is written, and each rule broken by a log that a test writes by hand."""

from __future__ import annotations

import random

import pytest

from emulator.simulation.clock import NS_PER_S, EventQueue
from emulator.simulation.fleet_records import LeaseRecord, PlanRecord, cut
from emulator.simulation.invariants import InvariantError
from emulator.simulation.nats.cluster import NatsCluster
from emulator.simulation.nats.protocol import header_block
from emulator.simulation.nats.stream import Proposal
from emulator.simulation.operator import Operator
from emulator.simulation.orders import HEAD_START_NS, Orders

A, B = ("a", "00000001"), ("b", "00000002")


class Court:
    """A log that a test writes, an operator who gives orders, and the judge."""

    def __init__(self) -> None:
        self.events = EventQueue()
        self.cluster = NatsCluster(self.events, random.Random(1), servers=1)
        self.operator = Operator(self.cluster, "b1", PlanRecord(total=4, ranges=cut(4, 2)))
        self.orders = Orders(self.operator)

    def lease(self, who=None, *, expected: int = 0, slot: int = 0, **fields) -> int:
        """Commit a lease record that expects a revision; return its own."""
        node, boot = who or ("-", "-")
        settings = {"start": 2 * slot, "count": 2, "total": 4, "duration_ms": 20_000 if who else 0}
        record = LeaseRecord(node=node, boot=boot, **(settings | fields))
        header = header_block(Nats_Expected_Last_Subject_Sequence=expected)
        stream = self.operator.stream
        proposal = Proposal(f"$KV.shardfw.b1.ctl.lease.{slot}", header, str(record).encode(), "")
        stream.pending.append(proposal)
        self.cluster.commit(self.cluster.servers[0], stream, proposal)
        return stream.last_seq

    def values(self, key: str) -> list[str]:
        subject = f"$KV.shardfw.b1.ctl.{key}"
        return [m.body.decode() for m in self.operator.stream.log if m.subject == subject]


def test_orders_are_the_records_of_the_commands():
    court = Court()
    court.lease(A, generation=7, op=1)
    court.orders.drain("a")
    court.orders.undrain("a")
    court.orders.undrain("b")
    court.orders.move(0, "b")
    court.orders.move(9, "b")
    assert court.values("node.a") == ["1 drain", "1 open"]
    assert court.values("node.b") == []
    assert court.values("move.0") == ["1 7 b"]
    assert court.values("move.9") == []


def test_orders_wait_for_a_leader_and_keep_their_order():
    court = Court()
    leader, court.cluster.leaders["KV_shardfw"] = court.cluster.leaders["KV_shardfw"], None
    court.orders.drain("a")
    court.orders.undrain("a")
    court.orders.move(1, "b")
    assert (court.orders.written, court.orders.obeyed()) == (False, False)
    court.events.run_next()
    assert court.values("node.a") == []
    court.cluster.leaders["KV_shardfw"] = leader
    court.events.run_next()
    assert court.values("node.a") == ["1 drain", "1 open"]
    assert court.orders.written
    assert court.orders.obeyed()


def test_who_lags_gives_no_slot_of_an_earlier_plan_back():
    court = Court()
    court.lease(A, slot=2, generation=1, op=1)
    court.orders.drain("a")
    assert court.orders.held_by("a") == []
    assert 2 not in court.orders.leases
    court.orders.judge()
    court.operator.put("plan", str(PlanRecord(total=4, ranges=cut(4, 3))))
    assert court.orders.disobeyed() == "rule 'drain': a is drained and holds [2]"


def test_who_is_drained_gives_everything_back():
    court = Court()
    held = court.lease(A, generation=1, op=1)
    court.orders.drain("a")
    assert court.orders.disobeyed() == "rule 'drain': a is drained and holds [0]"
    with pytest.raises(InvariantError, match=r"rule 'drain': a is drained and holds \[0\]"):
        court.orders.judge()
    court.lease(A, generation=1, op=2, expected=held)
    free = court.lease(generation=1, op=3)
    court.orders.judge()
    court.lease(B, generation=2, op=1, expected=free)
    court.orders.judge()


def test_a_claim_behind_the_drain_is_found_and_one_that_could_not_know_is_none():
    court = Court()
    free = court.lease(generation=1, op=1)
    court.orders.drain("a")
    court.lease(A, generation=2, op=1, expected=free)
    again = court.lease(generation=2, op=2)
    with pytest.raises(
        InvariantError, match=rf"rule 'drain': a claims slot 0 .* on {again}, though"
    ):
        court.lease(A, generation=3, op=3, expected=again)


def test_who_is_drained_no_more_claims():
    court = Court()
    court.orders.drain("a")
    court.orders.drain("a")
    free = court.lease(generation=1, op=1)
    court.orders.undrain("a")
    court.lease(A, generation=2, op=1, expected=free)
    assert [record.node for _, _, record in court.orders.claims] == ["a"]
    court.orders.judge()


def test_a_holder_of_another_name_gives_back_what_shall_move():
    court = Court()
    court.lease(A, generation=1, op=1)
    court.orders.move(0, "b")
    with pytest.raises(InvariantError, match=r"rule 'move': slot 0 shall go to b: 1 held a"):
        court.orders.judge()
    free = court.lease(generation=1, op=2)
    court.orders.judge()
    court.lease(B, generation=2, op=1, expected=free)
    assert court.orders.open_wish(0) is None
    court.orders.judge()


def test_a_move_to_the_holder_asks_for_nothing():
    court = Court()
    court.lease(A, generation=1, op=1)
    court.orders.move(0, "a")
    court.orders.judge()


@pytest.mark.parametrize(("waited_ns", "early"), [
    (HEAD_START_NS - 1, True), (HEAD_START_NS, False), (6 * NS_PER_S, False),
])  # fmt: skip
def test_whoever_was_not_named_waits(waited_ns, early):
    court = Court()
    court.lease(A, generation=1, op=1)
    court.orders.move(0, "b")
    free = court.lease(generation=1, op=2)
    court.events.now_ns += waited_ns
    if not early:
        court.lease(("c", "00000003"), generation=2, op=1, expected=free)
        return
    with pytest.raises(InvariantError, match=r"rule 'move': c claims slot 0 4950\.\d+ ms after"):
        court.lease(("c", "00000003"), generation=2, op=1, expected=free)


def test_who_claims_on_what_stood_before_the_move_may_not_know_it():
    court = Court()
    free = court.lease(generation=1, op=1)
    court.orders.move(0, "b")
    court.lease(A, generation=2, op=1, expected=free)
    assert len(court.orders.claims) == 1


def test_a_move_of_another_generation_counts_for_nothing():
    court = Court()
    court.lease(A, generation=1, op=1)
    court.orders.move(0, "b")
    court.lease(generation=1, op=2)
    court.lease(B, generation=2, op=1, expected=court.operator.stream.last_seq)
    free = court.lease(generation=2, op=2)
    court.lease(A, generation=3, op=3, expected=free)
    court.orders.judge()
