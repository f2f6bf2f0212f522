"""Both Finished."""

from emulator.effects import World, model
from emulator.models.tls.hellos import tls_send_message
from emulator.models.tls.protect import tls_take_secret
from emulator.models.tls.schedule import tls_data_secrets, tls_finished_mac
from emulator.models.tls.send import tls_change_cipher_spec
from emulator.models.tls.transcript import (
    arena_of,
    size_of,
    tls_transcript_add,
    tls_transcript_digest,
)
from firmware.layouts.shard import ShardContext
from firmware.layouts.tls import HandshakeType, TlsFlag
from firmware.layouts.tls_arena import TLS_EMPTY_CERTIFICATE
from firmware.layouts.tls_sites import FINISHED, MESSAGE_FORM, NO_ROOM


@model
def tls_finished_differs(w: World, shard: int, told: int) -> int:
    """All bytes of the digest count."""
    size = size_of(w, shard)
    return int(w.read(told, size) != arena_of(w, shard).verify_data[:size])


@model
def tls_send_finished(w: World, shard: int) -> int:
    """change_cipher_spec, an empty Certificate when asked, Finished."""
    arena, size = arena_of(w, shard), size_of(w, shard)
    if tls_change_cipher_spec(w, shard):
        return 1
    if w.view(ShardContext, shard).tls.flags & TlsFlag.REQUESTED:
        empty = w.address(TLS_EMPTY_CERTIFICATE)
        tls_transcript_add(w, shard, empty, 8)
        if tls_send_message(w, shard, empty, 8):
            return 1
    tls_transcript_digest(w, shard)
    tls_finished_mac(w, shard, arena.offset_of("client_secret"))
    message = bytes([HandshakeType.FINISHED, 0, 0, size]) + arena.verify_data[:size]
    arena.finished[: len(message)] = message
    return int(tls_send_message(w, shard, arena.offset_of("finished"), len(message)))


@model
def tls_on_finished(w: World, shard: int, body: int, length: int) -> int:
    """The server's proves the handshake; then ours, then the keys of the application."""
    arena, keys = arena_of(w, shard), w.view(ShardContext, shard).tls_keys
    if length != size_of(w, shard):
        return MESSAGE_FORM.code | HandshakeType.FINISHED
    tls_finished_mac(w, shard, arena.offset_of("server_secret"))
    if tls_finished_differs(w, shard, body):
        return FINISHED.code
    tls_transcript_digest(w, shard)
    tls_data_secrets(w, shard)
    if tls_send_finished(w, shard):
        return NO_ROOM.code
    tls_take_secret(w, shard, keys.receive.address_, arena.offset_of("server_secret"))
    tls_take_secret(w, shard, keys.send.address_, arena.offset_of("client_data"))
    return 0
