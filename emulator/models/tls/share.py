"""Key shares."""

from emulator.effects import World, model
from emulator.models.crypto.drbg import drbg_bytes
from emulator.models.crypto.x25519 import MODELS_X25519
from emulator.models.tls.transcript import arena_of
from firmware.layouts.field import Level
from firmware.layouts.tls import Group
from firmware.layouts.tls_arena import TLS_X25519_POINT

x25519_base = MODELS_X25519[Level.BASE]


@model
def tls_make_share(w: World, shard: int) -> None:
    """X25519(a, 9)."""
    arena = arena_of(w, shard)
    private = arena.offset_of("private")
    drbg_bytes(w, private, 32)
    arena.share_group, arena.share_len = Group.X25519, 32
    x25519_base(w, arena.offset_of("share"), private, w.address(TLS_X25519_POINT))


@model
def tls_agree(w: World, shard: int) -> int:
    """X25519(a, X25519(b, 9)); the key is used once."""
    arena = arena_of(w, shard)
    shared, private = arena.offset_of("shared"), arena.offset_of("private")
    zero = x25519_base(w, shared, private, arena.offset_of("peer_share"))
    arena.private[:] = bytes(32)
    return int(zero)
