"""The turn of one shard: named while it runs, and FATAL when it came back by a fault."""

import pytest

from firmware.layouts.cpu import FAULTS
from firmware.layouts.node import CLOCK, CORE
from firmware.layouts.permit import PERMITS
from firmware.layouts.shard import ShardContext, ShardState
from firmware.node.guard import shard_turn
from tests.support.lab import Lab

LAB = Lab(shard_turn)


@pytest.mark.parametrize("pending", [0, 1])
def test_shard_turn_takes_note_of_a_fault(pending):
    LAB.reset()
    LAB.g(CLOCK).tsc_cycles_per_ms, LAB.g(CORE).now = 1000, 90_000
    LAB.g(PERMITS).max_concurrency = 1
    shard = LAB.shard()
    context = LAB.view(ShardContext, shard)
    context.state = ShardState.FATAL if not pending else ShardState.ASSIGNED
    LAB.g(FAULTS).pending, LAB.g(FAULTS).vector = pending, 6
    got = LAB.call(shard_turn, shard=shard).outputs
    assert context.state == ShardState.FATAL
    assert LAB.g(CORE).current_shard == 0
    if pending:
        assert got["rax"] == 2**64 - 1
