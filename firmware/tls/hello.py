"""ClientHello (RFC 8446 4.1.2): one message, conventional in its order, that carries no secret."""

from firmware.layouts.mlkem import EK_BYTES
from firmware.layouts.shard import ShardContext
from firmware.layouts.tls import (
    HANDSHAKE_HEADER_BYTES,
    LEGACY_VERSION,
    Extension,
    Group,
    HandshakeType,
    Hybrid,
    TlsContext,
)
from firmware.layouts.tls_arena import (
    RANDOM_BYTES,
    SESSION_ID_BYTES,
    SHARE_BYTES,
    TLS_HELLO_EXTENSIONS,
    TLS_HELLO_GROUPS,
    TLS_HELLO_HYBRID_GROUPS,
    TLS_HELLO_SUITES,
    TlsArena,
)
from toolchain.asm import (
    AX,
    EAX,
    ECX,
    NE,
    R12,
    R13,
    RAX,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    Asm,
    E,
    In,
    Region,
    Z,
    mem8,
    mem16,
    routine,
)

HELLO_OUT = Region("the ClientHello", "`TlsArena.hello`, which has room for the longest")
SERVER_NAME_COST = 5
"""List length, type and name length before a host name (RFC 6066 3)."""
HOST_NAME = 0
LIST_AT = 6
"""Offset of the first share in a key_share extension."""


def _put16(a: Asm, offset: int, value: int) -> None:
    """Write two bytes, the high one first."""
    a.mov(mem16(RDI, offset, ref=HELLO_OUT), int.from_bytes(value.to_bytes(2, "big"), "little"))


def _put_length(a: Asm, offset: int, more: int) -> None:
    """Write ECX + more as two bytes."""
    a.lea(EAX, mem8(RCX, more, ref=HELLO_OUT))
    a.rol(AX, 8)
    a.mov(mem16(RDI, offset, ref=HELLO_OUT), AX)


def _write_share(a: Asm, arena: TlsArena) -> None:
    """Write the share; in the hybrid one the encapsulation key comes first."""
    a.movzx(ECX, arena.share_len)
    a.mov(AX, arena.share_group)
    a.cmp(AX, Group.X25519MLKEM768)
    with a.if_(E):
        a.add(ECX, EK_BYTES)
    a.rol(AX, 8)
    a.mov(mem16(RDI, ref=HELLO_OUT), AX)
    _put_length(a, 2, 0)
    a.add(RDI, 4)
    a.movzx(EAX, arena.share_len)
    a.sub(ECX, EAX)
    a.lea(RSI, arena.kem.ek.address)
    a.rep_movsb()
    a.mov(ECX, EAX)
    a.lea(RSI, arena.share.address)
    a.rep_movsb()


