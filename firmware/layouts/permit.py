"""The Identify gate: one permit per key, busy for a while after its use (decision 20)."""

from __future__ import annotations

from toolchain.layout import Global, Struct, array, u32, u64

PERMITS_MAX = 256
"""As many keys as a configuration may name; each is 32 bytes."""
IDENTIFY_REFUSED_MS = 5_000
"""How long a key stays busy after an op 9 to its Identify (case E2); Fluxer of the old kind needs it."""


class Permit(Struct):
    """The right to send an Identify for one value of `shard_id % max_concurrency`."""

    SIZE = 0x20
    busy_until = u64(0x00, "TSC before which nobody may take it")
    owner = u32(0x08, "slot + 1 of the shard that holds it; 0 = free")
    waiter = u32(0x0C, "slot + 1 of the shard that waits longest, as far as known; 0 = none")
    waiting_since = u64(0x10, "its ShardContext.permit_since")


class Permits(Struct):
    """All keys of the node."""

    SIZE = 0x20 + PERMITS_MAX * Permit.SIZE
    max_concurrency = u32(0x00, "keys in use, 1..PERMITS_MAX; configured, or what discovery said")
    owned = u32(0x04, "keys that have an owner: Identifies that are on their way")
    remaining = u32(0x08, "session starts that discovery said are left; counts with total")
    total = u32(0x0C, "session starts in 24 hours, as discovery said; 0 = it said nothing")
    reset_after_ms = u32(0x10, "time until they are all back, as discovery said; milliseconds")
    said = u32(0x14, "how often discovery said what is left, since boot")
    reset_at = u64(0x18, "TSC when all session starts are back; 0 = discovery said nothing yet")
    keys = array(0x20, Permit, PERMITS_MAX, "by shard_id % max_concurrency")


PERMITS = Global("permits", Permits, "the Identify gate")
