"""The server's encrypted flight: extensions, a request, the certificate."""

from firmware.abi import CALLER_SAVED
from firmware.layouts.shard import ShardContext
from firmware.layouts.tls import (
    MESSAGE_IN,
    Extension,
    HandshakeType,
    TlsContext,
    TlsFlag,
)
from firmware.layouts.tls_arena import ALPN_NAME, TLS_ALPN_NAME, Found, Place, TlsArena
from firmware.layouts.tls_sites import (
    ALPN,
    CERTIFICATE_CONTEXT,
    CERTIFICATE_MISSING,
    EXTENSION_UNSOLICITED,
    MESSAGE_FORM,
    SCHEMES_MISSING,
)
from firmware.tls.extensions import tls_extensions
from firmware.tls.hellos import MESSAGE_INPUTS, MESSAGE_OUTPUTS
from firmware.tls.refuse import Refusals
from firmware.tls.server_hello import row
from toolchain.asm import (
    AX,
    CX,
    EAX,
    ECX,
    EDX,
    NE,
    NZ,
    R9D,
    R12,
    R13,
    R14,
    RAX,
    RCX,
    RDX,
    RSI,
    A,
    Asm,
    B,
    C,
    E,
    Reg32,
    Reg64,
    Z,
    mem8,
    mem16,
    mem64,
    routine,
)


def word(a: Asm, base: Reg64, offset: int = 0) -> None:
    """EAX := two bytes of the message as a number."""
    a.movzx(EAX, mem16(base, offset, ref=MESSAGE_IN))
    a.rol(AX, 8)


@routine(
    inputs=MESSAGE_INPUTS,
    outputs=MESSAGE_OUTPUTS,
    clobbers=CALLER_SAVED,
    reads=[
        TlsContext.arena_ptr, TlsArena.found, TlsArena.is_address, MESSAGE_IN, TLS_ALPN_NAME,
    ],
    calls=[tls_extensions],
    saves=[R12],
    source="RFC 8446 4.3.1; RFC 7301 3.1; RFC 6066 3",
)  # fmt: skip
def tls_on_extensions(a: Asm, shard: ShardContext, body: Reg64, length: Reg32) -> None:
    """Judge EncryptedExtensions: of several protocols ours alone, of our name nothing."""
    bad = Refusals(a, detail={MESSAGE_FORM: HandshakeType.ENCRYPTED_EXTENSIONS})
    out, arena = a.label("out"), TlsArena.at(R12)
    a.mov(R12, shard.tls.arena_ptr)
    a.sub(ECX, 2)
    a.j(B, bad[MESSAGE_FORM])
    word(a, RSI)
    a.cmp(EAX, ECX)
    a.j(NE, bad[MESSAGE_FORM])
    a.add(RSI, 2)
    a.mov(EDX, Place.ENCRYPTED)
    a.call(tls_extensions)
    a.j(C, bad[MESSAGE_FORM])
    a.test(R9D, R9D)
    a.j(NZ, out)
    a.cmp(arena.found.m32(Found.SIZE * Extension.SERVER_NAME + Found.length.offset), 0)
    a.j(NE, bad[MESSAGE_FORM])
    with a.block() as unnamed:
        # With an address there was no name, so there is no answer to it.
        a.cmp(arena.is_address, 0)
        a.leave(E, unnamed)
        a.cmp(arena.found.m32(Found.SIZE * Extension.SERVER_NAME), 0)
        a.j(NE, bad[EXTENSION_UNSOLICITED])
    row(a, arena, Extension.ALPN)
    a.j(Z, out)
    # A list with one name: two lengths, then the name.
    a.sub(ECX, 3)
    a.j(B, bad[MESSAGE_FORM])
    word(a, RSI)
    a.dec(EAX)
    a.cmp(EAX, ECX)
    a.j(NE, bad[MESSAGE_FORM])
    a.movzx(EAX, mem8(RSI, 2, ref=MESSAGE_IN))
    a.cmp(EAX, ECX)
    a.j(NE, bad[MESSAGE_FORM])
    a.cmp(ECX, len(ALPN_NAME))
    a.j(NE, bad[ALPN])
    a.mov(RAX, mem64(RSI, 3, ref=MESSAGE_IN))
    a.cmp(RAX, TLS_ALPN_NAME.m64())
    a.j(NE, bad[ALPN])
    a.jmp(out)
    bad.emit(out)
    a.place(out)
    a.ret()


