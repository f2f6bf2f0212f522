"""Buffers for messages that come in parts: four, each for one shard at a time, in the order in which they ask."""

from firmware.events.outbox import COMPUTED, MESSAGE
from firmware.layouts.events import EventStream
from firmware.layouts.node import CLOCK, Clock, CoreState, core
from firmware.layouts.outbox import (
    ASSEMBLIES,
    ASSEMBLY,
    ASSEMBLY_MS,
    ASSEMBLY_WHOLE_MS,
    OUTBOX,
    TURN_MS,
    Assembly,
    Outbox,
)
from firmware.layouts.shard import ShardContext
from firmware.limits import ASSEMBLY_BYTES
from toolchain.asm import (
    AE,
    BE,
    CF,
    EAX,
    ECX,
    EDI,
    EDX,
    ESI,
    NC,
    NZ,
    RAX,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
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

OUT = OUTBOX.it


@routine(
    inputs=[In(RBX, ShardContext, "the shard")],
    outputs=[Out(RAX, "its Assembly; 0 = none"), Out(CF, "1 = none")],
    clobbers=[RCX, RDX],
    reads=[ShardContext.slot, Assembly.owner],
    source="firmware/docs/events.md#assemblies",
)
def assembly_find(a: Asm, shard: ShardContext) -> None:
    """Find the buffer that holds the shard's message."""
    found = a.label("found")
    a.movzx(ECX, shard.slot)
    a.inc(ECX)
    a.mov(EDX, ASSEMBLIES)
    a.lea(RAX, OUT.assemblies.address)
    with a.loop() as each:
        a.cmp(Assembly.at(RAX).owner, ECX)
        a.j(E, found)
        a.add(RAX, Assembly.SIZE)
        a.dec(EDX)
        a.again(NZ, each)
    a.xor(EAX, EAX)
    a.stc()
    a.ret()
    a.place(found)
    a.clc()
    a.ret()


@routine(
    outputs=[Out(RAX, "an Assembly that nobody has; 0 = none"), Out(CF, "1 = none")],
    clobbers=[RCX, RDX, RSI],
    reads=[
        Assembly.owner,
        Assembly.since,
        Assembly.begun,
        CoreState.now,
        Clock.tsc_cycles_per_ms,
    ],
    writes=[Assembly.owner],
    source="firmware/docs/events.md#assemblies",
)
def assembly_free(a: Asm) -> None:
    """Find a buffer that is free, else the first whose message takes too long: its owner gets stuck."""
    found, assembly, first_late = a.label("found"), Assembly.at(RAX), RSI
    a.xor(ESI, ESI)
    a.mov(EDX, ASSEMBLIES)
    a.lea(RAX, OUT.assemblies.address)
    with a.loop() as each:
        a.cmp(assembly.owner, 0)
        a.j(E, found)
        with a.block() as in_time:
            late = a.label("late")
            a.imul(RCX, CLOCK.it.tsc_cycles_per_ms, ASSEMBLY_MS)
            a.add(RCX, assembly.since)
            a.cmp(RCX, core.now)
            a.j(B, late)
            a.imul(RCX, CLOCK.it.tsc_cycles_per_ms, ASSEMBLY_WHOLE_MS)
            a.add(RCX, assembly.begun)
            a.cmp(RCX, core.now)
            a.leave(AE, in_time)
            a.place(late)
            a.test(first_late, first_late)
            a.cmov(Z, first_late, RAX)
        a.add(RAX, Assembly.SIZE)
        a.dec(EDX)
        a.again(NZ, each)
    a.mov(RAX, first_late)
    a.test(RAX, RAX)
    with a.if_(Z):
        a.stc()
        a.ret()
    a.mov(assembly.owner, 0)
    a.place(found)
    a.clc()
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "a shard whose message comes in parts; it has no buffer")],
    outputs=[Out(RAX, "its Assembly, empty; 0 = none now"), Out(CF, "1 = none now")],
    clobbers=[RCX, RDX, RSI],
    reads=[
        ShardContext.slot,
        CoreState.now,
        Clock.tsc_cycles_per_ms,
        Outbox.turn,
        Outbox.turn_at,
    ],
    writes=[Assembly.owner, Assembly.filled, Assembly.begun, Outbox.turn, Outbox.turn_at],
    calls=[assembly_free],
    source="firmware/docs/events.md#assemblies",
)
def assembly_take(a: Asm, shard: ShardContext) -> None:
    """Take a buffer, unless another shard asked before; who gets none is the next."""
    mine, none, assembly = a.label("mine"), a.label("none"), Assembly.at(RAX)
    a.movzx(ECX, shard.slot)
    a.inc(ECX)
    a.mov(EAX, OUT.turn)
    a.test(EAX, EAX)
    a.j(Z, mine)
    a.cmp(EAX, ECX)
    a.j(E, mine)
    a.imul(RAX, CLOCK.it.tsc_cycles_per_ms, TURN_MS)
    a.add(RAX, OUT.turn_at)
    a.cmp(RAX, core.now)
    a.j(AE, none)
    a.place(mine)
    a.mov(OUT.turn, ECX)
    a.mov(RAX, core.now)
    a.mov(OUT.turn_at, RAX)
    a.call(assembly_free)
    a.j(C, none)
    a.mov(ECX, OUT.turn)
    a.mov(assembly.owner, ECX)
    a.mov(assembly.filled, 0)
    a.mov(RCX, core.now)
    a.mov(assembly.begun, RCX)
    a.mov(OUT.turn, 0)
    a.clc()
    a.ret()
    a.place(none)
    a.xor(EAX, EAX)
    a.stc()
    a.ret()


