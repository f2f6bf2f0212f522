"""The seed's names for our layouts, so that hand-written NASM assembles against them."""

from __future__ import annotations

from firmware.layouts.node import CLOCK, LEASE, Clock, Lease
from firmware.layouts.shard import Session, ShardContext, ShardFlag, ShardState
from firmware.limits import RECONNECT_BACKOFF_MS
from toolchain.layout.render import Alias, Equ, enum_equs

_OFFSETS = (
    ("SHARD_OFF_STATE", ShardContext.state),
    ("SHARD_OFF_FLAGS", ShardContext.flags),
    ("SHARD_OFF_SEQUENCE", ShardContext.sequence),
    ("SHARD_OFF_RECONNECTS", ShardContext.reconnects),
    ("SHARD_OFF_RECONNECT_DEADLINE", ShardContext.reconnect_deadline),
    ("SHARD_OFF_SESSION_PTR", ShardContext.session_ptr),
    ("SSES_VALID", Session.valid),
)
EQUS = (
    *(Equ(name, field.offset, field.doc) for name, field in _OFFSETS),
    *enum_equs("SHARD_STATE", ShardState),
    *enum_equs("SHARD_FLAG", ShardFlag),
    Equ("SHARD_RECONNECT_BACKOFF_MS", RECONNECT_BACKOFF_MS, "fixed reconnect delay; milliseconds"),
)
"""Offsets and numbers."""

ALIASES = (
    Alias("shard_lease_expired", LEASE, Lease.expired),
    Alias("shard_lease_deadline", LEASE, Lease.deadline),
    Alias("tsc_cycles_per_ms", CLOCK, Clock.tsc_cycles_per_ms),
)
"""Node-wide data under the seed's labels."""
