from __future__ import annotations

import pytest

from emulator.simulation.campaign import Trial, campaign
from emulator.simulation.clock import NS_PER_MS, NS_PER_S
from emulator.simulation.faults import FaultPlan
from emulator.simulation.packet import FIN, SYN, Tcp
from emulator.simulation.peers.tcp import TcpConfig
from emulator.simulation.wire import Segment
from emulator.simulation.world import World


def test_every_seed_runs_once_when_nothing_fails():
    seen = []
    assert campaign(lambda trial: seen.append(trial.seed), range(5, 9)) == 4
    assert seen == [5, 6, 7, 8]


def counting(trial: Trial, *, bad: set[int]) -> None:
    """Send 100 numbered frames; fail when all of some numbers are lost."""
    world = World(trial.seed)
    segment = Segment(world)
    arrived = set()
    source = segment.port("source")
    segment.port("sink", lambda frame: arrived.add(frame[14]))
    trial.faults(segment, "drop p=0.3; delay p=0.2 by=1ms")
    for number in range(100):
        source.send(b"\xff" * 6 + b"\x02" * 6 + b"\x88\xb5" + bytes([number]) * 46)
        world.run_for(NS_PER_MS)
    world.run_for(10 * NS_PER_MS)
    if not arrived & bad:
        raise RuntimeError(f"none of {sorted(bad)} arrived")


def test_a_failure_names_seed_and_shortest_plan_and_replays():
    with pytest.raises(RuntimeError, match="none of") as caught:
        campaign(lambda trial: counting(trial, bad={10, 50}), range(1000))
    (note,) = caught.value.__notes__
    head, _, plan = note.partition(": ")
    seed = int(head.split()[1].rstrip(";"))
    assert plan == "drop nth=11 from=source; drop nth=51 from=source"
    with pytest.raises(RuntimeError, match="none of"):
        counting(Trial(seed, FaultPlan.parse(plan)), bad={10, 50})
    counting(Trial(seed, FaultPlan.parse("drop nth=11 from=source")), bad={10, 50})


def test_a_failure_that_needs_no_faults_says_none():
    def fails(trial: Trial) -> None:
        trial.faults(Segment(World(trial.seed)), "drop p=0.5")
        raise RuntimeError("always")

    with pytest.raises(RuntimeError) as caught:
        campaign(fails, [3])
    assert caught.value.__notes__ == ["seed 3; shortest fault plan found in 1 runs: none"]


def test_without_reruns_the_script_is_told_as_it_is():
    with pytest.raises(RuntimeError) as caught:
        campaign(lambda trial: counting(trial, bad={10}), range(1000), most_reruns=0)
    assert "; what the faults did: " in caught.value.__notes__[0]


def test_a_second_plan_in_one_trial_is_refused():
    trial = Trial(1)
    world = World(1)
    trial.faults(Segment(world, "a"), "")
    with pytest.raises(ValueError, match="a trial has one fault plan: put every rule into it"):
        trial.faults(Segment(world, "b"), "")


def test_a_planted_tcp_fault_is_traced_to_the_frame_that_shows_it(pair_of):
    """A peer that forgets to repeat its FIN hangs; the plan says which frame must be lost."""

    def scenario(trial: Trial) -> None:
        pair = pair_of(trial.seed)
        trial.faults(pair.segment, "drop p=0.02 from=node; reorder p=0.05 by=1ms; drop p=0.05")
        client, server = pair.open(TcpConfig(retries=30))
        sent: list[Tcp] = []

        def forget_fin(segment):
            again = bool(segment.flags & FIN and sent)
            sent.extend([segment] if segment.flags & (FIN | SYN) else [])
            return [] if again else [segment]

        client.out_filter = forget_fin
        client.send(bytes(20_000))
        client.close()
        pair.world.run_until(lambda: server.close_reason != "", within_ns=100 * NS_PER_S)

    with pytest.raises(AssertionError) as caught:
        campaign(scenario, range(100))
    head, _, text = caught.value.__notes__[-1].partition("; shortest fault plan found in ")
    seed, plan = int(head.removeprefix("seed ")), FaultPlan.parse(text.partition(": ")[2])
    assert any(rule.action == "drop" and rule.src == "node" for rule in plan.rules)
    with pytest.raises(AssertionError, match="did not hold within 100 s"):
        scenario(Trial(seed, plan))
    # Nothing in the plan is there in vain.
    for index in range(len(plan.rules)):
        scenario(Trial(seed, plan.without({index})))
