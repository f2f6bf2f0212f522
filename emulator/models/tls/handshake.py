"""The handshake."""

from collections.abc import Callable

from emulator.effects import World, model
from emulator.models.tcp.ring import tcp_consume
from emulator.models.tls.certificate_verify import tls_on_verify
from emulator.models.tls.fail import refuse, tls_fail
from emulator.models.tls.finished import tls_on_finished
from emulator.models.tls.hellos import tls_on_hello, tls_on_retry
from emulator.models.tls.judge import tls_judge, tls_on_certificate
from emulator.models.tls.moves import tls_find_move
from emulator.models.tls.pool import tls_arena_give
from emulator.models.tls.records import tls_next_record
from emulator.models.tls.server_flight import (
    tls_on_extensions,
    tls_on_request,
)
from emulator.models.tls.server_hello import tls_is_retry
from emulator.models.tls.stream import tls_ended, tls_take_alert
from emulator.models.tls.transcript import arena_of, tls_transcript_add, tls_transcript_digest
from firmware.layouts.node import CORE
from firmware.layouts.shard import ShardContext
from firmware.layouts.tls import MESSAGE_MAX, Action, HandshakeType, TlsState
from firmware.layouts.tls_sites import (
    HANDSHAKE_TIMEOUT,
    INTERLEAVED,
    KEY_CHANGE,
    MESSAGE,
    MESSAGE_TOO_LONG,
    RECORD_FLOOD,
)
from firmware.layouts.x509_chain import ChainState

_ACTIONS: dict[int, Callable[[World, int, int, int], int]] = {
    Action.RETRY: tls_on_retry,
    Action.SERVER_HELLO: tls_on_hello,
    Action.EXTENSIONS: tls_on_extensions,
    Action.REQUEST: tls_on_request,
    Action.CERTIFICATE: tls_on_certificate,
    Action.VERIFY: tls_on_verify,
    Action.FINISHED: tls_on_finished,
}


@model
def tls_take_message(w: World, shard: int, kind: int, body: int, length: int, behind: int) -> None:
    """What may come is done; hello and Finished change keys, so nothing follows in their record."""
    tls = w.view(ShardContext, shard).tls
    if kind == HandshakeType.SERVER_HELLO and tls_is_retry(w, body, length):
        kind = HandshakeType.HELLO_RETRY_REQUEST
    action, following = tls_find_move(w, tls.state, kind)
    if action == Action.REFUSE:
        refuse(w, shard, MESSAGE, tls.state << 8 | kind)
        return
    if action in (Action.SERVER_HELLO, Action.FINISHED) and behind:
        refuse(w, shard, KEY_CHANGE, kind)
        return
    if tls.state >= TlsState.WAIT_EXTENSIONS:
        if action in (Action.VERIFY, Action.FINISHED):
            tls_transcript_digest(w, shard)
        tls_transcript_add(w, shard, body - 4, length + 4)
    error = _ACTIONS[action](w, shard, body, length)
    if error:
        tls_fail(w, shard, error)
    else:
        tls.state = following


@model
def tls_take_handshake(w: World, shard: int, content: int, length: int) -> None:
    """Four bytes of header, then as many as it says; again until the content is used up."""
    tls, arena = w.view(ShardContext, shard).tls, arena_of(w, shard)
    while length:
        part = min((arena.message_need or 4) - arena.message_have, length)
        arena.message[arena.message_have : arena.message_have + part] = w.read(content, part)
        content, length = content + part, length - part
        arena.message_have += part
        if not arena.message_need:
            if arena.message_have < 4:
                return
            kind, state = arena.message[0], tls.state
            unknown = kind == HandshakeType.HELLO_RETRY_REQUEST
            if unknown or tls_find_move(w, state, kind)[0] == Action.REFUSE:
                refuse(w, shard, MESSAGE, state << 8 | kind)
                return
            size = int.from_bytes(arena.message[1:4], "big")
            if size > MESSAGE_MAX:
                refuse(w, shard, MESSAGE_TOO_LONG, kind)
                return
            arena.message_need = 4 + size
        if arena.message_have < arena.message_need:
            continue
        size = arena.message_have - 4
        arena.message_have = arena.message_need = 0
        body = arena.offset_of("message") + 4
        tls_take_message(w, shard, arena.message[0], body, size, length)
        if tls.state == TlsState.FAILED:
            return
        if _unjudged(w, shard):
            arena.paused_at, arena.paused_len = content, length
            return


def _unjudged(w: World, shard: int) -> bool:
    """The next message is CertificateVerify, and nobody knows yet whether the chain counts."""
    waiting = w.view(ShardContext, shard).tls.state == TlsState.WAIT_VERIFY
    return bool(waiting and arena_of(w, shard).chain.state != ChainState.DONE)


@model
def tls_tick(w: World, shard: int) -> None:
    """Every record that is whole; then the end of the stream, then the deadline."""
    tls = w.view(ShardContext, shard).tls
    _go_on(w, shard)
    if tls.state != TlsState.FAILED and tls.state < TlsState.CONNECTED:
        if w.g(CORE).now < tls.deadline:
            return
        refuse(w, shard, HANDSHAKE_TIMEOUT)
    tls_arena_give(w, shard)


def _go_on(w: World, shard: int) -> None:
    tls, arena = w.view(ShardContext, shard).tls, arena_of(w, shard)
    while True:
        if arena.paused_record:
            error = tls_judge(w, shard)
            if error:
                tls_fail(w, shard, error)
                return
            if arena.chain.state != ChainState.DONE:
                return
            whole, arena.paused_record = arena.paused_record, 0
            tls_take_handshake(w, shard, arena.paused_at, arena.paused_len)
        else:
            none, kind, content, length, whole = tls_next_record(w, shard)
            if none:
                tls_ended(w, shard)
                return
            if kind == 22:
                tls.meaningless = 0
                tls_take_handshake(w, shard, content, length)
                if _unjudged(w, shard):
                    arena.paused_record = whole
                    continue
            elif kind == 21:
                tls_take_alert(w, shard, content)
            elif arena.message_have:
                refuse(w, shard, INTERLEAVED, 20)
                return
            elif tls.meaningless >= 32:
                refuse(w, shard, RECORD_FLOOD, 20)
                return
            else:
                tls.meaningless += 1
        tcp_consume(w, shard, whole)
        if tls.state in (TlsState.CONNECTED, TlsState.FAILED):
            return
