"""The node is a step function: it takes what came, moves every shard that is due, and returns.

It never waits. Time comes from the clock, frames from the NIC, randomness from the DRBG, so the same
bytes run on hardware, in QEMU and in the simulator.
"""

from firmware.abi import CALLER_SAVED
from firmware.bus.turn import bus_flush, bus_tick
from firmware.events.deliver import publish_tick
from firmware.events.lines import lines_publish
from firmware.events.stall import publish_walk
from firmware.fleet.guard import fleet_guard
from firmware.layouts.config import CONFIG, ConfigBlob
from firmware.layouts.fleet_config import FLEET_CONFIG, FLEET_MAGIC, FleetConfig
from firmware.layouts.net import PROTOCOL_TCP, PROTOCOL_UDP
from firmware.layouts.node import CORE, SLOT_ACTIVE, CoreState, Slot, core
from firmware.log import log_drain
from firmware.net.dns import dns_tick
from firmware.net.dns_message import dns_input
from firmware.net.input import net_input
from firmware.net.tick import net_tick
from firmware.nic.queue import nic_flush, nic_leave, nic_poll, nic_release
from firmware.node.clock import clock_retry
from firmware.node.console import console_poll
from firmware.node.control import operator_input
from firmware.node.fleet_diag import diag_publish
from firmware.node.fleet_turn import fleet_turn
from firmware.node.guard import shard_turn
from firmware.node.lease import lease_tick
from firmware.node.moving import plan_tick
from firmware.node.owning import owning_guard, owning_look
from firmware.node.slots import slot_wake
from firmware.node.stop import stop_tick
from firmware.node.survive import survive_tick
from firmware.tcp.input import tcp_input
from toolchain.asm import (
    BE,
    EAX,
    EBX,
    ECX,
    NE,
    NZ,
    R9D,
    R12,
    R12D,
    R13,
    R13D,
    R14,
    R14D,
    R15,
    R15D,
    RAX,
    RBX,
    RSI,
    A,
    Asm,
    B,
    C,
    E,
    Out,
    Z,
    routine,
)

FRAMES_PER_TURN = 64
"""Receive budget of a turn: heartbeats and ACKs of every shard come before more bulk."""


@routine(
    outputs=[Out(EAX, "frames taken; FRAMES_PER_TURN = there may be more")],
    clobbers=CALLER_SAVED,
    reads=[ConfigBlob.diagnostics_port],
    calls=[
        nic_poll,
        nic_leave,
        nic_release,
        net_input,
        tcp_input,
        operator_input,
        dns_input,
        slot_wake,
        owning_look,
    ],
    saves=[RBX, R12, R13, R14],
    source="firmware/docs/layers.md",
)
def receive_frames(a: Asm) -> None:
    """Hand each received frame to whom it is for; at most the budget of a turn."""
    a.xor(R12D, R12D)
    with a.loop() as top:
        a.call(nic_poll)
        a.test(ECX, ECX)
        a.leave(Z, top)
        # TCP may answer a segment at once.
        a.test(R12D, R12D)
        with a.if_(Z):
            a.mov(R13, RSI)
            a.mov(R14D, ECX)
            a.call(owning_look)
            with a.if_(C):
                a.call(nic_leave)
                a.mov(EAX, FRAMES_PER_TURN)
                a.ret()
            a.mov(RSI, R13)
            a.mov(ECX, R14D)
        a.call(net_input)
        with a.block() as taken:
            a.cmp(EAX, PROTOCOL_TCP)
            with a.if_(E):
                a.call(tcp_input)
                # The shard is moved in this very turn, so that its answer leaves with it.
                a.test(RAX, RAX)
                a.leave(Z, taken)
                a.mov(RBX, RAX)
                a.call(slot_wake)
                a.jmp(taken)
            a.cmp(EAX, PROTOCOL_UDP)
            a.leave(NE, taken)
            # Port 0 turns diagnostics off; the wire may name it all the same.
            with a.block() as other:
                a.movzx(EAX, CONFIG.it.diagnostics_port)
                a.test(EAX, EAX)
                a.leave(Z, other)
                a.cmp(R9D, EAX)
                a.leave(NE, other)
                a.call(operator_input)
                a.jmp(taken)
            a.call(dns_input)
        a.call(nic_release)
        a.inc(R12D)
        a.cmp(R12D, FRAMES_PER_TURN)
        a.again(B, top)
    a.mov(EAX, R12D)
    a.ret()


