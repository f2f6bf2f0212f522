"""What a shard publishes: its dispatches, whole, in order; or nothing more until it has resumed.

A message in one part goes from the receive ring to the outbox at once. One in several parts is put
together in a buffer first, because nothing else may stand between its bytes on the link.
"""

from firmware.abi import CALLER_SAVED
from firmware.events.assembly import (
    assembly_add,
    assembly_find,
    assembly_leave,
    assembly_take,
)
from firmware.events.outbox import COMPUTED, outbox_publish
from firmware.events.stub import OVERSIZE, publish_stub
from firmware.layouts.bus import BUS, DATA, BusLink
from firmware.layouts.events import EventStream, Stuck
from firmware.layouts.gateway import GatewayContext, GatewayState
from firmware.layouts.log import PUBLISH_STUCK
from firmware.layouts.node import CoreState, core
from firmware.layouts.outbox import (
    HEAD_MAX,
    NAME_UNKNOWN,
    OUTBOX,
    Assembly,
    Outbox,
)
from firmware.layouts.shard import ShardContext, ShardFlag
from firmware.limits import ASSEMBLY_BYTES
from firmware.log import log, log_write
from toolchain.asm import (
    BE,
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
    C,
    E,
    In,
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
    inputs=[
        In(RBX, ShardContext, "the shard"),
        In(RSI, int, "a part of a message that may be a dispatch, not the last"),
        In(ECX, int, "its bytes"),
        In(EDX, int, "1 = it is the first"),
    ],
    clobbers=CALLER_SAVED,
    reads=[EventStream.stuck],
    writes=[EventStream.part_at, EventStream.part_len],
    calls=[assembly_leave, assembly_find, assembly_take, assembly_add],
    saves=[R12, R13],
    source="firmware/docs/events.md#assemblies",
)
def publish_part(a: Asm, shard: ShardContext, part: Reg64, length: Reg32, first: Reg32) -> None:
    """Keep a part of a message until the rest is there; a first one may have to wait for a buffer."""
    have, none = a.label("have"), a.label("none")
    a.cmp(shard.events.stuck, Stuck.NO)
    a.jne(none)
    a.mov(R12, part)
    a.mov(R13D, length)
    a.test(first, first)
    with a.if_(NZ):
        a.call(assembly_leave)
        a.call(assembly_take)
        a.j(NC, have)
        # It stays in the ring: the shard does not read on.
        a.mov(shard.events.part_at, R12)
        a.mov(shard.events.part_len, R13D)
        a.jmp(none)
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
    inputs=[In(RBX, ShardContext, "a shard whose connection is over")],
    clobbers=[RAX, RCX, RDX],
    reads=[
        Outbox.base,
        GatewayContext.state,
        GatewayContext.seq_acked,
        ShardContext.flags,
        ShardContext.connection,
        EventStream.stuck,
    ],
    writes=[
        ShardContext.sequence,
        ShardContext.connection,
        EventStream.stuck,
        EventStream.stalled_at,
        EventStream.waited_at,
        EventStream.part_len,
    ],
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
    # Answers that are still to come would count past the one that the stream did not take.
    a.cmp(shard.events.stuck, Stuck.FAILED)
    with a.if_(E):
        a.inc(shard.connection)
    a.mov(shard.events.stuck, Stuck.NO)
    a.mov(shard.events.stalled_at, 0)
    a.mov(shard.events.waited_at, 0)
    a.mov(shard.events.part_len, 0)
    a.jmp(assembly_leave)
