"""How a layer tells the lifecycle that the connection of a shard is over."""

from firmware.layouts.shard import ShardContext
from toolchain.asm import ECX, EDX, NZ, R8D, R8W, R9D, RBX, Asm, In, Reg32, routine


@routine(
    inputs=[
        In(RBX, ShardContext, "the shard"),
        In(EDX, int, "End: why"),
        In(ECX, int, "FailureFlag: what it asks beyond a reconnect"),
        In(R8D, int, "close code to send; 0 = none"),
        In(R9D, int, "layer << 24 | site << 16 | detail"),
    ],
    reads=[ShardContext.failure],
    writes=[
        ShardContext.failure,
        ShardContext.failure_flags,
        ShardContext.failure_close,
        ShardContext.last_error,
    ],
    source="firmware/docs/lifecycle.md#one-cause",
)
def shard_fail(
    a: Asm, shard: ShardContext, end: Reg32, flags: Reg32, close: Reg32, error: Reg32
) -> None:
    """Note the first failure of an attempt; later ones change nothing."""
    # The first recorded cause wins: a close code followed by a reset is still that close code.
    a.cmp(shard.failure, 0)
    with a.if_(NZ):
        a.ret()
    a.mov(shard.failure, end)
    a.mov(shard.failure_flags, flags)
    a.mov(shard.failure_close, R8W)
    a.mov(shard.last_error, error)
    a.ret()
