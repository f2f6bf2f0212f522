"""The fleet: what the plan says, which slots this node holds, when it may identify.

It speaks to NATS through `firmware.bus` alone and knows no shard: `firmware.node` makes and drops the
shards of the slots that run here. Read `firmware/docs/fleet.md` first.
"""
