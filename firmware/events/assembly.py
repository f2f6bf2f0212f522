"""Buffers for messages that come in parts: four, each for one shard at a time."""

from firmware.events.outbox import COMPUTED, MESSAGE
from firmware.layouts.node import CLOCK, Clock, CoreState, core
from firmware.layouts.outbox import ASSEMBLIES, ASSEMBLY, ASSEMBLY_MS, OUTBOX, Assembly
from firmware.layouts.shard import ShardContext
from firmware.limits import ASSEMBLY_BYTES
from toolchain.asm import (
    BE,
    CF,
    EAX,
    ECX,
    EDI,
    EDX,
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
    E,
    In,
    Out,
    Reg32,
    Reg64,
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
    clobbers=[RCX, RDX],
    reads=[Assembly.owner, Assembly.since, CoreState.now, Clock.tsc_cycles_per_ms],
    writes=[Assembly.owner],
    source="firmware/docs/events.md#assemblies",
)
def assembly_free(a: Asm) -> None:
    """Find a buffer that is free, or whose message has not grown for too long: its owner gets stuck."""
    found, assembly = a.label("found"), Assembly.at(RAX)
    a.mov(EDX, ASSEMBLIES)
    a.lea(RAX, OUT.assemblies.address)
    with a.loop() as each:
        a.cmp(assembly.owner, 0)
        a.j(E, found)
        a.imul(RCX, CLOCK.it.tsc_cycles_per_ms, ASSEMBLY_MS)
        a.add(RCX, assembly.since)
        a.cmp(RCX, core.now)
        with a.if_(B):
            a.mov(assembly.owner, 0)
            a.jmp(found)
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
