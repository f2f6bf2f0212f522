"""How many instructions a turn takes, counted by the emulator: the same on every machine."""

import statistics

import pytest

from emulator.simulation.node import shard_address
from emulator.simulation.node_facts import NodeFacts
from emulator.simulation.rig import Rig
from emulator.simulation.trace import BlockTrace
from firmware.layouts.memory import MEMORY
from firmware.layouts.node import CORE
from firmware.limits import PAGE
from pxe.gateway.load import LoadOptions

pytestmark = pytest.mark.bench
SHARDS = 16


def ready_rig(facts: NodeFacts | None = None) -> tuple[Rig, BlockTrace]:
    """Return a node that has been READY for a while, and what counts its instructions."""
    rig = Rig(seed=1, facts=facts, trace=True, guilds_per_shard=0)
    rig.until_ready(within_s=600)
    rig.run(30)
    assert rig.node.trace is not None
    return rig, rig.node.trace


def idle_turn(rig: Rig, due: int) -> int:
    """Return the instructions of a turn in which the first `due` READY shards look for work."""
    node, core = rig.node, rig.node.g(CORE)
    for slot in range(due):
        core.slots[slot].deadline = core.slots_due = 0
    assert node.step(rig.world.now_ns) == []
    return node.turn_instructions


def test_tick_cost(figure):
    """The cost of a turn follows the active slots, and the global total does not enter it."""
    costs = {}
    for active in (1, 16, 64, 256):
        rig, _ = ready_rig(NodeFacts(shards=active))
        idle_turn(rig, active)
        costs[active] = [idle_turn(rig, due) for due in (0, 1, active)]
        none, one, every = costs[active]
        value = f"{none:,} none due, {one:,} one due, {every:,} all due and idle"
        figure(f"instructions of a `node_step`, {active} READY shards", value)
    each = [(costs[b][2] - costs[a][2]) / (b - a) for a, b in ((16, 64), (64, 256))]
    figure("of them for each due slot", f"{each[0]:,.0f} up to 64, {each[1]:,.0f} up to 256")
    rows = (costs[256][1] - costs[1][1]) / 255
    figure(
        "of them for each slot that is not due, in a turn that looks at the table", f"{rows:.1f}"
    )

    for total, start in ((16, 0), (65_535, 65_519)):
        rig, _ = ready_rig(NodeFacts(shards=16, total=total, start=start))
        idle_turn(rig, 16)
        none, one, every = (idle_turn(rig, due) for due in (0, 1, 16))
        value = f"{none:,} none due, {one:,} one due, {every:,} all due and idle"
        figure(f"the same, 16 READY shards of a total of {total:,}", value)


def test_idle_tick(figure):
    rig, trace = ready_rig()
    node = rig.node

    def turn(*, all_due: bool) -> int:
        return idle_turn(rig, SHARDS if all_due else 0)

    def tick(slot: int) -> int:
        address = node.image.address("shard_tick")
        node.machine.prepare_call(address, {"rbx": shard_address(slot)})
        node.machine.run(address)
        return trace.end_turn()

    turn(all_due=True)
    figure(
        "instructions of an idle `node_step`, 16 READY shards, none due", f"{turn(all_due=False):,}"
    )
    figure("the same, all 16 due and idle", f"{turn(all_due=True):,}")
    ticks = statistics.median(tick(slot) for slot in range(SHARDS))
    figure("instructions of one idle `shard_tick`", f"{ticks:,.0f}")
    rig.run(1)
    before, turns = trace.instructions, node.turns
    rig.run(60)
    spent, made = trace.instructions - before, node.turns - turns
    value = f"{spent / 60:,.0f} in {made / 60:.1f} turns, heartbeats of all 16 shards included"
    figure("instructions a second when idle", value)


@pytest.mark.parametrize(
    ("what", "options"),
    [
        (
            "a small MESSAGE_CREATE, one at a time",
            LoadOptions(rate=20, mix=(("MESSAGE_CREATE", 1.0),), size_factor=0.01, poisson=False),
        ),
        ("the mix of a busy bot, 2,000 a second", LoadOptions(rate=2000)),
    ],
)
def test_dispatch_instructions(figure, what, options):
    rig, trace = ready_rig()
    node, seconds = rig.node, 5

    def cost() -> tuple[int, int, int]:
        begun = trace.instructions
        rig.run(seconds)
        heads = [node.shard(n) for n in range(SHARDS)]
        return (
            trace.instructions - begun,
            sum(int(head.dispatches) for head in heads),
            sum(int(head.bytes_received) for head in heads),
        )

    idle, count, size = cost()
    rig.load(options)
    loaded, count_after, size_after = cost()
    dispatches = count_after - count
    each, length = (loaded - idle) / dispatches, (size_after - size) / dispatches
    value = f"{each:,.0f}, {length:,.0f} bytes of TCP data each, from frame to ACK"
    figure(f"instructions per dispatch: {what}", value)


def test_shard_memory(figure):
    free = {
        shards: int(Rig(facts=NodeFacts(shards=shards)).node.g(MEMORY).free_pages)
        for shards in (1, SHARDS)
    }
    each = (free[1] - free[SHARDS]) * PAGE // (SHARDS - 1)
    figure("RAM of one more shard", f"{each:,} bytes: state, send buffer, receive ring")
