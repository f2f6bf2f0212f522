"""The beginning of a handshake: fresh numbers, a fresh key, ClientHello on its way."""

from firmware.abi import CALLER_SAVED
from firmware.crypto.drbg import drbg_bytes
from firmware.layouts.shard import ShardContext
from firmware.layouts.tls import Hybrid, TlsContext, TlsState
from firmware.layouts.tls_arena import (
    GROUPS,
    HYBRID_GROUPS,
    RANDOM_BYTES,
    SESSION_ID_BYTES,
    TlsArena,
)
from firmware.layouts.tls_pool import TLS_POOL, TlsPool
from firmware.layouts.tls_sites import NO_ROOM
from firmware.tls.fail import fail, tls_fail
from firmware.tls.hello import tls_write_hello
from firmware.tls.hellos import tls_send_message
from firmware.tls.share import tls_make_share
from toolchain.asm import AX, EAX, ECX, R12, RBX, RDI, RSI, Asm, C, E, In, routine


@routine(
    inputs=[In(RBX, ShardContext, "a shard whose TCP is ESTABLISHED; its arena has the name")],
    clobbers=CALLER_SAVED,
    reads=[TlsContext.arena_ptr, TlsArena.hello_len, TlsArena.hybrid, TlsPool.hybrid],
    writes=[TlsContext.state, TlsArena.hybrid, TlsArena.second_group],
    calls=[drbg_bytes, tls_make_share, tls_write_hello, tls_send_message, tls_fail],
    saves=[R12],
    source="RFC 8446 4.1.2; firmware/docs/tls.md#clienthello",
)
def tls_begin(a: Asm, shard: ShardContext) -> None:
    """Send ClientHello; the handshake's ten seconds run since before the SYN."""
    arena = TlsArena.at(R12)
    a.mov(R12, shard.tls.arena_ptr)
    for drawn, size in ((arena.random, RANDOM_BYTES), (arena.session_id, SESSION_ID_BYTES)):
        a.lea(RDI, drawn.address)  # unrolled: two numbers
        a.mov(ECX, size)
        a.call(drbg_bytes)
    a.mov(EAX, TLS_POOL.it.hybrid)
    a.mov(arena.hybrid, AX)
    a.mov(ECX, GROUPS[0])
    a.cmp(EAX, Hybrid.SHARE)
    with a.if_(E):
        a.mov(ECX, HYBRID_GROUPS[0])
    a.call(tls_make_share)
    # Its half of X25519 is a share by itself too: who knows no more asks for no other one.
    a.cmp(arena.hybrid, Hybrid.SHARE)
    with a.if_(E):
        a.mov(arena.second_group, HYBRID_GROUPS[1])
    a.call(tls_write_hello)
    a.lea(RSI, arena.hello.address)
    a.mov(ECX, arena.hello_len)
    a.call(tls_send_message)
    with a.if_(C):
        fail(a, NO_ROOM.code)
        a.ret()
    a.mov(shard.tls.state, TlsState.WAIT_SERVER_HELLO)
    a.ret()
