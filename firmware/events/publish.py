"""What a shard publishes: its dispatches, whole, in order; or nothing more until it has resumed.

A message in one part goes from the receive ring to the outbox at once. One in several parts is put
together in a buffer first, because nothing else may stand between its bytes on the link.
"""

from firmware.abi import CALLER_SAVED
from firmware.events.assembly import (
    assembly_add,
    assembly_find,
    assembly_free,
    assembly_leave,
)
from firmware.events.outbox import COMPUTED, outbox_publish, outbox_room
from firmware.events.stub import OVERSIZE, publish_stub
from firmware.failure import shard_fail
from firmware.layouts.bus import BUS, DATA, BusLink
from firmware.layouts.events import PUBLISH_OVERDUE, EventStream, Stuck
from firmware.layouts.gateway import CLOSE_KEEPING_SESSION, GatewayContext, GatewayState
from firmware.layouts.log import PUBLISH_STUCK
from firmware.layouts.node import CLOCK, Clock, CoreState, core
from firmware.layouts.outbox import (
    ACK_TIMEOUT_MS,
    HEAD_MAX,
    NAME_UNKNOWN,
    OUTBOX,
    STALL_MS,
    STALL_RETRY_MS,
    Assembly,
    Outbox,
)
from firmware.layouts.shard import End, ShardContext, ShardFlag
from firmware.limits import ASSEMBLY_BYTES, RING_BYTES
from firmware.log import log, log_write
from toolchain.asm import (
    BE,
    CF,
    EAX,
    ECX,
    EDX,
    NC,
    NE,
    NZ,
    R8D,
    R9D,
    R12,
    R13,
    R13D,
    R14,
    R14D,
    R15,
    R15D,
    RAX,
    RBX,
    RCX,
    RDX,
    RSI,
    A,
    Asm,
    B,
    C,
    E,
    In,
    Out,
    Reg32,
    Reg64,
    Z,
    mem8,
    routine,
)
from toolchain.layout.data import constant

UNKNOWN = constant(
    "publish_unknown", NAME_UNKNOWN, "the type of a dispatch whose name does not fit"
)
OUT = OUTBOX.it


@routine(
    inputs=[In(RBX, ShardContext, "the shard, one of whose dispatches is not published")],
    clobbers=CALLER_SAVED,
    reads=[CoreState.now, GatewayContext.seq_acked],
    writes=[
        EventStream.stuck,
        EventStream.stuck_at,
        EventStream.stalled_at,
        Outbox.dropped,
    ],
    calls=[assembly_leave, log_write],
    source="firmware/docs/events.md#stuck",
)
def publish_drop(a: Asm, shard: ShardContext) -> None:
    """Publish nothing more of this connection: what follows would stand behind a hole."""
    stream = shard.events
    a.call(assembly_leave)
    a.inc(OUT.dropped)
    a.mov(stream.stuck, Stuck.DROPPED)
    a.mov(RAX, core.now)
    a.mov(stream.stuck_at, RAX)
    a.mov(stream.stalled_at, 0)
    a.mov(EDX, Stuck.DROPPED)
    a.mov(ECX, shard.gateway.seq_acked)
    log(a, PUBLISH_STUCK, RBX)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "a shard that is about to read")],
    outputs=[Out(CF, "1 = not now: there is no room for what may come")],
    clobbers=CALLER_SAVED,
    reads=[
        EventStream.stuck,
        EventStream.stalled_at,
        CoreState.now,
        Clock.tsc_cycles_per_ms,
    ],
    writes=[EventStream.stalled_at],
    calls=[outbox_room, assembly_find, assembly_free, publish_drop],
    source="firmware/docs/events.md#stalls",
)
def publish_ready(a: Asm, shard: ShardContext) -> None:
    """Make a shard wait for room, for a second at most: after it heartbeats must be heard again."""
    stream = shard.events
    ready, full, wait = a.label("ready"), a.label("full"), a.label("wait")
    a.cmp(stream.stuck, Stuck.NO)
    with a.if_(NE):
        a.clc()
        a.ret()
    # The largest part is what the ring holds; a message in parts needs a buffer.
    a.mov(ECX, RING_BYTES)
    a.call(outbox_room)
    a.j(C, full)
    a.call(assembly_find)
    a.j(NC, ready)
    a.call(assembly_free)
    a.j(C, full)
    a.place(ready)
    a.mov(stream.stalled_at, 0)
    a.clc()
    a.ret()
    a.place(full)
    a.mov(RAX, stream.stalled_at)
    a.test(RAX, RAX)
    with a.if_(Z):
        a.mov(RAX, core.now)
        a.mov(stream.stalled_at, RAX)
        a.jmp(wait)
    a.imul(RCX, CLOCK.it.tsc_cycles_per_ms, STALL_MS)
    a.add(RAX, RCX)
    a.cmp(RAX, core.now)
    a.j(A, wait)
    a.call(publish_drop)
    a.clc()
    a.ret()
    a.place(wait)
    a.stc()
    a.ret()


