"""How often an application may send: the last minute in buckets, and what the server asked for."""

from firmware.abi import CALLER_SAVED
from firmware.gateway.profile import profile_table
from firmware.gateway.session import kind, value
from firmware.layouts.gateway import INTERVAL_MIN_MS, GatewayContext
from firmware.layouts.json import JsonField, JsonKind, JsonParser
from firmware.layouts.log import GATEWAY_RATE_LIMITED
from firmware.layouts.node import CLOCK, Clock, CoreState, core
from firmware.layouts.profile import OPS_LIMIT, ProfileTable
from firmware.layouts.send import (
    BUCKETS,
    CONTROL_MESSAGES,
    RETRY_MOST_MS,
    RETRY_UNKNOWN_MS,
    SECOND_MS,
    WINDOW_MS,
    Pacer,
)
from firmware.layouts.shard import ShardContext
from firmware.log import log, log_write
from toolchain.asm import (
    AE,
    BE,
    DX,
    EAX,
    ECX,
    EDX,
    NE,
    R8,
    R8D,
    R9,
    R9D,
    R10,
    R11,
    RAX,
    RBX,
    RCX,
    RDI,
    RDX,
    A,
    Asm,
    B,
    E,
    In,
    Out,
    Reg64,
    routine,
)

ROW_BYTES = 8


@routine(
    inputs=[In(RBX, ShardContext, "the shard")],
    clobbers=[RAX, RCX, RDI],
    reads=[CoreState.now],
    writes=[Pacer.buckets, Pacer.total, Pacer.running, Pacer.second_at],
    source="firmware/docs/gateway.md#send-pacing",
)
def gateway_pace_clear(a: Asm, shard: ShardContext) -> None:
    """Forget what was sent: a second begins now."""
    pacer = shard.pacer
    a.xor(EAX, EAX)
    a.lea(RDI, pacer.buckets.address)
    a.mov(ECX, Pacer.buckets.size // 8)
    a.rep_stosq()
    a.mov(pacer.total, EAX)
    a.mov(pacer.running, EAX)
    a.mov(RAX, core.now)
    a.mov(pacer.second_at, RAX)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "the shard")],
    clobbers=[RAX, RCX, RDX, RDI, R8],
    reads=[
        CoreState.now,
        Clock.tsc_cycles_per_ms,
        Pacer.buckets,
        Pacer.running,
        Pacer.second_at,
        Pacer.oldest,
    ],
    writes=[Pacer.buckets, Pacer.total, Pacer.running, Pacer.second_at, Pacer.oldest],
    calls=[gateway_pace_clear],
    source="firmware/docs/gateway.md#send-pacing",
)
def gateway_pace(a: Asm, shard: ShardContext) -> None:
    """Bring the window up to the time of the turn."""
    pacer = shard.pacer
    left, second, bucket = RAX, R8, ECX
    a.imul(second, CLOCK.it.tsc_cycles_per_ms, SECOND_MS)
    a.mov(left, core.now)
    a.sub(left, pacer.second_at)
    # After so long even the second that ran is out of the window; without a clock all is.
    a.imul(RDX, second, BUCKETS + 1)
    a.cmp(left, RDX)
    with a.if_(AE):
        a.jmp(gateway_pace_clear)
    with a.loop() as seconds:
        a.cmp(left, second)
        a.leave(B, seconds)
        a.mov(bucket, pacer.oldest)
        a.movzx(EDX, pacer.buckets.m16(index=RCX, scale=2))
        a.sub(pacer.total, EDX)
        a.mov(EDX, pacer.running)
        a.mov(pacer.buckets.m16(index=RCX, scale=2), DX)
        a.mov(pacer.running, 0)
        a.inc(bucket)
        a.cmp(bucket, BUCKETS)
        with a.if_(E):
            a.xor(bucket, bucket)
        a.mov(pacer.oldest, bucket)
        a.add(pacer.second_at, second)
        a.sub(left, second)
        a.jmp(seconds.top)
    a.ret()


