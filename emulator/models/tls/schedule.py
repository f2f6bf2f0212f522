"""The key schedule, as the drawing of RFC 8446 7.1 has it."""

from emulator.effects import World, model
from emulator.models.crypto.hkdf import (
    hkdf_sha256_expand_label,
    hkdf_sha256_extract,
    hkdf_sha384_expand_label,
    hkdf_sha384_extract,
)
from emulator.models.crypto.hmac import (
    hmac_sha256_finish,
    hmac_sha256_start,
    hmac_sha384_finish,
    hmac_sha384_start,
)
from emulator.models.crypto.sha256 import sha256_update
from emulator.models.crypto.sha512 import sha512_update
from emulator.models.tls.transcript import arena_of, is_sha384, size_of
from firmware.layouts.crypto import HMAC
from firmware.layouts.shard import ShardContext
from firmware.layouts.tls import Group
from firmware.layouts.tls_schedule import (
    CLIENT_DATA,
    CLIENT_HANDSHAKE,
    DERIVED,
    EARLY_SALTS,
    EMPTY_DIGESTS,
    FINISHED_KEY,
    SERVER_DATA,
    SERVER_HANDSHAKE,
    ZEROS,
)


@model
def tls_expand(
    w: World,
    shard: int,
    secret: int,
    label: int,
    context: int,
    size: int,
    out: int,
    out_bytes: int,
) -> None:
    """With the suite's hash."""
    expand = hkdf_sha384_expand_label if is_sha384(w, shard) else hkdf_sha256_expand_label
    expand(w, secret, label, context, size, out, out_bytes)


@model
def tls_derive(w: World, shard: int, secret: int, label: int, out: int) -> None:
    """The context is the transcript's digest."""
    size, digest = size_of(w, shard), arena_of(w, shard).offset_of("digest")
    tls_expand(w, shard, secret, label, digest, size, out, size)


@model
def tls_extract(w: World, shard: int, salt: int, ikm: int, size: int) -> None:
    """With the suite's hash."""
    extract = hkdf_sha384_extract if is_sha384(w, shard) else hkdf_sha256_extract
    extract(w, salt, size_of(w, shard), ikm, size, arena_of(w, shard).offset_of("secret"))


@model
def tls_handshake_secrets(w: World, shard: int) -> None:
    """The salt is known before: without a key from before it never changes."""
    arena, salt = arena_of(w, shard), w.address(EARLY_SALTS[size_of(w, shard)])
    hybrid = w.view(ShardContext, shard).tls.group == Group.X25519MLKEM768
    tls_extract(w, shard, salt, arena.offset_of("shared"), 64 if hybrid else 32)
    for label, out in ((CLIENT_HANDSHAKE, "client_secret"), (SERVER_HANDSHAKE, "server_secret")):
        tls_derive(w, shard, arena.offset_of("secret"), w.address(label), arena.offset_of(out))
    arena.shared[:] = bytes(64)


@model
def tls_data_secrets(w: World, shard: int) -> None:
    """Derived from the handshake secret, with nothing mixed in; then no master secret stays."""
    arena, size = arena_of(w, shard), size_of(w, shard)
    secret, derived = arena.offset_of("secret"), arena.offset_of("derived")
    empty = w.address(EMPTY_DIGESTS[size])
    tls_expand(w, shard, secret, w.address(DERIVED), empty, size, derived, size)
    tls_extract(w, shard, derived, w.address(ZEROS), size)
    tls_derive(w, shard, secret, w.address(CLIENT_DATA), arena.offset_of("client_data"))
    tls_derive(w, shard, secret, w.address(SERVER_DATA), arena.offset_of("server_secret"))
    arena.secret[:] = bytes(48)
    arena.derived[:] = bytes(48)


@model
def tls_finished_mac(w: World, shard: int, secret: int) -> None:
    """HMAC of the transcript's digest under finished_key."""
    arena, size, label = arena_of(w, shard), size_of(w, shard), w.address(FINISHED_KEY)
    key = arena.offset_of("derived")
    tls_expand(w, shard, secret, label, label, 0, key, size)
    start, update, finish = (
        (hmac_sha384_start, sha512_update, hmac_sha384_finish)
        if is_sha384(w, shard)
        else (hmac_sha256_start, sha256_update, hmac_sha256_finish)
    )
    start(w, key, size)
    update(w, w.g(HMAC).offset_of("hash"), arena.offset_of("digest"), size)
    finish(w, arena.offset_of("verify_data"))
