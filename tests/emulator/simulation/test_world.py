from __future__ import annotations

import pytest

from emulator.simulation.clock import NS_PER_MS, NS_PER_S
from emulator.simulation.faults import FaultPlan
from emulator.simulation.wire import Segment
from emulator.simulation.world import NotReachedError, StuckError, World

FRAME = bytes.fromhex("ffffffffffff0200000000010800") + bytes(50)


class Ticker:
    """A node that sends one frame every `every_ns` and counts what it gets."""

    def __init__(self, every_ns: int, frame: bytes = FRAME) -> None:
        self.every_ns = every_ns
        self.frame = frame
        self.due_ns = 0
        self.turns: list[int] = []
        self.inbox: list[bytes] = []

    def deliver(self, frame: bytes) -> None:
        self.inbox.append(frame)

    def step(self, now_ns: int) -> list[bytes]:
        self.turns.append(now_ns)
        if now_ns < self.due_ns:
            return []
        self.due_ns = now_ns + self.every_ns
        return [self.frame]

    def next_deadline(self, now_ns: int) -> int | None:
        return self.due_ns


def two_nodes(seed: int = 1, faults: str = "") -> tuple[World, Ticker, Ticker]:
    world = World(seed)
    segment = Segment(world)
    if faults:
        segment.set_faults(faults)
    nodes = Ticker(NS_PER_MS), Ticker(10 * NS_PER_MS)
    for name, node in zip(("one", "two"), nodes, strict=True):
        world.attach(node, segment.port(name))
    return world, *nodes


def test_a_node_is_stepped_at_its_deadlines_and_on_frames():
    world, one, two = two_nodes()
    world.run_until(20 * NS_PER_MS)
    assert world.now_ns == 20 * NS_PER_MS
    assert len(two.inbox) == 20
    assert len(one.inbox) == 2
    # 21 own deadlines (0 to 20 ms) and a turn for each frame of the other.
    assert len(one.turns) == 23


def test_equal_seeds_give_equal_runs_and_other_seeds_do_not():
    def digest(seed: int) -> str:
        world, *_ = two_nodes(seed, "drop p=0.3; delay p=0.3 by=1ms jitter=3ms")
        world.run_until(100 * NS_PER_MS)
        return world.digest()

    assert digest(5) == digest(5)
    assert digest(5) != digest(6)


def test_a_deadline_in_the_past_does_not_stop_the_clock():
    world = World(1)
    node = Ticker(0)
    world.attach(node, Segment(world).port("node"))
    world.run_until(NS_PER_MS)
    assert len(node.turns) == 1001


def test_a_condition_that_never_holds_names_seed_step_and_faults():
    world, *_ = two_nodes(77, "drop p=0.5")
    with pytest.raises(
        NotReachedError, match=r"within 0\.01 s .*; seed 77, step \d+, t=0\.01"
    ) as e:
        world.run_until(lambda: False, within_ns=10 * NS_PER_MS)
    assert "faults lan: drop p=0.5" in str(e.value)


def test_an_error_inside_the_world_carries_the_seed():
    world = World(42)

    def fail() -> None:
        raise ValueError("inside")

    world.events.after(5, fail)
    with pytest.raises(ValueError, match="inside") as caught:
        world.run_for(10)
    assert any("seed 42, step 1" in note for note in caught.value.__notes__)


def test_a_check_runs_after_every_event():
    world, one, _ = two_nodes()
    seen = []
    world.checks.append(lambda: seen.append(world.steps))
    world.run_until(NS_PER_MS)
    assert seen == list(range(1, world.steps + 1))
    assert one.turns


def test_a_world_whose_clock_stands_still_is_stuck():
    world = World(1)

    def again() -> None:
        world.events.after(0, again)

    again()
    with pytest.raises(StuckError, match="100000 events at one instant; seed 1"):
        world.run_for(1)