@routine(
    inputs=[
        In(RBX, ShardContext, "the shard"),
        In(RSI, int, "a part of a message that may be a dispatch, not the last"),
        In(ECX, int, "its bytes"),
        In(EDX, int, "1 = it is the first"),
    ],
    clobbers=CALLER_SAVED,
    reads=[EventStream.stuck, ShardContext.slot],
    writes=[Assembly.owner, Assembly.filled],
    calls=[assembly_leave, assembly_find, assembly_free, assembly_add, publish_drop],
    saves=[R12, R13],
    source="firmware/docs/events.md#assemblies",
)
def publish_part(a: Asm, shard: ShardContext, part: Reg64, length: Reg32, first: Reg32) -> None:
    """Keep a part of a message until the rest is there."""
    have, none, assembly = a.label("have"), a.label("none"), Assembly.at(RAX)
    a.cmp(shard.events.stuck, Stuck.NO)
    a.jne(none)
    a.mov(R12, part)
    a.mov(R13D, length)
    a.test(first, first)
    with a.if_(NZ):
        a.call(assembly_leave)
        a.call(assembly_free)
        with a.if_(C):
            a.jmp(publish_drop)
        a.movzx(ECX, shard.slot)
        a.inc(ECX)
        a.mov(assembly.owner, ECX)
        a.mov(assembly.filled, 0)
        a.jmp(have)
    # One whose buffer was taken away is found out at its end.
    a.call(assembly_find)
    a.j(C, none)
    a.place(have)
    a.mov(RSI, R12)
    a.mov(ECX, R13D)
    a.call(assembly_add)
    a.place(none)
    a.ret()


@routine(
    inputs=[
        In(RBX, ShardContext, "the shard"),
        In(RSI, int, "the last part of a dispatch that counted"),
        In(ECX, int, "its bytes"),
        In(EDX, int, "1 = it is the first, too"),
        In(R8D, int, "its sequence"),
        In(R9D, int, "bytes of its name in the parser; 0 = it does not fit or has none"),
    ],
    clobbers=CALLER_SAVED,
    reads=[
        EventStream.stuck,
        Assembly.bytes_at,
        Assembly.filled,
        BusLink.max_payload,
        Outbox.too_large,
    ],
    calls=[
        assembly_leave,
        assembly_find,
        assembly_add,
        publish_stub,
        outbox_publish,
        publish_drop,
    ],
    saves=[R12, R13, R14, R15],
    source="firmware/docs/events.md#publications",
)
def publish_whole(
    a: Asm,
    shard: ShardContext,
    part: Reg64,
    length: Reg32,
    only: Reg32,
    sequence: Reg32,
    name_len: Reg32,
) -> None:
    """Publish a dispatch whose last part is here."""
    drop, stub, fits, named, body = map(a.label, ("drop", "stub", "fits", "named", "body"))
    assembly = Assembly.at(RAX)
    a.cmp(shard.events.stuck, Stuck.NO)
    with a.if_(NE):
        a.jmp(assembly_leave)
    a.mov(R12, part)
    a.mov(R13D, length)
    a.mov(R14D, sequence)
    a.mov(R15D, name_len)
    a.test(only, only)
    a.j(NZ, body)
    a.call(assembly_find)
    a.j(C, drop)
    a.mov(RSI, R12)
    a.mov(ECX, R13D)
    a.call(assembly_add)
    a.mov(R12, assembly.bytes_at)
    a.mov(R13D, assembly.filled)
    a.place(body)
    a.lea(RDX, shard.gateway.parser.t.address)
    a.mov(R9D, R15D)
    a.test(R9D, R9D)
    a.j(NZ, named)
    a.lea(RDX, UNKNOWN.address)
    a.mov(R9D, UNKNOWN.size)
    a.place(named)
    a.cmp(R13D, ASSEMBLY_BYTES)
    a.j(A, stub)
    # What server and stream take counts the headers, too.
    a.lea(ECX, mem8(R13, HEAD_MAX, ref=COMPUTED))
    a.mov(EAX, OUT.too_large)
    a.dec(EAX)  # 0 = none is above all
    a.cmp(ECX, EAX)
    a.j(A, stub)
    a.lea(RAX, BUS.it.links.address)
    a.mov(EAX, BusLink.at(RAX, DATA * BusLink.SIZE).max_payload)
    a.test(EAX, EAX)
    a.j(Z, fits)
    a.cmp(ECX, EAX)
    a.j(BE, fits)
    a.place(stub)
    a.mov(ECX, R13D)
    a.mov(R8D, R14D)
    a.call(publish_stub)
    a.mov(R12, RSI)
    a.mov(R13D, ECX)
    a.lea(RDX, OVERSIZE.address)
    a.mov(R9D, OVERSIZE.size)
    a.place(fits)
    a.mov(RSI, R12)
    a.mov(ECX, R13D)
    a.mov(R8D, R14D)
    a.call(outbox_publish)
    a.j(C, drop)
    a.jmp(assembly_leave)
    a.place(drop)
    a.jmp(publish_drop)


