"""A shard of a fleet in a bench whose other workspace is the control link."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from firmware.layouts.config import CONFIG
from firmware.layouts.fleet_config import FLEET_CONFIG
from firmware.layouts.handover import HANDOVER
from firmware.layouts.node import CORE, LEASE, SLOT_ACTIVE
from firmware.layouts.policy import SessionProvider
from firmware.layouts.shard import SSES_VALID, ShardContext, ShardFlag
from tests.support.fleet import BOT, set_fields
from tests.support.segments import CYCLES_PER_MS as MS
from tests.support.segments import NOW

if TYPE_CHECKING:
    from tests.support.bus import BusBench

SHARD, TOTAL, FENCE = 7, 16, 3
KEY = b"$KV.shardfw.b1.sess.7"
SESSION_ID, HOST = b"5f2c8e0a9b", b"gw.test"
NEVER = 2**64 - 1


def shard_in(bench: BusBench, **fields: int) -> Any:
    """Make shard 7 of 16, which begins, with a lease of generation 3, in the second row."""
    bench.reset()
    bench.up()
    g = bench.lab.g
    config, core = g(FLEET_CONFIG), g(CORE)
    config.bot_len = len(BOT)
    config.bot[: len(BOT)] = BOT
    g(CONFIG).session_provider = SessionProvider.BUS
    if LEASE.name in bench.lab.image.symbols:
        g(LEASE).expired = 0
    shard = bench.lab.view(ShardContext, bench.shards[1])
    core.slots_used = core.slots_due = 2
    core.slots[0].flags = 0
    set_fields(core.slots[1], context=shard.address_, flags=SLOT_ACTIVE, deadline=NEVER)
    shard.session_ptr = shard.session.address_
    set_fields(shard, shard_id=SHARD, shard_total=TOTAL, hard_stop=NOW + 15_000 * MS)
    shard.events.fence = FENCE
    set_fields(shard, **fields)
    return shard


def give_session(shard: Any, sequence: int) -> None:
    """Give the shard a session."""
    session = shard.session
    session.session_id[: len(SESSION_ID)], session.resume_host[: len(HOST)] = SESSION_ID, HOST
    set_fields(session, valid=SSES_VALID, session_id_len=len(SESSION_ID), resume_port=80)
    session.resume_host_len = len(HOST)
    set_fields(shard, sequence=sequence, flags=ShardFlag.SEQ_VALID)


def row_in(bench: BusBench, **fields: int) -> Any:
    """Return the shard's row, with fields set."""
    row = bench.lab.g(HANDOVER).rows[1]
    set_fields(row, **fields)
    return row
