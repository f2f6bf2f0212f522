"""The release image and what surrounds it in a machine: power, console, neighbours, floods."""

from __future__ import annotations

import pytest

from emulator.simulation.clock import NS_PER_S
from emulator.simulation.invariants import InvariantError
from emulator.simulation.node import ImageNode
from emulator.simulation.node_facts import NodeFacts
from emulator.simulation.write_watch import CrossWriteError, WriteWatch
from firmware.layouts.log import LOG
from firmware.layouts.nic import RX_BUFFERS_MAX
from firmware.layouts.node import CORE
from firmware.layouts.shard import ShardState
from firmware.node.step import FRAMES_PER_TURN

S = ShardState


def test_a_power_cycle_starts_from_nothing_and_ends_in_ready(rig_of):
    rig = rig_of(1)
    rig.until_ready(10)
    rig.power_off()
    off_ns = rig.world.now_ns
    rig.run(20)
    assert rig.monitor.sent_since(off_ns) == []
    assert rig.attachment.turns > 0
    rig.power_on()
    rig.until_ready(30)
    assert [s.identifies for s in rig.stats.shards] == [2] * 16
    assert rig.stats.identify_gate_refusals == 0


def test_a_stuck_serial_port_stops_nothing_and_drops_are_counted(rig_of, facts):
    rig = rig_of(1, facts(shards=16))
    rig.node.serial.ready = False
    rig.until_ready(10)
    for _ in range(12):
        rig.gateway.core.restart(keep_sessions=True)
        rig.gateway.flush()
        rig.run(1)
        rig.until_ready(30)
    assert rig.node.serial.lines == []
    assert rig.node.g(LOG).dropped > 0
    assert rig.status(0)["log_dropped"] == rig.node.g(LOG).dropped
    rig.node.serial.ready = True
    rig.run(5)
    assert [line["code"] for line in rig.node.log[:2]] == ["entropy.gathered", "node.started"]


def test_two_nodes_on_one_segment_share_a_bot(rig_of):
    rig = rig_of(1, NodeFacts(shards=8, start=0, total=16))
    other = ImageNode(
        NodeFacts(shards=8, start=8, total=16, mac=bytes.fromhex("525400abcdef")), seed=9
    )
    attachment = rig.world.attach(other, rig.segment.port("other"))
    other.plug(attachment)
    rig.world.run_until(
        lambda: rig.stats.open_connections == 16 and all(s.connected for s in rig.stats.shards)
    )
    assert other.address() != rig.node.address()
    rig.run(60)
    rig.power_off()
    rig.run(30)
    assert [s.connected for s in rig.stats.shards][8:] == [True] * 8
    assert rig.stats.shards[12].identifies == 1


@pytest.mark.parametrize("size", [1_000, 19_000, 70_000, 1_000_000])
def test_a_message_larger_than_every_buffer_passes_through(rig_of, facts, size):
    rig = rig_of(1, facts(shards=2))
    rig.until_ready(10)
    rig.gateway.core.dispatch(1, "BIG", {"text": "x\\u2028é" * (size // 8)})
    rig.gateway.flush()
    rig.run(10)
    assert rig.all_ready()
    assert rig.invariants.rows[1].sequence == rig.stats.shards[1].sequence
    assert rig.invariants.rows[1].reconnects == 0


def test_one_flooded_shard_does_not_delay_the_heartbeats_of_others(rig_of, facts):
    rig = rig_of(1, facts(shards=4), heartbeat_interval_ms=5_000)
    rig.until_ready(10)
    for _ in range(40):
        rig.gateway.core.dispatch(0, "FLOOD", {"text": "y" * 100_000})
        rig.gateway.flush()
        rig.run(0.5)
    assert [row.hb_misses for row in rig.invariants.rows] == [0] * 4
    assert rig.all_ready()
    assert all(s.heartbeats in (3, 4, 5) for s in rig.stats.shards)


def test_an_idle_turn_costs_a_few_hundred_instructions(rig_of):
    rig = rig_of(1, trace=True)
    rig.until_ready(10)
    rig.run(5)
    turns: list[int] = []
    rig.attachment.after_turn.append(lambda _a: turns.append(rig.node.turn_instructions))
    rig.run(30)
    typical = sorted(turns)[len(turns) // 2]
    assert 100 < typical < 1500
    # A wake-up every 100 ms at most, and what the heartbeats bring.
    assert len(turns) < 30 * 10 + 16 * 6


def test_the_stack_stays_within_what_the_linker_measured(rig_of, facts):
    rig = rig_of(1, facts(shards=2))
    rig.until_ready(10)
    rig.gateway.core.restart()
    rig.gateway.flush()
    rig.run(1)
    rig.until_ready(30)
    image = rig.node.image
    assert rig.node.stack_used() <= max(image.stack["node_init"], image.stack["node_step"]) + 8


def test_a_poked_field_is_found_in_the_next_turn(rig_of, facts):
    rig = rig_of(1, facts(shards=2))
    rig.until_ready(10)
    rig.node.shard(1).tx_base = 4096
    with pytest.raises(InvariantError, match="slot 1, rule 'identity': tx_base went from"):
        rig.run(60)


def test_two_identifies_of_one_key_within_five_seconds_are_found(rig_of, facts):
    rig = rig_of(1, facts(shards=2, max_concurrency=1))
    rig.until_ready(10)
    rig.node.shard(1).identifies += 1
    with pytest.raises(InvariantError, match="key 0 identified again after"):
        rig.run(1)


def test_a_store_into_another_workspace_is_found_at_its_instruction(rig_of, facts):
    rig = rig_of(1, facts(shards=2))
    watch = WriteWatch(rig.node)
    rig.until_ready(10)
    # The scheduler's row of shard 1 leads to shard 0 while shard 1 is marked as running.
    slots = rig.node.g(CORE).slots
    shard = rig.node.shard(1)
    shard.tx_base = rig.node.shard(0).tx_base
    assert slots[1].context == shard.address_
    with pytest.raises(CrossWriteError, match=r"\+0x[0-9a-f]+ \(.*in the workspace of slot 0"):
        rig.node.step(rig.world.now_ns + 60 * NS_PER_S)
    watch.stop()


def test_a_store_by_the_receive_path_for_nobody_is_found(rig_of, facts):
    rig = rig_of(1, facts(shards=2))
    watch = WriteWatch(rig.node)
    rig.attachment.after_turn.append(watch.judge)
    rig.until_ready(10)
    rig.run(1)
    # A frame may wait for as many turns as a full ring takes.
    port = rig.node.shard(1).tcp.local_port.to_bytes(2, "big")
    rig.node.turn_received = [bytes(12) + b"\x08\x00\x45" + bytes(21) + port]
    for _ in range(RX_BUFFERS_MAX // FRAMES_PER_TURN):
        watch.by_node.add(1)
        watch.judge()
        rig.node.turn_received = []
    watch.by_node.add(1)
    with pytest.raises(CrossWriteError, match=r"workspaces of slots \[1\]"):
        watch.judge()
    watch.stop()
