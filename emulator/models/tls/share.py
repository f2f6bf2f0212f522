"""Key shares."""

from emulator.effects import World, model
from emulator.models.crypto.chosen import p256_agree, p256_public, x25519
from emulator.models.crypto.drbg import drbg_bytes
from emulator.models.crypto.p256 import p256_draw
from emulator.models.tls.transcript import arena_of
from firmware.layouts.tls import Group
from firmware.layouts.x25519 import X25519_BASE_POINT


@model
def tls_make_share(w: World, shard: int, group: int) -> None:
    """X25519(a, 9), or a * G of P-256."""
    arena = arena_of(w, shard)
    private, share = arena.offset_of("private"), arena.offset_of("share")
    arena.share_group = group
    if group == Group.X25519:
        arena.share_len = 32
        drbg_bytes(w, private, 32)
        x25519(w, share, private, w.address(X25519_BASE_POINT))
    else:
        arena.share_len = 65
        p256_draw(w, private)
        p256_public(w, share, private)


@model
def tls_agree(w: World, shard: int) -> int:
    """X25519(a, X25519(b, 9)), or X of a * B; the key is used once."""
    arena = arena_of(w, shard)
    shared, private, peer = (arena.offset_of(n) for n in ("shared", "private", "peer_share"))
    agree = x25519 if arena.share_group == Group.X25519 else p256_agree
    refused = agree(w, shared, private, peer)
    arena.private[:] = bytes(32)
    return int(refused)