@routine(
    inputs=[In(RAX, int, "a TSC")],
    outputs=[Out(EAX, "milliseconds until then, rounded up; 0 when it is past")],
    clobbers=[RCX, RDX],
    reads=[CoreState.now, Clock.tsc_cycles_per_ms],
    source="firmware/docs/gateway.md#send-pacing",
)
def gateway_ms_until(a: Asm, time: Reg64) -> None:
    """Turn a time to come into a wait."""
    past = a.label("past")
    a.sub(time, core.now)
    a.j(BE, past)
    a.mov(RCX, CLOCK.it.tsc_cycles_per_ms)
    a.test(RCX, RCX)
    a.jz(past)
    a.xor(EDX, EDX)
    a.dec(RAX)
    a.div(RCX)
    a.inc(EAX)
    a.ret()
    a.place(past)
    a.xor(EAX, EAX)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "a shard after Hello")],
    outputs=[Out(EAX, "milliseconds until one more may be sent; 0 = now")],
    clobbers=[RCX, RDX, RDI, R8, R9, R10, R11],
    reads=[
        ShardContext.profile,
        GatewayContext.heartbeat_interval_ms,
        Clock.tsc_cycles_per_ms,
        ProfileTable.send_limit,
        ProfileTable.send_ceiling,
        Pacer.total,
        Pacer.oldest,
        Pacer.buckets,
        Pacer.second_at,
    ],
    calls=[gateway_pace, gateway_ms_until],
    source="firmware/docs/gateway.md#send-pacing",
)
def gateway_pace_wait(a: Asm, shard: ShardContext) -> None:
    """Tell when the window lets one more message through."""
    pacer = shard.pacer
    limit, total, bucket, rolls = ECX, EDX, R8D, R9D
    a.call(gateway_pace)
    # The beats of a minute, from its length and the interval, have their place under the ceiling.
    a.mov(ECX, INTERVAL_MIN_MS)
    a.cmp(ECX, shard.gateway.heartbeat_interval_ms)
    a.cmov(B, ECX, shard.gateway.heartbeat_interval_ms)
    a.mov(EAX, WINDOW_MS)
    a.xor(EDX, EDX)
    a.div(ECX)
    table = profile_table(a, shard, R10, R11)
    a.mov(limit, table.send_ceiling)
    a.sub(limit, EAX)
    a.sub(limit, CONTROL_MESSAGES)
    a.cmp(limit, table.send_limit)
    a.cmov(A, limit, table.send_limit)

    a.xor(EAX, EAX)
    a.mov(total, pacer.total)
    a.cmp(total, limit)
    with a.if_(B):
        a.ret()
    # Let seconds leave, the oldest first, until there is room.
    a.xor(rolls, rolls)
    a.mov(bucket, pacer.oldest)
    with a.block() as room:
        with a.loop() as seconds:
            a.movzx(EAX, pacer.buckets.m16(index=R8, scale=2))
            a.inc(rolls)
            a.sub(total, EAX)
            a.cmp(total, limit)
            a.leave(B, room)
            a.inc(bucket)
            a.cmp(bucket, BUCKETS)
            with a.if_(E):
                a.xor(bucket, bucket)
            a.cmp(rolls, BUCKETS)
            a.again(NE, seconds)
        a.inc(rolls)  # the second that runs is the last to leave
    a.imul(RAX, CLOCK.it.tsc_cycles_per_ms, SECOND_MS)
    a.imul(RAX, R9)
    a.add(RAX, pacer.second_at)
    a.jmp(gateway_ms_until)


@routine(
    inputs=[In(RBX, ShardContext, "the shard; the parser holds RATE_LIMITED")],
    clobbers=CALLER_SAVED,
    reads=[
        ShardContext.profile,
        JsonParser.kinds,
        JsonParser.values,
        ProfileTable.send_rows,
        CoreState.now,
        Clock.tsc_cycles_per_ms,
        Pacer.not_before,
    ],
    writes=[Pacer.not_before],
    calls=[log_write],
    source="firmware/docs/gateway.md#rate-limits-of-the-server",
)
def gateway_rate_limited(a: Asm, shard: ShardContext) -> None:
    """Send no more of an opcode before the server's time is over; the later time counts."""
    ignored = a.label("ignored")
    row, wait = R8, RAX
    a.cmp(kind(shard, JsonField.RATE_OPCODE), JsonKind.INTEGER)
    a.jne(ignored)
    a.mov(EDX, value(shard, JsonField.RATE_OPCODE))
    a.cmp(EDX, OPS_LIMIT)
    a.jae(ignored)
    table = profile_table(a, shard, R10, R11)
    a.movzx(R8D, table.send_rows.m8(index=RDX))
    a.test(R8D, R8D)
    a.jz(ignored)

    a.mov(EAX, value(shard, JsonField.RETRY_AFTER))
    with a.block() as known:
        a.cmp(kind(shard, JsonField.RETRY_AFTER), JsonKind.DECIMAL)
        with a.if_(E):
            a.inc(wait)  # thousandths were cut off
            a.jmp(known)
        a.imul(wait, wait, SECOND_MS)
        a.cmp(kind(shard, JsonField.RETRY_AFTER), JsonKind.INTEGER)
        a.leave(E, known)
        a.mov(EAX, RETRY_UNKNOWN_MS)
    a.mov(ECX, RETRY_MOST_MS)
    a.cmp(wait, RCX)
    a.cmov(A, wait, RCX)
    a.mov(ECX, EAX)

    a.imul(RAX, CLOCK.it.tsc_cycles_per_ms)
    a.add(RAX, core.now)
    until = shard.pacer.not_before.m64(-ROW_BYTES, index=row, scale=ROW_BYTES)
    a.cmp(RAX, until)
    with a.if_(A):
        a.mov(until, RAX)
    log(a, GATEWAY_RATE_LIMITED, RBX)
    a.place(ignored)
    a.ret()
