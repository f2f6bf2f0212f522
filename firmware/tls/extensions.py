"""The extensions of a server's message: walked once, noted by type, judged by their place."""

from firmware.abi import CALLER_SAVED
from firmware.layouts.shard import ShardContext
from firmware.layouts.tls import MESSAGE_IN, TlsContext
from firmware.layouts.tls_arena import FOUND_TYPES, OFFERED, TLS_PLACES, Found, Place, TlsArena
from firmware.layouts.tls_sites import EXTENSION_MISPLACED, EXTENSION_TWICE, EXTENSION_UNSOLICITED
from toolchain.asm import (
    AE,
    AX,
    CF,
    CX,
    EAX,
    ECX,
    EDX,
    NE,
    NZ,
    R8,
    R9D,
    R10,
    R11,
    R11D,
    R12,
    R13,
    R13D,
    RAX,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    A,
    Asm,
    C,
    E,
    In,
    Out,
    Reg32,
    Reg64,
    mem8,
    mem16,
    mem64,
    routine,
)


@routine(
    inputs=[
        In(RBX, ShardContext, "the shard"),
        In(RSI, int, "first extension, in the message in hand"),
        In(ECX, int, "bytes of all"),
        In(EDX, int, "Place: where they stand"),
    ],
    outputs=[
        Out(CF, "1 = their lengths do not add up"),
        Out(R9D, "the first that may not stand here, as an error; 0 = none"),
    ],
    clobbers=CALLER_SAVED,
    reads=[TlsContext.arena_ptr, TlsArena.found, MESSAGE_IN, TLS_PLACES],
    writes=[TlsArena.found],
    saves=[R12, R13],
    source="RFC 8446 4.2; firmware/docs/tls.md#extensions",
)
def tls_extensions(a: Asm, shard: ShardContext, first: Reg64, length: Reg32, place: Reg32) -> None:
    """Note where each extension lies; the first bad one is told, but ends nothing."""
    arena, end, allowed, kind, size = TlsArena.at(R12), R8, R10, EAX, ECX
    form, done, judge, unknown = map(a.label, ("form", "done", "judge", "unknown"))
    a.mov(R12, shard.tls.arena_ptr)
    a.mov(R13D, place)
    a.mov(size, length)  # the upper half of a narrow input is anything
    a.lea(end, mem8(RSI, index=RCX, ref=MESSAGE_IN))
    a.lea(RDI, arena.found.address)
    a.mov(size, FOUND_TYPES * Found.SIZE // 8)
    a.xor(EAX, EAX)
    a.rep_stosq()
    a.lea(RDX, TLS_PLACES.address)
    a.mov(allowed, mem64(RDX, index=R13, scale=8, ref=TLS_PLACES))
    a.xor(R9D, R9D)
    with a.loop() as each:
        a.cmp(RSI, end)
        a.j(E, done)
        a.lea(RDX, mem8(RSI, 4, ref=MESSAGE_IN))
        a.cmp(RDX, end)
        a.j(A, form)
        a.movzx(kind, mem16(RSI, ref=MESSAGE_IN))
        a.rol(AX, 8)
        a.movzx(size, mem16(RSI, 2, ref=MESSAGE_IN))
        a.rol(CX, 8)
        a.lea(RSI, mem8(RDX, index=RCX, ref=MESSAGE_IN))
        a.cmp(RSI, end)
        a.j(A, form)
        a.cmp(kind, FOUND_TYPES)
        a.j(AE, unknown)

        row = Found.at(RDI)
        a.lea(RDI, arena.found.m64(0, index=RAX, scale=8))
        a.mov(R11, RDX)
        a.sub(R11, R12)
        a.mov(EDX, EXTENSION_TWICE.code)
        a.cmp(row.offset, 0)
        a.j(NE, judge)
        a.mov(row.offset, R11D)
        a.mov(row.length, size)
        a.bt(allowed, RAX)
        a.again(C, each)
        a.mov(EDX, EXTENSION_MISPLACED.code)
        a.mov(R11, OFFERED)
        a.bt(R11, RAX)
        a.j(C, judge)
        a.place(unknown)
        # What a CertificateRequest asks for we may ignore, whatever it is (RFC 8446 4.3.2).
        a.cmp(R13D, Place.REQUEST)
        a.again(E, each)
        a.mov(EDX, EXTENSION_UNSOLICITED.code)
        a.place(judge)
        a.test(R9D, R9D)
        a.again(NZ, each)
        a.mov(R9D, EDX)
        a.or_(R9D, kind)
        a.jmp(each.top)
    a.place(done)
    a.clc()
    a.ret()
    a.place(form)
    a.stc()
    a.ret()
