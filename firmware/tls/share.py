"""Key shares (RFC 8446 4.2.8): a fresh key for every connection, and what both shares give."""

from firmware.abi import CALLER_SAVED
from firmware.crypto.chosen import p256_agree, p256_public, x25519
from firmware.crypto.drbg import drbg_bytes
from firmware.crypto.p256 import p256_draw
from firmware.layouts.shard import ShardContext
from firmware.layouts.tls import Group, TlsContext
from firmware.layouts.tls_arena import PRIVATE_BYTES, SHARE_BYTES, TlsArena
from firmware.layouts.x25519 import X25519_BASE_POINT
from toolchain.asm import (
    CF,
    CX,
    EAX,
    ECX,
    R12,
    RBX,
    RDI,
    RDX,
    RSI,
    Asm,
    E,
    In,
    Out,
    Reg32,
    routine,
)


@routine(
    inputs=[
        In(RBX, ShardContext, "the shard"),
        In(ECX, int, "Group of the share; one that we offer"),
    ],
    clobbers=CALLER_SAVED,
    reads=[TlsContext.arena_ptr],
    writes=[TlsArena.share_group, TlsArena.share_len],
    calls=[drbg_bytes, x25519, p256_draw, p256_public],
    saves=[R12],
    source="RFC 7748 6.1; RFC 8446 4.2.8.2",
)
def tls_make_share(a: Asm, shard: ShardContext, group: Reg32) -> None:
    """Draw a private key and make its public one."""
    arena = TlsArena.at(R12)
    a.mov(R12, shard.tls.arena_ptr)
    a.mov(arena.share_group, CX)
    a.lea(RDI, arena.private.address)
    a.cmp(group, Group.X25519)
    with a.if_(E):
        a.mov(arena.share_len, SHARE_BYTES[Group.X25519])
        a.mov(ECX, PRIVATE_BYTES)
        a.call(drbg_bytes)
        a.lea(RDI, arena.share.address)
        a.lea(RSI, arena.private.address)
        a.lea(RDX, X25519_BASE_POINT.address)
        a.call(x25519)
        a.ret()
    a.mov(arena.share_len, SHARE_BYTES[Group.SECP256R1])
    a.call(p256_draw)
    a.lea(RDI, arena.share.address)
    a.lea(RSI, arena.private.address)
    a.call(p256_public)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "the shard; the server's share is there, of the group of ours")],
    outputs=[Out(CF, "1 = the share is a point of small order, or no point")],
    clobbers=CALLER_SAVED,
    reads=[TlsContext.arena_ptr, TlsArena.share_group],
    writes=[TlsArena.private],
    calls=[x25519, p256_agree],
    saves=[R12],
    source="RFC 7748 6.1; RFC 8446 4.2.8.2 and 7.4",
)
def tls_agree(a: Asm, shard: ShardContext) -> None:
    """Make what both shares give; the private key is erased, it serves this connection alone."""
    arena = TlsArena.at(R12)
    a.mov(R12, shard.tls.arena_ptr)
    a.lea(RDI, arena.shared.address)
    a.lea(RSI, arena.private.address)
    a.lea(RDX, arena.peer_share.address)
    a.cmp(arena.share_group, Group.X25519)
    with a.if_(E):
        a.call(x25519)
    with a.else_():
        a.call(p256_agree)
    a.lea(RDI, arena.private.address)
    a.mov(ECX, PRIVATE_BYTES // 8)
    # The verdict outlives the erasure: no flag changes in between.
    a.mov(EAX, 0)
    a.rep_stosq()
    a.ret()