@routine(
    outputs=[Out(RAX, "earliest TSC at which a shard wants to run; all ones = none")],
    clobbers=CALLER_SAVED,
    reads=[
        CoreState.now,
        CoreState.slots_used,
        CoreState.slots_due,
        Slot.flags,
        Slot.context,
        Slot.deadline,
    ],
    writes=[Slot.deadline, CoreState.slots_due],
    calls=[shard_turn, owning_look, publish_walk],
    saves=[RBX, R12, R13, R14, R15],
    source="firmware/docs/lifecycle.md#per-shard-failure-isolation",
)
def step_shards(a: Asm) -> None:
    """Tick every active shard that is due; the table is 16 bytes a slot and nothing else is read."""
    slot = Slot.at(R12)
    # While the earliest deadline of all rows lies ahead, the table need not be looked at.
    a.mov(RAX, core.slots_due)
    a.cmp(RAX, core.now)
    with a.if_(A):
        a.ret()
    a.call(owning_look)
    with a.if_(C):
        a.mov(RAX, core.now)
        a.ret()
    a.mov(core.slots_due, -1)
    a.call(publish_walk)
    # The rows before the first one come last.
    a.mov(R15D, EAX)
    a.mov(R13D, core.slots_used)
    a.sub(R13D, R15D)
    a.shl(EAX, 4)  # a slot row is 16 bytes
    a.lea(R12, CORE.it.slots.address)
    a.add(R12, RAX)
    a.mov(R14, -1)
    with a.loop() as part:
        a.test(R13D, R13D)
        with a.if_(NZ), a.loop() as top:
            with a.block() as idle:
                a.test(slot.flags, SLOT_ACTIVE)
                a.leave(Z, idle)
                a.mov(RAX, slot.deadline)
                a.cmp(RAX, core.now)
                with a.if_(BE):
                    a.mov(EBX, slot.context)
                    a.call(shard_turn)
                    a.mov(slot.deadline, RAX)
                a.cmp(RAX, R14)
                a.cmov(B, R14, RAX)
            a.add(R12, Slot.SIZE)
            a.dec(R13D)
            a.again(NZ, top)
        a.lea(R12, CORE.it.slots.address)
        a.mov(R13D, R15D)
        a.xor(R15D, R15D)
        a.test(R13D, R13D)
        a.again(NZ, part)
    # A row that was woken meanwhile keeps the whole table due.
    a.mov(RAX, core.slots_due)
    a.cmp(R14, RAX)
    a.cmov(B, RAX, R14)
    a.mov(core.slots_due, RAX)
    a.ret()


@routine(
    outputs=[
        Out(RAX, "TSC by which the node wants to be called again; all ones = only on a frame")
    ],
    clobbers=CALLER_SAVED,
    reads=[FleetConfig.magic, CoreState.now, CoreState.slots_due],
    writes=[CoreState.now, CoreState.turns, CoreState.next_deadline],
    calls=[
        clock_retry,
        lease_tick,
        survive_tick,
        receive_frames,
        net_tick,
        dns_tick,
        bus_tick,
        bus_flush,
        fleet_guard,
        fleet_turn,
        owning_guard,
        publish_tick,
        lines_publish,
        diag_publish,
        console_poll,
        step_shards,
        plan_tick,
        stop_tick,
        nic_flush,
        log_drain,
    ],
    saves=[R12, R13],
    source="firmware/docs/layers.md",
)
def node_step(a: Asm) -> None:
    """Do one turn: clock, leases, frames, timers, bus, fleet, operator, shards, plan, stop, events, doorbell, log."""
    a.call(clock_retry)
    a.rdtsc64()
    a.mov(core.now, RAX)
    a.inc(core.turns)
    a.call(lease_tick)
    a.call(fleet_guard)
    a.call(owning_guard)
    a.call(survive_tick)
    a.call(receive_frames)
    a.mov(R13D, EAX)
    a.call(net_tick)
    a.mov(R12, RAX)
    a.call(dns_tick)
    a.cmp(RAX, R12)
    a.cmov(B, R12, RAX)
    a.call(bus_tick)
    a.cmp(RAX, R12)
    a.cmov(B, R12, RAX)
    a.call(fleet_turn)
    a.cmp(RAX, R12)
    a.cmov(B, R12, RAX)
    a.call(console_poll)
    a.call(step_shards)
    a.cmp(RAX, R12)
    a.cmov(B, R12, RAX)
    a.call(plan_tick)
    # A move may have made shards due since.
    a.mov(RAX, core.slots_due)
    a.cmp(RAX, R12)
    a.cmov(B, R12, RAX)
    a.call(stop_tick)
    a.cmp(RAX, R12)
    a.cmov(B, R12, RAX)
    # What leaves for the bus: events first, then what nobody waits for.
    a.cmp(FLEET_CONFIG.it.magic, FLEET_MAGIC)
    with a.if_(E):
        a.call(publish_tick)
        a.cmp(RAX, R12)
        a.cmov(B, R12, RAX)
        a.call(lines_publish)
        a.call(diag_publish)
        a.cmp(RAX, R12)
        a.cmov(B, R12, RAX)
        a.call(bus_flush)
        a.cmp(RAX, R12)
        a.cmov(B, R12, RAX)
    a.call(nic_flush)
    a.call(log_drain)

    # A full budget means that more may be waiting: come back at once.
    a.mov(RAX, core.now)
    a.cmp(R13D, FRAMES_PER_TURN)
    a.cmov(E, R12, RAX)
    a.mov(RAX, R12)
    a.mov(core.next_deadline, RAX)
    a.ret()