@routine(
    inputs=[In(RBX, ShardContext, "a shard with an open gateway session")],
    outputs=[Out(RAX, "TSC when it wants to be looked at again; all ones = no time")],
    clobbers=CALLER_SAVED,
    reads=[
        EventStream.stuck,
        EventStream.stuck_at,
        EventStream.stalled_at,
        CoreState.now,
        Clock.tsc_cycles_per_ms,
    ],
    calls=[shard_fail],
    source="firmware/docs/events.md#stuck",
)
def publish_judge(a: Asm, shard: ShardContext) -> None:
    """End the connection of a stuck shard, so that it resumes from what is acknowledged."""
    stream = shard.events
    a.cmp(stream.stuck, Stuck.DROPPED)
    with a.if_(B):
        a.mov(RAX, -1)
        a.cmp(stream.stalled_at, 0)
        with a.if_(NE):
            a.imul(RAX, CLOCK.it.tsc_cycles_per_ms, STALL_RETRY_MS)
            a.add(RAX, core.now)
        a.ret()
    with a.if_(E):
        a.imul(RAX, CLOCK.it.tsc_cycles_per_ms, ACK_TIMEOUT_MS)
        a.add(RAX, stream.stuck_at)
        a.cmp(RAX, core.now)
        with a.if_(A):
            a.ret()
    a.mov(EDX, End.SEND_FAILED)
    a.xor(ECX, ECX)
    a.mov(R8D, CLOSE_KEEPING_SESSION)
    a.mov(R9D, PUBLISH_OVERDUE.code)
    a.call(shard_fail)
    a.mov(RAX, -1)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "a shard whose connection is over")],
    clobbers=[RAX, RCX, RDX],
    reads=[Outbox.base, GatewayContext.state, GatewayContext.seq_acked, ShardContext.flags],
    writes=[ShardContext.sequence, EventStream.stuck, EventStream.stalled_at],
    calls=[assembly_leave],
    source="firmware/docs/events.md#resuming",
)
def publish_rewind(a: Asm, shard: ShardContext) -> None:
    """Let the next Resume name what is acknowledged: the rest is repeated."""
    a.cmp(OUT.base, 0)
    with a.if_(E):
        a.ret()
    with a.block() as fresh:
        a.test(shard.flags, ShardFlag.SEQ_VALID)
        a.leave(Z, fresh)
        a.mov(EAX, shard.gateway.state)
        a.sub(EAX, GatewayState.WAIT_RESUMED)
        a.cmp(EAX, GatewayState.READY - GatewayState.WAIT_RESUMED)
        a.leave(A, fresh)
        a.mov(EAX, shard.gateway.seq_acked)
        a.mov(shard.sequence, EAX)
    a.mov(shard.events.stuck, Stuck.NO)
    a.mov(shard.events.stalled_at, 0)
    a.jmp(assembly_leave)