@routine(
    inputs=[In(RBX, ShardContext, "the shard; random, session id, share and name are chosen")],
    clobbers=[RAX, RCX, RDX, RDI, RSI],
    reads=[
        TlsContext.arena_ptr,
        TlsArena.is_address,
        TlsArena.host_len,
        TlsArena.host,
        TlsArena.random,
        TlsArena.session_id,
        TlsArena.share_group,
        TlsArena.share_len,
        TlsArena.share,
        TlsArena.second_group,
        TlsArena.hybrid,
        TlsArena.cookie_len,
        TLS_HELLO_SUITES,
        TLS_HELLO_GROUPS,
        TLS_HELLO_HYBRID_GROUPS,
        TLS_HELLO_EXTENSIONS,
    ],
    writes=[TlsArena.hello_len, HELLO_OUT],
    saves=[R12, R13],
    source="RFC 8446 4.1.2; firmware/docs/tls.md#clienthello",
)
def tls_write_hello(a: Asm, shard: ShardContext) -> None:
    """Write ClientHello into the arena, its header first; a cookie stays where it was put."""
    arena = TlsArena.at(R12)
    a.mov(R12, shard.tls.arena_ptr)
    a.lea(RDI, arena.hello.address)
    a.mov(mem16(RDI, ref=HELLO_OUT), HandshakeType.CLIENT_HELLO)
    _put16(a, HANDSHAKE_HEADER_BYTES, LEGACY_VERSION)
    a.add(RDI, HANDSHAKE_HEADER_BYTES + 2)
    a.lea(RSI, arena.random.address)
    a.mov(ECX, RANDOM_BYTES)
    a.rep_movsb()
    a.mov(mem8(RDI, ref=HELLO_OUT), SESSION_ID_BYTES)
    a.inc(RDI)
    a.lea(RSI, arena.session_id.address)
    a.mov(ECX, SESSION_ID_BYTES)
    a.rep_movsb()
    a.lea(RSI, TLS_HELLO_SUITES.address)
    a.mov(ECX, TLS_HELLO_SUITES.size)
    a.rep_movsb()
    a.lea(R13, mem8(RDI, 2, ref=HELLO_OUT))  # first extension, behind their length
    a.mov(RDI, R13)

    # RFC 6066 3: no name when the host is an address.
    with a.block() as unnamed:
        a.cmp(arena.is_address, 0)
        a.leave(NE, unnamed)
        a.mov(ECX, arena.host_len)
        _put16(a, 0, Extension.SERVER_NAME)
        _put_length(a, 2, SERVER_NAME_COST)
        _put_length(a, 4, SERVER_NAME_COST - 2)
        a.mov(mem8(RDI, 6, ref=HELLO_OUT), HOST_NAME)
        _put_length(a, 7, 0)
        a.add(RDI, 4 + SERVER_NAME_COST)
        a.lea(RSI, arena.host.address)
        a.rep_movsb()
    a.lea(RSI, TLS_HELLO_GROUPS.address)
    a.mov(ECX, TLS_HELLO_GROUPS.size)
    a.cmp(arena.hybrid, Hybrid.OFF)
    with a.if_(NE):
        a.lea(RSI, TLS_HELLO_HYBRID_GROUPS.address)
        a.mov(ECX, TLS_HELLO_HYBRID_GROUPS.size)
    a.rep_movsb()
    a.lea(RSI, TLS_HELLO_EXTENSIONS.address)
    a.mov(ECX, TLS_HELLO_EXTENSIONS.size)
    a.rep_movsb()

    # One share, or two; a server that wants another group asks for it.
    a.mov(RDX, RDI)
    _put16(a, 0, Extension.KEY_SHARE)
    a.add(RDI, LIST_AT)
    _write_share(a, arena)
    a.cmp(arena.second_group, 0)
    with a.if_(NE):
        # Behind the hybrid share, which ends with it: X25519's own.
        size = SHARE_BYTES[Group.X25519]
        _put16(a, 0, Group.X25519)
        _put16(a, 2, size)
        a.add(RDI, 4)
        a.lea(RSI, arena.share.address)
        a.mov(ECX, size)
        a.rep_movsb()
    a.mov(RCX, RDI)
    a.sub(RCX, RDX)
    a.mov(RDI, RDX)
    _put_length(a, 2, -4)
    _put_length(a, 4, -LIST_AT)
    a.add(RDI, RCX)

    with a.block() as plain:
        a.mov(ECX, arena.cookie_len)
        a.test(ECX, ECX)
        a.leave(Z, plain)
        _put16(a, 0, Extension.COOKIE)
        _put_length(a, 2, 2)
        _put_length(a, 4, 0)
        a.add(RDI, 6)
        a.lea(RSI, arena.cookie.address)
        a.rep_movsb()

    a.mov(RCX, RDI)
    a.sub(RCX, R13)
    a.lea(RDI, mem8(R13, -2, ref=HELLO_OUT))
    _put_length(a, 0, 0)
    a.lea(RDI, arena.hello.address)
    a.add(RCX, R13)
    a.sub(RCX, RDI)
    a.mov(arena.hello_len, ECX)
    # The message's length has three bytes; the first stays zero.
    _put_length(a, 2, -HANDSHAKE_HEADER_BYTES)
    a.ret()
