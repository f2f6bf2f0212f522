"""A node in order with two shards, one of which takes a turn."""

from emulator.environment import Environment
from firmware.layouts.config import CONFIG
from firmware.layouts.log import LOG, LOG_RING
from firmware.layouts.node import CORE
from firmware.layouts.permit import PERMITS
from firmware.layouts.policy import Policy
from firmware.layouts.shard import ShardContext
from firmware.shard.tick import shard_tick, shards_tick
from tests.support.lab import Lab
from tests.support.net import NEEDED, ROUTER, NetBench

LAB = Lab(*NEEDED, shard_tick, shards_tick, slots=2)
GATEWAY = "10.0.0.9"
NEVER = 2**64 - 1


class Node:
    """A node in order with two shards; times are relative to `START`."""

    def __init__(self):
        self.bench = NetBench(LAB)
        LAB.g(PERMITS).max_concurrency = 1
        config = LAB.g(CONFIG)
        config.policy = Policy.FIXED
        config.gateway_host[0 : len(GATEWAY)] = GATEWAY.encode()
        config.gateway_host_len, config.gateway_port = len(GATEWAY), 8080
        path = b"/?v=10&encoding=json"
        config.gateway_path[0 : len(path)] = path
        config.gateway_path_len = len(path)
        self.bench.learn(GATEWAY, slot=0)
        self.bench.learn(ROUTER, slot=1)
        core = LAB.g(CORE)
        core.slots_used = 2
        self.shards = []
        for n in range(2):
            address = LAB.shard(n)
            context = LAB.view(ShardContext, address)
            context.shard_id, context.shard_total = n, 2
            context.session_ptr = context.session.address_
            core.slots[n].context, core.slots[n].flags = address, 1
            self.shards.append(context)

    @property
    def now(self):
        """The TSC of this turn."""
        return LAB.g(CORE).now

    def tick(self, n=0):
        """Let a shard take its turn; return when it wants the next."""
        env = self.bench.environment()
        env = Environment(
            tsc=lambda: self.now,
            on_port_in=env.on_port_in,
            on_port_out=env.on_port_out,
            on_mmio_read=env.on_mmio_read,
            on_mmio_write=env.on_mmio_write,
        )
        return LAB.call(shard_tick, env, shard=self.shards[n].address_).outputs["rax"]

    def lines(self):
        """Return what was logged."""
        raw = LAB.machine.read(LAB.image.address(LOG_RING), LAB.g(LOG).head)
        return raw.decode().splitlines()
