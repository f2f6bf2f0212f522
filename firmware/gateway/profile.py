"""Where a shard's service has its row: what differs between the services is read from there."""

from firmware.layouts.profile import PROFILE_TABLES, ProfileTable
from firmware.layouts.shard import ShardContext
from toolchain.asm import Asm, Reg64


def profile_table(a: Asm, shard: ShardContext, at: Reg64, scratch: Reg64) -> ProfileTable:
    """Point a register at the profile of a shard. Clobbers the other one."""
    a.movzx(at, shard.profile)
    a.imul(at, at, ProfileTable.SIZE)
    a.lea(scratch, PROFILE_TABLES.address)
    a.add(at, scratch)
    return ProfileTable.at(at)
