"""ServerHello and HelloRetryRequest: judged in the order that RFC 8446 4.1.3 asks for."""

from firmware.abi import CALLER_SAVED
from firmware.layouts.shard import ShardContext
from firmware.layouts.tls import (
    COOKIE_MAX,
    LEGACY_VERSION,
    MESSAGE_IN,
    TLS_1_3,
    Extension,
    Group,
    HandshakeType,
    Hybrid,
    TlsContext,
)
from firmware.layouts.tls_arena import (
    DOWNGRADE_RANDOM,
    GROUPS,
    PEER_SHARE_BYTES,
    SESSION_ID_BYTES,
    SUITES,
    SUITES_FIRST,
    TLS_RETRY_RANDOM,
    TlsArena,
)
from firmware.layouts.tls_sites import (
    COMPRESSION,
    COOKIE_TOO_LONG,
    DOWNGRADE,
    GROUP,
    KEY_SHARE,
    KEY_SHARE_MISSING,
    MESSAGE_FORM,
    RETRY_SUITE,
    RETRY_UNCHANGED,
    SESSION_ID,
    SUITE,
    VERSION,
    VERSION_SELECTED,
)
from firmware.tls.extensions import tls_extensions
from firmware.tls.refuse import Refusals
from toolchain.asm import (
    AX,
    BE,
    CX,
    EAX,
    ECX,
    EDX,
    ESI,
    NZ,
    R8,
    R9D,
    R12,
    R13,
    R14,
    R15,
    R15D,
    RAX,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    ZF,
    A,
    Asm,
    B,
    E,
    In,
    Out,
    Reg32,
    Reg64,
    Z,
    mem8,
    mem16,
    mem64,
    routine,
)

RANDOM_AT, SESSION_AT = 2, 34
"""Offsets in the body (RFC 8446 4.1.3): random, length of the session id."""
BEHIND_SESSION = 3
"""Bytes of suite and compression."""
LAST_VERSION_BIT = 56
"""DOWNGRD is followed by 1 for TLS 1.2 and by 0 for older versions; this bit tells them apart."""


def row(a: Asm, arena: TlsArena, kind: Extension) -> None:
    """RSI := where the value of an extension lies, ECX := its bytes, ZF = 1 when it is missing."""
    found = arena.found
    a.mov(ECX, found.m32(8 * kind + 4))
    a.mov(ESI, found.m32(8 * kind))
    a.test(ESI, ESI)
    a.lea(RSI, mem8(R12, index=RSI, ref=MESSAGE_IN))


@routine(
    inputs=[In(RSI, int, "body of a ServerHello"), In(ECX, int, "its bytes")],
    outputs=[Out(ZF, "1 = it is a HelloRetryRequest")],
    clobbers=[RAX, RCX, RDX],
    reads=[MESSAGE_IN, TLS_RETRY_RANDOM],
    source="RFC 8446 4.1.3",
)
def tls_is_retry(a: Asm, body: Reg64, length: Reg32) -> None:
    """Compare the random with the one that stands for a retry."""
    short = a.label("short")
    a.cmp(length, SESSION_AT)
    a.j(B, short)
    a.lea(RDX, TLS_RETRY_RANDOM.address)
    a.xor(ECX, ECX)
    for n in range(0, TLS_RETRY_RANDOM.size, 8):  # unrolled: four quadwords
        a.mov(RAX, mem64(RSI, RANDOM_AT + n, ref=MESSAGE_IN))
        a.xor(RAX, mem64(RDX, n, ref=TLS_RETRY_RANDOM))
        a.or_(RCX, RAX)
    a.place(short)
    a.ret()  # a short body: below, so ZF = 0


