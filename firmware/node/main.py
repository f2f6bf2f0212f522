"""From the boot's facts to a running node."""

from firmware.abi import CALLER_SAVED
from firmware.bus.setup import bus_setup
from firmware.crypto.entropy import entropy_gather
from firmware.events.setup import publish_begin
from firmware.fleet.turn import fleet_setup
from firmware.layouts.boot import BOOT, BootInfo
from firmware.layouts.bus import FLEET_SHARDS_MAX
from firmware.layouts.config import CONFIG, ConfigBlob
from firmware.layouts.fleet_config import FLEET_CONFIG, FLEET_MAGIC, FleetConfig
from firmware.layouts.gateway import LATENCY_UNKNOWN, GatewayContext
from firmware.layouts.log import NIC_FAILED, NODE_STARTED
from firmware.layouts.memory import MEMORY, Memory
from firmware.layouts.node import CORE, PLAN, SLOT_ACTIVE, CoreState, Plan, Slot, core
from firmware.layouts.permit import PERMITS, PERMITS_MAX, Permits
from firmware.layouts.shard import Hold, ShardContext
from firmware.limits import SHARDS_MAX
from firmware.log import log, log_write
from firmware.memory.windows import workspace_map
from firmware.net.start import net_start
from firmware.nic.device import nic_init
from firmware.node.lease import lease_begin
from firmware.node.survive import survive_begin
from firmware.node.token import token_adopt
from firmware.shard.survive import survive_offer
from firmware.tls.setup import tls_setup
from toolchain.asm import (
    AE,
    CF,
    CL,
    EAX,
    EBX,
    ECX,
    EDI,
    EDX,
    NZ,
    R8D,
    R9,
    R12,
    R12D,
    R13,
    R13D,
    RAX,
    RBX,
    RCX,
    RSI,
    Asm,
    C,
    E,
    In,
    Out,
    Reg32,
    routine,
)


@routine(
    inputs=[In(EDI, int, "slot, below SHARDS_MAX")],
    outputs=[Out(CF, "1 = no memory left")],
    clobbers=CALLER_SAVED,
    reads=[
        CoreState.slots_used,
        ConfigBlob.local_start,
        ConfigBlob.global_total,
        ConfigBlob.profile,
        Plan.generation,
        Slot.context,
    ],
    writes=[
        ShardContext.shard_id,
        ShardContext.shard_total,
        ShardContext.session_ptr,
        ShardContext.plan_generation,
        ShardContext.profile,
        ShardContext.hold,
        GatewayContext.latency_ms,
        Slot.context,
        Slot.flags,
        CoreState.slots_used,
    ],
    calls=[workspace_map, survive_offer],
    saves=[RBX, R12],
    source="firmware/docs/lifecycle.md#per-shard-failure-isolation",
)
def slot_add(a: Asm, slot: Reg32) -> None:
    """Give one shard its workspace and its row in the scheduler's table."""
    shard, row = ShardContext.at(RAX), Slot.at(RCX, index=R12)
    a.mov(R12D, slot)
    a.call(workspace_map)
    with a.if_(C):
        a.ret()
    a.mov(ECX, CONFIG.it.local_start)
    a.add(ECX, R12D)
    a.mov(shard.shard_id, ECX)
    a.mov(ECX, CONFIG.it.global_total)
    a.mov(shard.shard_total, ECX)
    a.mov(ECX, PLAN.it.generation)
    a.mov(shard.plan_generation, ECX)
    a.mov(CL, CONFIG.it.profile)
    a.mov(shard.profile, CL)
    a.mov(shard.hold, Hold.NEW)
    a.mov(shard.gateway.latency_ms, LATENCY_UNKNOWN)
    a.lea(RCX, shard.session.valid)
    a.mov(shard.session_ptr, RCX)

    a.shl(R12D, 4)  # a slot row is 16 bytes
    a.lea(RCX, CORE.it.slots.address)
    a.mov(row.context, EAX)
    a.mov(row.flags, SLOT_ACTIVE)
    a.inc(core.slots_used)
    a.mov(EBX, row.context)
    a.call(survive_offer)
    a.clc()
    a.ret()


@routine(
    outputs=[Out(EAX, "shards that got a workspace")],
    clobbers=CALLER_SAVED,
    reads=[
        ConfigBlob,
        BootInfo.nic_function,
        BootInfo.ack_length,
        Memory.dma_physical,
        CoreState.slots_used,
        FleetConfig.magic,
    ],
    writes=[
        CoreState.now,
        Plan.global_total,
        Plan.local_start,
        Plan.local_count,
        Plan.generation,
        Permits.max_concurrency,
    ],
    calls=[
        token_adopt,
        survive_begin,
        lease_begin,
        nic_init,
        entropy_gather,
        tls_setup,
        net_start,
        bus_setup,
        fleet_setup,
        publish_begin,
        slot_add,
        log_write,
    ],
    saves=[R12, R13],
    source="firmware/docs/layers.md",
)
def node_init(a: Asm) -> None:
    """Take the plan from the configuration, start the card and the network, make the shards."""
    config = CONFIG.it
    a.rdtsc64()
    a.mov(core.now, RAX)
    for source, target in (
        (config.global_total, PLAN.it.global_total),
        (config.local_start, PLAN.it.local_start),
        (config.local_count, PLAN.it.local_count),
    ):  # fmt: skip - three values, unrolled
        a.mov(EAX, source)
        a.mov(target, EAX)
    a.mov(PLAN.it.generation, 1)
    # The build refuses other numbers; a damaged image must not divide by zero or leave the table.
    a.mov(EAX, config.max_concurrency)
    a.dec(EAX)
    a.cmp(EAX, PERMITS_MAX)
    with a.if_(AE):
        a.xor(EAX, EAX)
    a.inc(EAX)
    a.mov(PERMITS.it.max_concurrency, EAX)

    a.call(token_adopt)
    a.call(survive_begin)
    # A grant at boot, when the operator wants the lease enforced from the start.
    a.call(lease_begin)

    a.mov(EDI, BOOT.it.nic_function)
    a.mov(RSI, MEMORY.it.dma_physical)
    a.call(nic_init)
    a.test(EAX, EAX)
    with a.if_(NZ):
        a.mov(EDX, EAX)
        a.mov(ECX, BOOT.it.nic_function)
        log(a, NIC_FAILED)
    a.call(entropy_gather)
    a.call(tls_setup)
    a.lea(RSI, BOOT.it.ack.address)
    a.movzx(ECX, BOOT.it.ack_length)
    a.call(net_start)

    # A fleet's links have the last two workspaces. The build refuses more shards than there are; a
    # damaged image must not write past the table either.
    a.mov(R12D, SHARDS_MAX)
    a.cmp(FLEET_CONFIG.it.magic, FLEET_MAGIC)
    with a.if_(E):
        a.call(bus_setup)
        a.call(fleet_setup)
        a.call(publish_begin)
        a.mov(R12D, FLEET_SHARDS_MAX)
    a.mov(R13D, config.local_count)
    a.cmp(R13D, R12D)
    a.cmov(AE, R13D, R12D)
    a.xor(R12D, R12D)
    with a.loop() as top:
        a.cmp(R12D, R13D)
        a.leave(AE, top)
        a.mov(EDI, R12D)
        a.call(slot_add)
        a.leave(C, top)
        a.inc(R12D)
        a.jmp(top.top)
    a.mov(EDX, config.global_total)
    a.mov(ECX, config.local_start)
    a.mov(R8D, core.slots_used)
    a.mov(R9, config.lease_ms)
    log(a, NODE_STARTED)
    a.mov(EAX, core.slots_used)
    a.ret()
