"""No two nodes ever run one shard, and each rule of the algorithm is needed for that."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware.layouts.fleet import FLEET
from firmware.layouts.fleet_config import FLEET_CONFIG
from tests.support.fleet_world import FleetWorld

D_MS, D_S = 8_000, 8.0
WAIT_S = D_S * 1.01 + 0.5
RANGES = ([(0, 2), (2, 2)], [(0, 4)], [(0, 1), (1, 3)])


def free(world, epoch, slot, generation=0, expected=None):
    start, count = RANGES[epoch % len(RANGES)][slot]
    value = b"1 free - - %d 0 0 %d %d %d 4" % (generation, epoch, start, count)
    return world.put(f"lease.{slot}", value, expected)


def plan(world, mode, epoch):
    ranges = RANGES[epoch % len(RANGES)]
    shown = b" ".join(b"%d+%d" % one for one in ranges)
    world.put("plan", b"1 %b %d 4 1 %d %d %b" % (mode, epoch, D_MS, len(ranges), shown))


def begin(world):
    for slot in range(len(RANGES[0])):
        free(world, 0, slot)
    plan(world, b"active", 0)


class Operator:
    """Changes the plan again and again, by the four steps."""

    def __init__(self, world):
        self.world, self.epoch, self.done = world, 0, 0
        world.after(6, self.drain)

    def drain(self):
        plan(self.world, b"drain", self.epoch)
        # From here on it sees every claim that came before, and no later one starts.
        self.seen = {}
        self.wait()

    def wait(self):
        world, ready = self.world, True
        for key, record in world.store.records.items():
            if ".lease." not in key:
                continue
            since = self.seen.setdefault((key, record.revision), world.now)
            ready &= record.value.startswith(b"1 free") or world.now - since >= WAIT_S
        if not ready or not self.write():
            world.after(0.2, self.wait)
            return
        plan(world, b"active", self.epoch)
        self.done += 1
        # Soon enough to meet claims on their way, or when everything runs.
        soon = world.random.choice(((0.05, 0.6), (3, 12)))
        world.after(world.random.uniform(*soon), self.drain)

    def write(self):
        """Write the records of the next plan; one that changed meanwhile is waited for again."""
        world, epoch = self.world, self.epoch + 1
        for slot in range(len(RANGES[epoch % len(RANGES)])):
            known = world.store.records.get(f"b1.ctl.lease.{slot}")
            generation = int(known.value.split()[4]) if known else 0
            if not free(world, epoch, slot, generation, known.revision if known else 0):
                return False
        self.epoch = epoch
        return True


def simulate(seed, seconds=40, unsafe="", moves=False):
    world = FleetWorld(seed, unsafe=unsafe)
    begin(world)
    operator = Operator(world) if moves else None
    world.run(seconds)
    return world, operator


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_no_shard_has_two_owners(seed):
    world, _ = simulate(seed)
    assert world.overlaps == 0
    assert world.starts > 0


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_no_shard_has_two_owners_while_the_plan_changes(seed):
    world, operator = simulate(seed, moves=True)
    assert world.overlaps == 0
    assert operator.done > 0


def one_slot(unsafe, pause=0.0):
    """Two nodes and one slot: who has it is cut off, right behind a renewal that was granted."""
    world = FleetWorld(7, nodes=2, unsafe=unsafe, calm=True)
    world.put("lease.0", b"1 free - - 0 0 0 1 0 4 4")
    plan(world, b"active", 1)
    world.run(4)
    (holder,) = [node for node in world.nodes if any(node.holds())]
    (other,) = set(world.nodes) - {holder}
    held = holder.g(FLEET).held[0]
    holder.pause_after_send, renewals = pause, held.renewals
    while held.renewals == renewals:
        assert world.now < 12
        world.run(world.now + 0.01)
    world.cut(holder)
    world.run(world.now + 2 * WAIT_S)
    assert any(other.holds()), "it takes over"
    return world.overlaps


def early_claim(unsafe):
    """A claim is on its way behind a drain, by a node whose watch is slow; then comes another plan."""
    world = FleetWorld(7, nodes=2, unsafe=unsafe, calm=True)
    slow, fast = world.nodes
    slow.watch_delay, fast.g(FLEET_CONFIG).cap = 2.0, 0
    world.run(2)
    world.put("lease.0", b"1 held x 00000000 1 1 8000 0 0 2 4")
    free(world, 0, 1)
    plan(world, b"active", 0)
    while not slow.g(FLEET).holding:
        assert world.now < 12
        world.run(world.now + 0.005)
    # The operator has seen slot 1 free, and knows that nobody has slot 0.
    plan(world, b"drain", 0)
    world.put("lease.0", b"1 free - - 1 0 0 1 0 4 4")
    plan(world, b"active", 1)
    fast.g(FLEET_CONFIG).cap = 1
    world.run(world.now + 6)
    assert any(fast.holds()), "it takes the new slot"
    return world.overlaps


SCENARIOS = [
    (one_slot, "no deadline", {}),
    (one_slot, "half the wait", {}),
    (one_slot, "time after the send", {"pause": 3.4}),
    (early_claim, "before the echo", {}),
]


@pytest.mark.parametrize(("scenario", "rule", "how"), SCENARIOS)
def test_each_rule_is_needed(scenario, rule, how):
    assert scenario("", **how) == 0
    assert scenario(rule, **how) > 0


def test_owners_change_when_things_go_wrong():
    worlds = [simulate(seed)[0] for seed in range(3)]
    assert sum(world.starts for world in worlds) > 3 * 4


def identify(seed, seconds=60):
    """Let three nodes identify with one key as often as they may."""
    world = FleetWorld(seed)
    world.identifies = []
    world.put("ident.0", b"1 - - 0 0")
    world.put("budget", b"1 100 100 - 0")
    plan(world, b"drain", 1)
    world.run(seconds)
    left = int(world.record("budget").value.split()[1])
    gaps = [b - a for a, b in itertools.pairwise(world.identifies)]
    return gaps, len(world.identifies), 100 - left


@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_identifies_of_a_key_are_spaced_and_paid_for(seed):
    gaps, sent, paid = identify(seed)
    assert min(gaps, default=5.0) >= 5.0
    assert 0 < sent <= paid