def test_power_off_loses_frames_and_power_on_starts_a_fresh_node():
    world, one, two = two_nodes()
    world.run_until(5 * NS_PER_MS)
    world.attachment("two").power_off()
    world.run_until(15 * NS_PER_MS)
    turns = len(two.turns)
    fresh = Ticker(NS_PER_MS)
    world.attachment("two").power_on(fresh)
    world.run_until(20 * NS_PER_MS)
    assert len(two.turns) == turns
    assert len(fresh.inbox) == 5
    assert len(one.inbox) == 1 + 5


def test_jumping_the_clock_source_moves_only_that_node():
    world, one, two = two_nodes()
    world.run_until(NS_PER_MS)
    world.attachment("one").jump_clock(3 * NS_PER_S)
    world.run_until(2 * NS_PER_MS)
    assert one.turns[-1] == 3 * NS_PER_S + 2 * NS_PER_MS
    assert max(two.turns) <= 2 * NS_PER_MS


def test_a_plan_jumps_a_clock():
    world, one, _ = two_nodes()
    world.schedule(FaultPlan.parse("at 5ms jump-clock one -2; at 9ms jump-clock one 7"))
    world.run_until(6 * NS_PER_MS)
    assert max(one.turns) <= 5 * NS_PER_MS
    assert one.turns[-1] <= 4 * NS_PER_MS
    world.run_until(10 * NS_PER_MS)
    assert one.turns[-1] == 15 * NS_PER_MS


def test_plan_events_pull_cables_and_call_registered_actions():
    world, _, two = two_nodes()
    called: list[str] = []
    world.actions["lease"] = called.append
    world.schedule(FaultPlan.parse("at 5ms link-down one; at 9ms link-up one; at 7ms lease a 3"))
    world.run_until(10 * NS_PER_MS)
    assert called == ["a 3"]
    # 0..4 ms before, 5 lost at once or on the way, 9 ms is sent before the cable is back.
    assert 4 <= len(two.inbox) <= 6


def test_an_unknown_action_lists_the_known_ones():
    world = World(1)
    with pytest.raises(
        LookupError, match="no action is called 'explode'; known: freeze, halt, jump-clock"
    ):
        world.schedule(FaultPlan.parse("at 5ms explode"))


def one_node(ppm: int = 0) -> tuple[World, Ticker]:
    world = World(1)
    node = Ticker(NS_PER_MS)
    world.attach(node, Segment(world).port("one"), clock_ppm=ppm)
    return world, node


@pytest.mark.parametrize("ppm", [-9_999, -1, 1, 10_000])
def test_a_clock_may_run_fast_or_slow(ppm):
    world, node = one_node(ppm)
    world.run_until(NS_PER_S)
    assert node.turns[-1] == pytest.approx(NS_PER_S * (1 + ppm / 1e6), abs=NS_PER_MS)
    # It is woken when its own clock says so, not before.
    assert [turn // NS_PER_MS for turn in node.turns] == list(range(len(node.turns)))


def test_a_node_that_is_halted_wakes_late():
    world, node = one_node()
    world.schedule(FaultPlan.parse("at 10ms halt one 500"))
    world.run_until(600 * NS_PER_MS)
    late = [turn for turn in node.turns if 10 * NS_PER_MS < turn < 510 * NS_PER_MS]
    assert late == []
    assert 510 * NS_PER_MS in node.turns


def test_a_clock_that_stood_still_knows_nothing_of_it():
    world, node = one_node()
    world.schedule(FaultPlan.parse("at 10ms freeze one 500; at 20ms freeze one 7"))
    world.run_until(600 * NS_PER_MS)
    assert [turn // NS_PER_MS for turn in node.turns] == list(range(len(node.turns)))
    assert node.turns[-1] == pytest.approx(100 * NS_PER_MS, rel=0.01)


def test_power_ends_a_halt():
    world, _node = one_node()
    world.schedule(FaultPlan.parse("at 10ms halt one 500"))
    world.run_until(20 * NS_PER_MS)
    world.attachment("one").power_off()
    fresh = Ticker(NS_PER_MS)
    world.attachment("one").power_on(fresh)
    world.run_until(30 * NS_PER_MS)
    assert len(fresh.turns) == 11