@routine(
    inputs=MESSAGE_INPUTS,
    outputs=MESSAGE_OUTPUTS,
    clobbers=CALLER_SAVED,
    reads=[TlsContext.arena_ptr, TlsArena.found, MESSAGE_IN],
    writes=[TlsContext.flags],
    calls=[tls_extensions],
    saves=[R12],
    source="RFC 8446 4.3.2",
)
def tls_on_request(a: Asm, shard: ShardContext, body: Reg64, length: Reg32) -> None:
    """Note that the server asks for a certificate; the answer is an empty one."""
    bad = Refusals(a, detail={MESSAGE_FORM: HandshakeType.CERTIFICATE_REQUEST})
    out, arena = a.label("out"), TlsArena.at(R12)
    a.mov(R12, shard.tls.arena_ptr)
    a.sub(ECX, 3)
    a.j(B, bad[MESSAGE_FORM])
    a.cmp(mem8(RSI, ref=MESSAGE_IN), 0)
    a.j(NE, bad[CERTIFICATE_CONTEXT])
    word(a, RSI, 1)
    a.cmp(EAX, ECX)
    a.j(NE, bad[MESSAGE_FORM])
    a.add(RSI, 3)
    a.mov(EDX, Place.REQUEST)
    a.call(tls_extensions)
    a.j(C, bad[MESSAGE_FORM])
    a.test(R9D, R9D)
    a.j(NZ, out)
    a.cmp(arena.found.m32(Found.SIZE * Extension.SIGNATURE_ALGORITHMS), 0)
    a.j(Z, bad[SCHEMES_MISSING])
    a.or_(shard.tls.flags, TlsFlag.REQUESTED)
    a.jmp(out)
    bad.emit(out)
    a.place(out)
    a.ret()


def _long(a: Asm, into: Reg32, base: Reg64) -> None:
    """Set a register to three bytes of the message as a number; EAX changes."""
    a.movzx(into, mem8(base, ref=MESSAGE_IN))
    a.shl(into, 16)
    word(a, base, 1)
    a.or_(into, EAX)


@routine(
    inputs=MESSAGE_INPUTS,
    outputs=MESSAGE_OUTPUTS,
    clobbers=CALLER_SAVED,
    reads=[TlsContext.arena_ptr, MESSAGE_IN],
    writes=[TlsArena.chain_at, TlsArena.chain_len],
    calls=[tls_extensions],
    saves=[R12, R13, R14],
    source="RFC 8446 4.4.2",
)
def tls_read_certificate(a: Asm, shard: ShardContext, body: Reg64, length: Reg32) -> None:
    """Judge the form of Certificate, and note where its list lies."""
    bad = Refusals(a, detail={MESSAGE_FORM: HandshakeType.CERTIFICATE})
    out, arena, at, end = a.label("out"), TlsArena.at(R12), R13, R14
    a.mov(R12, shard.tls.arena_ptr)
    a.sub(ECX, 4)
    a.j(B, bad[MESSAGE_FORM])
    a.cmp(mem8(RSI, ref=MESSAGE_IN), 0)
    a.j(NE, bad[CERTIFICATE_CONTEXT])
    a.lea(at, mem8(RSI, 4, ref=MESSAGE_IN))
    a.inc(RSI)
    _long(a, EDX, RSI)
    a.cmp(EDX, ECX)
    a.j(NE, bad[MESSAGE_FORM])
    a.mov(arena.chain_len, EDX)
    a.test(EDX, EDX)
    a.j(Z, bad[CERTIFICATE_MISSING])
    a.lea(end, mem8(at, index=RDX, ref=MESSAGE_IN))
    a.mov(RAX, at)
    a.sub(RAX, R12)
    a.mov(arena.chain_at, EAX)

    with a.loop() as each:
        # A certificate of at least one byte, then its extensions, of which we asked for none.
        a.lea(RAX, mem8(at, 5, ref=MESSAGE_IN))
        a.cmp(RAX, end)
        a.j(A, bad[MESSAGE_FORM])
        _long(a, ECX, at)
        a.test(ECX, ECX)
        a.j(Z, bad[MESSAGE_FORM])
        a.lea(at, mem8(at, 5, index=RCX, ref=MESSAGE_IN))
        a.cmp(at, end)
        a.j(A, bad[MESSAGE_FORM])
        a.movzx(ECX, mem16(at, -2, ref=MESSAGE_IN))
        a.rol(CX, 8)
        a.mov(RSI, at)
        a.add(at, RCX)
        a.cmp(at, end)
        a.j(A, bad[MESSAGE_FORM])
        a.mov(EDX, Place.ENTRY)
        a.call(tls_extensions)
        a.j(C, bad[MESSAGE_FORM])
        a.test(R9D, R9D)
        a.j(NZ, out)
        a.cmp(at, end)
        a.again(NE, each)
    a.jmp(out)
    bad.emit(out)
    a.place(out)
    a.ret()
