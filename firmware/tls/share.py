"""Key shares (RFC 8446 4.2.8): a fresh X25519 key for every connection, and what both shares give."""

from firmware.abi import CALLER_SAVED
from firmware.crypto.drbg import drbg_bytes
from firmware.crypto.x25519 import x25519_base
from firmware.layouts.shard import ShardContext
from firmware.layouts.tls import Group, TlsContext
from firmware.layouts.tls_arena import PRIVATE_BYTES, SHARE_BYTES, TLS_X25519_POINT, TlsArena
from toolchain.asm import (
    CF,
    EAX,
    ECX,
    R12,
    RBX,
    RDI,
    RDX,
    RSI,
    Asm,
    In,
    Out,
    routine,
)


@routine(
    inputs=[In(RBX, ShardContext, "the shard")],
    clobbers=CALLER_SAVED,
    reads=[TlsContext.arena_ptr],
    writes=[TlsArena.share_group, TlsArena.share_len],
    calls=[drbg_bytes, x25519_base],
    saves=[R12],
    source="RFC 7748 6.1; RFC 8446 4.2.8.2",
)
def tls_make_share(a: Asm, shard: ShardContext) -> None:
    """Draw a private key and make its public one."""
    arena = TlsArena.at(R12)
    a.mov(R12, shard.tls.arena_ptr)
    a.lea(RDI, arena.private.address)
    a.mov(ECX, PRIVATE_BYTES)
    a.call(drbg_bytes)
    a.mov(arena.share_group, Group.X25519)
    a.mov(arena.share_len, SHARE_BYTES[Group.X25519])
    a.lea(RDI, arena.share.address)
    a.lea(RSI, arena.private.address)
    a.lea(RDX, TLS_X25519_POINT.address)
    a.call(x25519_base)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "the shard; the server's share is there")],
    outputs=[Out(CF, "1 = the share is a point of small order")],
    clobbers=CALLER_SAVED,
    reads=[TlsContext.arena_ptr],
    writes=[TlsArena.private],
    calls=[x25519_base],
    saves=[R12],
    source="RFC 7748 6.1; RFC 8446 7.4.2",
)
def tls_agree(a: Asm, shard: ShardContext) -> None:
    """Make what both shares give; the private key is erased, it serves this connection alone."""
    arena = TlsArena.at(R12)
    a.mov(R12, shard.tls.arena_ptr)
    a.lea(RDI, arena.shared.address)
    a.lea(RSI, arena.private.address)
    a.lea(RDX, arena.peer_share.address)
    a.call(x25519_base)
    a.lea(RDI, arena.private.address)
    a.mov(ECX, PRIVATE_BYTES // 8)
    # The verdict outlives the erasure: no flag changes in between.
    a.mov(EAX, 0)
    a.rep_stosq()
    a.ret()
