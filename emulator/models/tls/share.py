"""Key shares."""

from emulator.effects import World, model
from emulator.models.crypto.chosen import p256_agree, p256_public, x25519
from emulator.models.crypto.drbg import drbg_bytes
from emulator.models.crypto.mlkem import mlkem_decapsulate, mlkem_keygen
from emulator.models.crypto.p256 import p256_draw
from emulator.models.tls.transcript import arena_of
from firmware.layouts.shard import ShardContext
from firmware.layouts.tls import Group, Hybrid
from firmware.layouts.x25519 import X25519_BASE_POINT


@model
def tls_make_share(w: World, shard: int, group: int) -> None:
    """X25519(a, 9), or a * G of P-256; for the hybrid a key pair of ML-KEM comes first."""
    arena = arena_of(w, shard)
    private, share = arena.offset_of("private"), arena.offset_of("share")
    arena.share_group, arena.second_group = group, 0
    if group == Group.X25519MLKEM768:
        seed = arena.offset_of("shared")
        drbg_bytes(w, seed, 64)
        mlkem_keygen(w, arena.kem.address_, seed)
        arena.shared[:] = bytes(64)
    if group != Group.SECP256R1:
        arena.share_len = 32
        drbg_bytes(w, private, 32)
        x25519(w, share, private, w.address(X25519_BASE_POINT))
    else:
        arena.share_len = 65
        p256_draw(w, private)
        p256_public(w, share, private)


@model
def tls_agree(w: World, shard: int) -> int:
    """X25519(a, X25519(b, 9)), or X of a * B, or ML-KEM's and the former; keys are used once."""
    arena, group = arena_of(w, shard), w.view(ShardContext, shard).tls.group
    shared, private, peer = (arena.offset_of(n) for n in ("shared", "private", "peer_share"))
    if group == Group.X25519MLKEM768:
        mlkem_decapsulate(w, shared, arena.kem.address_, peer)
        shared, peer = shared + 32, peer + 1088
    agree = p256_agree if group == Group.SECP256R1 else x25519
    refused = agree(w, shared, private, peer)
    arena.private[:] = bytes(32)
    if arena.hybrid != Hybrid.OFF:
        arena.kem.wipe()
    return int(refused)
