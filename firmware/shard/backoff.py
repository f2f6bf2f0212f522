"""When a failed shard tries again."""

from firmware.layouts.node import CLOCK, Clock
from firmware.layouts.shard import ShardContext, ShardState
from firmware.limits import RECONNECT_BACKOFF_MS
from toolchain.asm import R8, RAX, RBX, RDX, Asm, In, routine


@routine(
    inputs=[In(RBX, ShardContext, "the failing shard")],
    clobbers=[RAX, RDX, R8],
    reads=[Clock.tsc_cycles_per_ms],
    writes=[ShardContext.state, ShardContext.reconnects, ShardContext.reconnect_deadline],
    source="firmware/docs/lifecycle.md#backoff",
)
def schedule_backoff(a: Asm, shard: ShardContext) -> None:
    """Move one shard into BACKOFF and publish the TSC time of its next attempt (seed A's order)."""
    cycles, delay, now = RAX, R8, RAX
    no_tsc, done = a.label("no_tsc"), a.label("done")

    a.mov(shard.state, ShardState.BACKOFF)
    a.inc(shard.reconnects)

    a.mov(cycles, CLOCK.it.tsc_cycles_per_ms)
    a.test(cycles, cycles)
    a.jz(no_tsc)
    a.imul(cycles, RECONNECT_BACKOFF_MS)
    a.mov(delay, cycles)  # RDTSC overwrites RAX and RDX

    a.rdtsc64()  # RAX = now
    a.add(now, delay)
    a.mov(shard.reconnect_deadline, now)
    a.jmp(done)

    # An uncalibrated clock gives no deadline. Zero lets the tick schedule the backoff later.
    a.place(no_tsc)
    a.mov(shard.reconnect_deadline, 0)
    a.place(done)
    a.ret()
