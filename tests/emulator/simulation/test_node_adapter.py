"""The adapter between the world and an image, with a tiny image that echoes frames."""

from __future__ import annotations

import functools

import pytest
import unicorn as uc

from emulator.coverage import Coverage, branch_table
from emulator.machine import STOP, MachineError
from emulator.simulation.clock import NS_PER_MS
from emulator.simulation.node import (
    CYCLES_PER_MS,
    TSC_AT_ZERO,
    ImageNode,
    link_node,
    parse_line,
    shard_address,
)
from emulator.simulation.node_facts import NodeFacts
from emulator.simulation.wire import Segment
from emulator.simulation.world import World
from firmware.abi import CALLER_SAVED
from firmware.layouts.boot import BOOT, BootInfo
from firmware.layouts.clock import NEVER
from firmware.layouts.config import CONFIG, CONFIG_MAGIC
from firmware.layouts.memory import MEMORY, Memory
from firmware.layouts.nic import NIC, NicState
from firmware.layouts.node import CLOCK
from firmware.limits import PAGE, RING_BYTES
from firmware.log import log_drain
from firmware.memory.windows import dma_map, workspace_map
from firmware.nic.device import nic_init
from firmware.nic.queue import nic_commit, nic_flush, nic_poll, nic_release, nic_reserve
from toolchain.asm import EAX, ECX, EDI, RAX, RBX, RSI, Asm, C, Out, Region, Z, mem8, routine

FRAME = bytes.fromhex("525400123456 020000000001 88b5").ljust(60, b"\x01")


ECHO = Region("frames", "both ways")
POKE = 0xEE


@routine(
    clobbers=CALLER_SAVED,
    reads=[BootInfo.nic_function, Memory.dma_physical],
    calls=[dma_map, workspace_map, nic_init],
    source="test",
)
def node_init(a: Asm) -> None:
    """Map what the card needs and one workspace, and start the card."""
    a.call(dma_map)
    a.xor(EDI, EDI)
    a.call(workspace_map)
    a.mov(EDI, BOOT.it.nic_function)
    a.mov(RSI, MEMORY.it.dma_physical)
    a.jmp(nic_init)