@routine(
    inputs=[
        In(RAX, Assembly, "the shard's buffer"),
        In(RSI, int, "the next part of its message"),
        In(ECX, int, "its bytes"),
    ],
    clobbers=[RCX, RDX, RSI, RDI],
    reads=[Assembly.filled, Assembly.bytes_at, MESSAGE, CoreState.now],
    writes=[Assembly.filled, Assembly.since, ASSEMBLY],
    source="firmware/docs/events.md#assemblies",
)
def assembly_add(a: Asm, assembly: Assembly, part: Reg64, length: Reg32) -> None:
    """Add a part; of a message that is too large only its size is kept."""
    a.mov(EDI, assembly.filled)
    a.lea(EDX, mem8(RDI, index=RCX, ref=COMPUTED))
    a.mov(assembly.filled, EDX)
    a.cmp(EDX, ASSEMBLY_BYTES)
    with a.if_(BE):
        a.add(RDI, assembly.bytes_at)
        a.mov(ECX, length)
        a.rep_movsb()
    a.mov(RDX, core.now)
    a.mov(assembly.since, RDX)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "a shard that waits for room, or for a buffer")],
    clobbers=[RAX, RCX, RDX, RSI],
    reads=[CoreState.now, EventStream.waited_at],
    writes=[EventStream.waited_at, Assembly.since, Assembly.begun],
    calls=[assembly_find],
    source="firmware/docs/events.md#assemblies",
)
def assembly_wait(a: Asm, shard: ShardContext) -> None:
    """Let what the shard waited since it last looked make its message no older."""
    stream, assembly, waited = shard.events, Assembly.at(RAX), RSI
    a.mov(waited, core.now)
    a.mov(RCX, stream.waited_at)
    a.mov(stream.waited_at, waited)
    a.test(RCX, RCX)
    with a.if_(NZ):
        a.sub(waited, RCX)
        a.call(assembly_find)
        with a.if_(NC):
            a.add(assembly.since, waited)
            a.add(assembly.begun, waited)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "the shard")],
    clobbers=[RAX, RCX, RDX],
    writes=[Assembly.owner],
    calls=[assembly_find],
    source="firmware/docs/events.md#assemblies",
)
def assembly_leave(a: Asm, shard: ShardContext) -> None:
    """Forget what has come of a message."""
    a.call(assembly_find)
    with a.if_(NC):
        a.mov(Assembly.at(RAX).owner, 0)
    a.ret()
