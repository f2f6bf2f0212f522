"""The hellos in order."""

from emulator.effects import World, model
from emulator.models.tls.hello import tls_write_hello
from emulator.models.tls.protect import tls_take_secret
from emulator.models.tls.schedule import tls_handshake_secrets
from emulator.models.tls.send import (
    tls_change_cipher_spec,
    tls_commit_record,
    tls_reserve_record,
)
from emulator.models.tls.server_hello import tls_judge_hello, tls_take_retry, tls_take_share
from emulator.models.tls.share import tls_agree, tls_make_share
from emulator.models.tls.transcript import (
    arena_of,
    tls_transcript_add,
    tls_transcript_digest,
    tls_transcript_retry,
    tls_transcript_start,
)
from firmware.layouts.shard import ShardContext
from firmware.layouts.tls import TlsFlag
from firmware.layouts.tls_arena import Place
from firmware.layouts.tls_sites import KEY_SHARE, NO_ROOM


@model
def tls_send_message(w: World, shard: int, message: int, length: int) -> int:
    """A record with nothing but the message."""
    at, full = tls_reserve_record(w, shard, length)
    if not full:
        w.write(at, w.read(message, length))
        tls_commit_record(w, shard, 22, length)
    return full


@model
def tls_on_retry(w: World, shard: int, body: int, length: int) -> int:
    """message_hash, HelloRetryRequest, ClientHello2; change_cipher_spec goes before the latter."""
    arena = arena_of(w, shard)
    error = tls_judge_hello(w, shard, body, length, Place.RETRY)
    if error:
        return int(error)
    error, group = tls_take_retry(w, shard)
    if error:
        return int(error)
    if group:
        tls_make_share(w, shard, group)
    tls_transcript_retry(w, shard)
    tls_transcript_add(w, shard, body - 4, length + 4)
    if tls_change_cipher_spec(w, shard):
        return NO_ROOM.code
    tls_write_hello(w, shard)
    tls_transcript_add(w, shard, arena.offset_of("hello"), arena.hello_len)
    full = tls_send_message(w, shard, arena.offset_of("hello"), arena.hello_len)
    return NO_ROOM.code if full else 0


@model
def tls_on_hello(w: World, shard: int, body: int, length: int) -> int:
    """Both shares, the transcript up to here, keys for both directions."""
    context, arena = w.view(ShardContext, shard), arena_of(w, shard)
    error = tls_judge_hello(w, shard, body, length, Place.SERVER_HELLO)
    if not error:
        error = tls_take_share(w, shard)
    if error:
        return int(error)
    if tls_agree(w, shard):
        return KEY_SHARE.code
    if not arena.retry_suite:
        tls_transcript_start(w, shard)
        tls_transcript_add(w, shard, arena.offset_of("hello"), arena.hello_len)
    tls_transcript_add(w, shard, body - 4, length + 4)
    tls_transcript_digest(w, shard)
    tls_handshake_secrets(w, shard)
    keys = context.tls_keys
    tls_take_secret(w, shard, keys.receive.address_, arena.offset_of("server_secret"))
    tls_take_secret(w, shard, keys.send.address_, arena.offset_of("client_secret"))
    context.tls.flags |= TlsFlag.OPENING | TlsFlag.SEALING
    return 0
