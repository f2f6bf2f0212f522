"""From the boot's facts to a running node."""

from emulator.effects import World, model
from emulator.models.bus.setup import bus_setup
from emulator.models.crypto.entropy import entropy_gather
from emulator.models.log import log_write
from emulator.models.memory.windows import workspace_map
from emulator.models.net.start import net_start
from emulator.models.nic.device import nic_init
from emulator.models.node.lease import lease_begin
from emulator.models.node.survive import survive_begin
from emulator.models.node.token import token_adopt
from emulator.models.shard.survive import survive_offer
from emulator.models.tls.setup import tls_setup
from firmware.layouts.boot import BOOT
from firmware.layouts.bus import FLEET_SHARDS_MAX
from firmware.layouts.config import CONFIG
from firmware.layouts.fleet_config import FLEET_CONFIG, FLEET_MAGIC
from firmware.layouts.gateway import LATENCY_UNKNOWN
from firmware.layouts.log import NIC_FAILED, NODE_STARTED
from firmware.layouts.memory import MEMORY
from firmware.layouts.node import CORE, PLAN
from firmware.layouts.permit import PERMITS, PERMITS_MAX
from firmware.layouts.shard import Hold, ShardContext
from firmware.limits import SHARDS_MAX


@model
def slot_add(w: World, slot: int) -> int:
    """Workspace, identity, session object, row in the table."""
    address, full = workspace_map(w, slot)
    if full:
        return 1
    shard, config, core = w.view(ShardContext, address), w.g(CONFIG), w.g(CORE)
    shard.shard_id, shard.shard_total = config.local_start + slot, config.global_total
    shard.profile, shard.hold = config.profile, Hold.NEW
    shard.plan_generation = w.g(PLAN).generation
    shard.gateway.latency_ms = LATENCY_UNKNOWN
    shard.session_ptr = shard.session.address_
    core.slots[slot].context, core.slots[slot].flags = address, 1
    core.slots_used += 1
    survive_offer(w, address)
    return 0


@model
def node_init(w: World) -> int:
    """Plan, lease, card, randomness, network, shards; a dead card is logged and lived with."""
    config, core, plan = w.g(CONFIG), w.g(CORE), w.g(PLAN)
    core.now = w.rdtsc()
    plan.global_total, plan.local_start = config.global_total, config.local_start
    plan.local_count, plan.generation = config.local_count, 1
    keys = config.max_concurrency
    w.g(PERMITS).max_concurrency = keys if 1 <= keys <= PERMITS_MAX else 1
    token_adopt(w)
    survive_begin(w)
    lease_begin(w)
    error = nic_init(w, w.g(BOOT).nic_function, w.g(MEMORY).dma_physical)
    if error:
        log_write(w, 0, NIC_FAILED, error, w.g(BOOT).nic_function, 0, 0)
    entropy_gather(w)
    tls_setup(w)
    net_start(w, w.g(BOOT).ack.address, w.g(BOOT).ack_length)
    places = SHARDS_MAX
    if w.g(FLEET_CONFIG).magic == FLEET_MAGIC:
        bus_setup(w)
        places = FLEET_SHARDS_MAX
    for slot in range(min(config.local_count, places)):
        if slot_add(w, slot):
            break
    log_write(
        w,
        0,
        NODE_STARTED,
        config.global_total,
        config.local_start,
        core.slots_used,
        config.lease_ms,
    )
    return int(core.slots_used)
