"""Dispatches by the thousand over a lossy wire: every one arrives, and nothing is used up."""

from __future__ import annotations

import os
import time

from emulator.devices.virtio_net import TX
from firmware.layouts.nic import NIC
from firmware.layouts.shard import ShardState

RATE = 2000
SECONDS = int(os.environ.get("SHARDFW_SIM_LOAD_SECONDS", "10"))
LOSS = "drop p=0.01"


def free_lists(rig):
    """What must be the same before and after: transmit buffers, receive rings, spans."""
    nic = rig.node.g(NIC)
    # Transmit buffers that the card gave back are taken when the next one is needed.
    returned = rig.node.card.queues[TX].returned - nic.tx.seen & 0xFFFF
    shards = [rig.node.shard(n).tcp for n in range(rig.facts.shards)]
    return (
        nic.tx_free_count + returned,
        [(tcp.ring_ready, tcp.spans_used) for tcp in shards],
        [rig.node.shard(n).websocket.pending for n in range(rig.facts.shards)],
    )


def test_two_thousand_dispatches_a_second_with_loss_all_arrive(rig_of, load, record_property):
    rig = rig_of(1, faults=LOSS)
    rig.until_ready(30)
    rig.run(5)
    before = free_lists(rig)
    generator = rig.load(load(rate=RATE))
    started = time.perf_counter()
    rig.run(SECONDS)
    took = time.perf_counter() - started
    rig.load(None)
    rig.run(10)
    sent = sum(generator.counter(n) for n in range(16))
    record_property("dispatches_per_real_second", round(sent / took))
    assert sent > 0.95 * RATE * SECONDS
    assert rig.states == [ShardState.READY] * 16
    for row, stats in zip(rig.invariants.rows, rig.stats.shards, strict=True):
        assert row.reconnects == 0
        assert row.sequence == stats.sequence
        assert row.dispatches == stats.published
    assert free_lists(rig) == before
    assert rig.node.card.dropped == 0