@routine(
    inputs=[
        In(RBX, ShardContext, "the shard"),
        In(RSI, int, "body of the message, in the arena"),
        In(ECX, int, "its bytes"),
        In(EDX, int, "Place: SERVER_HELLO or RETRY"),
    ],
    outputs=[Out(R9D, "why it is refused, as an error; 0 = it is not")],
    clobbers=CALLER_SAVED,
    reads=[
        TlsContext.arena_ptr,
        TlsArena.found,
        TlsArena.session_id,
        TlsArena.retry_suite,
        MESSAGE_IN,
    ],
    writes=[TlsContext.suite],
    calls=[tls_extensions],
    saves=[R12, R13, R14, R15],
    source="RFC 8446 4.1.3; firmware/docs/tls.md#serverhello",
)
def tls_judge_hello(a: Asm, shard: ShardContext, body: Reg64, length: Reg32, place: Reg32) -> None:
    """Judge all but the key share, and take the cipher suite."""
    bad = Refusals(
        a, (VERSION, VERSION_SELECTED, SUITE), {MESSAGE_FORM: HandshakeType.SERVER_HELLO}
    )
    out, old, walk = a.label("out"), a.label("old"), a.label("walk")
    arena, at, end = TlsArena.at(R12), R14, R8
    a.mov(R12, shard.tls.arena_ptr)
    a.mov(R13, body)
    a.mov(ECX, length)  # the upper half of a narrow input is anything
    a.cmp(ECX, SESSION_AT + 1 + BEHIND_SESSION)
    a.j(B, bad[MESSAGE_FORM])
    a.lea(end, mem8(R13, index=RCX, ref=MESSAGE_IN))
    a.movzx(EAX, mem8(R13, SESSION_AT, ref=MESSAGE_IN))
    a.cmp(EAX, SESSION_ID_BYTES)
    a.j(A, bad[MESSAGE_FORM])
    a.lea(at, mem8(R13, SESSION_AT + 1, index=RAX, ref=MESSAGE_IN))
    a.lea(RSI, mem8(at, BEHIND_SESSION, ref=MESSAGE_IN))
    a.cmp(RSI, end)
    a.j(A, bad[MESSAGE_FORM])

    # A server of the past sends no extensions at all.
    a.mov(ECX, 0)
    a.j(Z, walk)
    a.lea(RAX, mem8(RSI, 2, ref=MESSAGE_IN))
    a.cmp(RAX, end)
    a.j(A, bad[MESSAGE_FORM])
    a.movzx(ECX, mem16(RSI, ref=MESSAGE_IN))
    a.rol(CX, 8)
    a.mov(RSI, RAX)
    a.add(RAX, RCX)
    a.cmp(RAX, end)
    a.jne(bad[MESSAGE_FORM])
    a.place(walk)
    a.call(tls_extensions)
    a.jb(bad[MESSAGE_FORM])
    a.mov(R15D, R9D)

    # The version comes before everything else: other rules are those of TLS 1.3.
    row(a, arena, Extension.SUPPORTED_VERSIONS)
    a.j(Z, old)
    a.cmp(ECX, 2)
    a.jne(bad[MESSAGE_FORM])
    a.movzx(EAX, mem16(RSI, ref=MESSAGE_IN))
    a.rol(AX, 8)
    a.cmp(EAX, TLS_1_3)
    a.jne(bad[VERSION_SELECTED])
    a.movzx(EAX, mem16(R13, ref=MESSAGE_IN))
    a.rol(AX, 8)
    a.cmp(EAX, LEGACY_VERSION)
    a.jne(bad[VERSION])

    a.cmp(mem8(R13, SESSION_AT, ref=MESSAGE_IN), SESSION_ID_BYTES)
    a.jne(bad[SESSION_ID])
    for n in range(0, SESSION_ID_BYTES, 8):  # unrolled: four quadwords
        a.mov(RAX, mem64(R13, SESSION_AT + 1 + n, ref=MESSAGE_IN))
        a.cmp(RAX, arena.session_id.m64(n))
        a.jne(bad[SESSION_ID])
    a.movzx(EAX, mem16(at, ref=MESSAGE_IN))
    a.rol(AX, 8)
    a.lea(ECX, mem8(RAX, -SUITES_FIRST, ref=MESSAGE_IN))
    a.cmp(ECX, len(SUITES))
    a.jae(bad[SUITE])
    with a.block() as first:
        a.cmp(arena.retry_suite, 0)
        a.leave(Z, first)
        a.cmp(AX, arena.retry_suite)
        a.jne(bad[RETRY_SUITE])
    a.cmp(mem8(at, 2, ref=MESSAGE_IN), 0)
    a.jne(bad[COMPRESSION])
    a.mov(R9D, R15D)
    a.test(R9D, R9D)
    a.jnz(out)
    a.mov(shard.tls.suite, AX)
    a.jmp(out)

    # TLS 1.2 at most; whoever took our offer of 1.3 out of the way left this mark in the random.
    a.place(old)
    a.mov(RAX, mem64(R13, SESSION_AT - 8, ref=MESSAGE_IN))
    a.btr(RAX, LAST_VERSION_BIT)
    a.mov(RCX, int.from_bytes(DOWNGRADE_RANDOM, "little"))
    a.cmp(RAX, RCX)
    a.je(bad[DOWNGRADE])
    a.movzx(EAX, mem16(R13, ref=MESSAGE_IN))
    a.rol(AX, 8)
    a.jmp(bad[VERSION])
    bad.emit(out)
    a.place(out)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "a shard whose ServerHello was judged")],
    outputs=[Out(R9D, "why it is refused, as an error; 0 = it is not")],
    clobbers=[RAX, RCX, RDI, RSI],
    reads=[
        TlsContext.arena_ptr,
        TlsArena.found,
        TlsArena.share_group,
        TlsArena.second_group,
        MESSAGE_IN,
    ],
    writes=[TlsContext.group, TlsArena.peer_share],
    saves=[R12],
    source="RFC 8446 4.2.8",
)
def tls_take_share(a: Asm, shard: ShardContext) -> None:
    """Take the server's key share, which must be of a group that we sent one for."""
    bad = Refusals(a, (GROUP,), {MESSAGE_FORM: HandshakeType.SERVER_HELLO})
    out, known, arena = a.label("out"), a.label("known"), TlsArena.at(R12)
    a.mov(R12, shard.tls.arena_ptr)
    row(a, arena, Extension.KEY_SHARE)
    a.j(Z, bad[KEY_SHARE_MISSING])
    a.sub(ECX, 4)
    a.j(B, bad[MESSAGE_FORM])
    a.movzx(EAX, mem16(RSI, 2, ref=MESSAGE_IN))
    a.rol(AX, 8)
    a.cmp(EAX, ECX)
    a.jne(bad[MESSAGE_FORM])
    a.movzx(EAX, mem16(RSI, ref=MESSAGE_IN))
    a.rol(AX, 8)
    for group, size in PEER_SHARE_BYTES.items():  # unrolled: three groups
        a.mov(R9D, size)
        a.cmp(EAX, group)
        a.j(E, known)
    a.jmp(bad[GROUP])
    a.place(known)
    with a.block() as sent:
        a.cmp(AX, arena.share_group)
        a.leave(E, sent)
        a.cmp(AX, arena.second_group)
        a.jne(bad[GROUP])
    a.cmp(ECX, R9D)
    a.jne(bad[KEY_SHARE])
    a.mov(shard.tls.group, AX)
    a.add(RSI, 4)
    a.lea(RDI, arena.peer_share.address)
    a.rep_movsb()
    a.xor(R9D, R9D)
    a.jmp(out)
    bad.emit(out)
    a.place(out)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "a shard whose HelloRetryRequest was judged")],
    outputs=[
        Out(R9D, "why it is refused, as an error; 0 = it is not"),
        Out(EDX, "Group of the share that it wants; 0 = it has it already"),
    ],
    clobbers=[RAX, RCX, RDI, RSI],
    reads=[
        TlsContext.arena_ptr,
        TlsContext.suite,
        TlsArena.found,
        TlsArena.share_group,
        TlsArena.second_group,
        TlsArena.hybrid,
        MESSAGE_IN,
    ],
    writes=[TlsArena.retry_suite, TlsArena.cookie, TlsArena.cookie_len],
    saves=[R12],
    source="RFC 8446 4.1.4",
)
def tls_take_retry(a: Asm, shard: ShardContext) -> None:
    """Take what a HelloRetryRequest asks for: another group's share, a cookie, or both."""
    bad = Refusals(a, (GROUP,), {MESSAGE_FORM: HandshakeType.HELLO_RETRY_REQUEST})
    out, arena = a.label("out"), TlsArena.at(R12)
    a.mov(R12, shard.tls.arena_ptr)
    a.xor(EDX, EDX)
    row(a, arena, Extension.KEY_SHARE)
    with a.if_(NZ):
        a.cmp(ECX, 2)
        a.jne(bad[MESSAGE_FORM])
        a.movzx(EAX, mem16(RSI, ref=MESSAGE_IN))
        a.rol(AX, 8)
        # What we offer may be asked for, unless we sent a share of it.
        for sent in (arena.share_group, arena.second_group):  # unrolled: two shares
            a.cmp(AX, sent)
            a.je(bad[GROUP])
        with a.block() as offered:
            for group in GROUPS:  # unrolled: two groups
                a.cmp(EAX, group)
                a.leave(Z, offered)
            a.cmp(EAX, Group.X25519MLKEM768)
            a.jne(bad[GROUP])
            a.cmp(arena.hybrid, Hybrid.OFF)
            a.je(bad[GROUP])
        a.mov(EDX, EAX)
    row(a, arena, Extension.COOKIE)
    with a.if_(NZ):
        a.sub(ECX, 2)
        a.j(BE, bad[MESSAGE_FORM])
        a.movzx(EAX, mem16(RSI, ref=MESSAGE_IN))
        a.rol(AX, 8)
        a.cmp(EAX, ECX)
        a.jne(bad[MESSAGE_FORM])
        a.cmp(ECX, COOKIE_MAX)
        a.j(A, bad[COOKIE_TOO_LONG])
        a.mov(arena.cookie_len, ECX)
        a.add(RSI, 2)
        a.lea(RDI, arena.cookie.address)
        a.rep_movsb()
    with a.else_():
        a.test(EDX, EDX)
        a.jz(bad[RETRY_UNCHANGED])
    a.mov(AX, shard.tls.suite)
    a.mov(arena.retry_suite, AX)
    a.xor(R9D, R9D)
    a.jmp(out)
    bad.emit(out)
    a.place(out)
    a.ret()
