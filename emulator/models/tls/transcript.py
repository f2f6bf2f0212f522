"""The transcript."""

from emulator.effects import View, World, model
from emulator.models.crypto.sha256 import sha256_finish, sha256_start, sha256_update
from emulator.models.crypto.sha512 import sha384_finish, sha384_start, sha512_update
from firmware.layouts.crypto import HASH, Hash
from firmware.layouts.shard import ShardContext
from firmware.layouts.tls import HandshakeType
from firmware.layouts.tls_arena import TlsArena


def arena_of(w: World, shard: int) -> View:
    """Return the shard's arena."""
    arena: View = w.view(TlsArena, w.view(ShardContext, shard).tls.arena_ptr)
    return arena


def is_sha384(w: World, shard: int) -> bool:
    """Tell whether the suite's hash is SHA-384 (RFC 8446 B.4)."""
    return bool(w.view(ShardContext, shard).tls.suite == 0x1302)


def size_of(w: World, shard: int) -> int:
    """Return the bytes of a digest."""
    return 48 if is_sha384(w, shard) else 32


@model
def tls_transcript_start(w: World, shard: int) -> None:
    """No message yet."""
    at = arena_of(w, shard).offset_of("transcript")
    (sha384_start if is_sha384(w, shard) else sha256_start)(w, at)


@model
def tls_transcript_add(w: World, shard: int, message: int, length: int) -> None:
    """One more."""
    at = arena_of(w, shard).offset_of("transcript")
    (sha512_update if is_sha384(w, shard) else sha256_update)(w, at, message, length)


@model
def tls_transcript_digest(w: World, shard: int) -> None:
    """The digest of a copy."""
    arena = arena_of(w, shard)
    copy = w.g(HASH).address_
    w.write(copy, w.read(arena.offset_of("transcript"), Hash.SIZE))
    digest = arena.offset_of("digest")
    (sha384_finish if is_sha384(w, shard) else sha256_finish)(w, copy, digest)


@model
def tls_transcript_retry(w: World, shard: int) -> None:
    """message_hash: type 254, three bytes of length, Hash(ClientHello1)."""
    arena, size = arena_of(w, shard), size_of(w, shard)
    tls_transcript_start(w, shard)
    tls_transcript_add(w, shard, arena.offset_of("hello"), arena.hello_len)
    tls_transcript_digest(w, shard)
    tls_transcript_start(w, shard)
    arena.derived[:4] = bytes([HandshakeType.MESSAGE_HASH, 0, 0, size])
    tls_transcript_add(w, shard, arena.offset_of("derived"), 4)
    tls_transcript_add(w, shard, arena.offset_of("digest"), size)