@routine(
    outputs=[Out(RAX, "next deadline")],
    clobbers=CALLER_SAVED,
    calls=[nic_poll, nic_release, nic_reserve, nic_commit, nic_flush, log_drain],
    reads=[ECHO],
    writes=[ECHO],
    saves=[RBX],
    source="test",
)
def node_step(a: Asm) -> None:
    """Send every frame back; ask for a turn in a millisecond."""
    done = a.label("done")
    with a.loop() as each:
        a.call(nic_poll)
        a.test(ECX, ECX)
        a.leave(Z, each)
        a.mov(RBX, RSI)
        a.call(nic_reserve)
        a.j(C, done)
        a.mov(RSI, RBX)
        a.mov(ECX, 60)
        a.rep_movsb()
        a.mov(ECX, 60)
        a.call(nic_commit)
        a.call(nic_release)
        a.cmp(mem8(RBX, 14, ref=ECHO), POKE)
        with a.if_(Z):
            # What a defect would do: store into the guard page below the second workspace.
            a.mov(EAX, shard_address(1) // PAGE * PAGE - 8)
            a.mov(mem8(RAX, ref=ECHO), 1)
        a.jmp(each.top)
    a.place(done)
    a.call(log_drain)
    a.call(nic_flush)
    a.rdtsc64()
    a.add(RAX, CYCLES_PER_MS)
    a.ret()


@functools.cache
def echo_image():
    return link_node(node_init, node_step)


def echo_node(**options) -> ImageNode:
    return ImageNode(NodeFacts(shards=2), image=echo_image(), **options)


@pytest.mark.parametrize("modern", [False, True])
def test_a_frame_goes_through_ports_or_windows_and_comes_back(modern):
    node = echo_node(modern=modern)
    assert node.g(NIC).state == NicState.READY
    node.deliver(FRAME)
    assert node.step(7) == [FRAME]
    assert node.step(8) == []
    assert node.bus.strays == []
    assert node.turns == 2


def test_time_is_one_cycle_a_nanosecond_and_deadlines_are_virtual_times():
    node = echo_node(now_ns=5)
    assert node.g(CLOCK).tsc_cycles_per_ms == CYCLES_PER_MS
    assert node.g(CLOCK).boot_tsc == TSC_AT_ZERO + 5
    node.step(1000)
    assert node.next_deadline(1000) == 1000 + NS_PER_MS
    node._deadline = NEVER
    assert node.next_deadline(1000) is None


def test_the_facts_of_the_boot_are_where_the_firmware_reads_them():
    node = ImageNode(NodeFacts(shards=1, lease_ms=77, ack=b"\x02ack"), image=echo_image())
    config, boot = node.g(CONFIG), node.g(BOOT)
    assert config.magic == CONFIG_MAGIC
    assert (config.global_total, config.local_start, config.local_count) == (1, 0, 1)
    assert config.lease_ms == 77
    assert config.gateway_host[: config.gateway_host_len] == b"gateway.test"
    assert (boot.ack_length, boot.ack[:4]) == (4, b"\x02ack")
    assert node.g(MEMORY).free_pages < node.g(MEMORY).total_pages


def test_workspaces_are_apart_and_a_store_between_them_faults():
    node = echo_node()
    shard = node.shard(0)
    assert shard.ring_base == shard_address(0) // PAGE * PAGE + 0x7000
    before = node.workspace_bytes(1)
    assert len(before) == 40 * 1024
    assert node.part(0, 0, 8) == bytes(8)
    node.deliver(FRAME[:14] + bytes([POKE]) + FRAME[15:])
    with pytest.raises(MachineError, match=r"node_step.*write to unmapped 0x70020ff8"):
        node.step(0)
    assert node.workspace_bytes(1) == before


def test_the_ring_is_the_same_memory_at_two_addresses():
    node = echo_node()
    ring = node.shard(0).ring_base
    node.machine.write(ring + RING_BYTES, b"twice")
    assert node.machine.read(ring, 5) == b"twice"


def test_log_lines_are_parsed_and_typed_lines_wait_for_the_node():
    node = echo_node()
    node.serial.lines.append("t=5 level=info shard=3 code=lifecycle.ready attempt=1")
    assert node.log[-1]["code"] == "lifecycle.ready"
    assert node.log[-1]["shard"] == "3"
    assert parse_line('plain code=x text="two words"') == {"code": "x", "text": "two words"}
    node.console("lease arm 5")
    assert bytes(node.serial.typed) == b"lease arm 5\n"


def test_a_trace_counts_instructions_and_covers_both_directions():
    node = echo_node(trace=True)
    node.step(0)
    idle = node.turn_instructions
    node.deliver(FRAME)
    node.step(1)
    assert 20 < idle < node.turn_instructions < 2000
    assert node.trace is not None
    assert node.trace.instructions >= idle + node.turn_instructions
    seen = Coverage()
    node.trace.save(seen)
    table = branch_table(node.image)
    count, _ = table.totals["node_step"]
    assert len(seen.executed["node_step"]) == count - 2
    both = {offset for offset, taken in seen.directions["node_step"] if taken}
    assert both & {offset for offset, taken in seen.directions["node_step"] if not taken}


def test_a_block_that_an_answered_instruction_cuts_is_counted_once():
    node = echo_node(trace=True)
    node.step(0)
    counted = node.turn_instructions
    seen = []
    node.machine.hook(uc.UC_HOOK_CODE, lambda _e, address, _s, _d: seen.append(address))
    node.step(1)
    assert len([a for a in seen if a != STOP]) == counted


def test_the_stack_of_the_deepest_turn_is_measured():
    node = echo_node()
    node.step(0)
    assert 8 <= node.stack_used() <= node.image.stack["node_init"] + 64


def test_a_world_gives_the_node_turns_frames_and_its_cable():
    world = World(1)
    segment = Segment(world)
    seen: list[bytes] = []
    other = segment.port("other", seen.append)
    node = echo_node()
    attachment = world.attach(node, segment.port("node"))
    node.plug(attachment)
    other.send(FRAME)
    world.run_until(10 * NS_PER_MS)
    assert seen == [FRAME]
    assert 10 <= attachment.turns <= 13
    segment.ports[1].set_link(up=False)
    assert not node.card.link_up
    turns = attachment.turns
    world.run_for(0)
    assert attachment.turns == turns + 1


def test_a_hung_turn_is_an_error_when_a_limit_is_set():
    with pytest.raises(MachineError, match="still running after 10 instructions"):
        echo_node(turn_limit=10)
