"""The beginning of a handshake."""

from emulator.effects import World, model
from emulator.models.crypto.drbg import drbg_bytes
from emulator.models.tls.fail import refuse
from emulator.models.tls.hello import tls_write_hello
from emulator.models.tls.hellos import tls_send_message
from emulator.models.tls.share import tls_make_share
from emulator.models.tls.transcript import arena_of
from firmware.layouts.shard import ShardContext
from firmware.layouts.tls import Group, Hybrid, TlsState
from firmware.layouts.tls_pool import TLS_POOL
from firmware.layouts.tls_sites import NO_ROOM


@model
def tls_begin(w: World, shard: int) -> None:
    """Two numbers, one key, one message."""
    tls, arena = w.view(ShardContext, shard).tls, arena_of(w, shard)
    drbg_bytes(w, arena.offset_of("random"), 32)
    drbg_bytes(w, arena.offset_of("session_id"), 32)
    arena.hybrid = w.g(TLS_POOL).hybrid
    both = arena.hybrid == Hybrid.SHARE
    tls_make_share(w, shard, Group.X25519MLKEM768 if both else Group.X25519)
    if both:
        arena.second_group = Group.X25519
    tls_write_hello(w, shard)
    if tls_send_message(w, shard, arena.offset_of("hello"), arena.hello_len):
        refuse(w, shard, NO_ROOM)
        return
    tls.state = TlsState.WAIT_SERVER_HELLO
