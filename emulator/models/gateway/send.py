"""Outgoing payloads, as json.dumps would write them."""

from emulator.effects import World, model
from emulator.models.log import log_at_level
from emulator.models.text import put_decimal
from emulator.models.websocket.send import ws_begin, ws_finish
from firmware.layouts.config import CONFIG
from firmware.layouts.gateway import GatewayFlag, Op
from firmware.layouts.log import GATEWAY_SEND
from firmware.layouts.node import CORE
from firmware.layouts.profile import PROFILES
from firmware.layouts.shard import Session, ShardContext, ShardFlag
from firmware.layouts.token import TOKEN


@model
def gateway_send(w: World, shard: int, length: int, opcode: int) -> int:
    """Copy the payload into a text frame when there is room."""
    gateway = w.view(ShardContext, shard).gateway
    where, full = ws_begin(w, shard, length)
    if full:
        return 1
    w.write(where, bytes(gateway.outbound[:length]))
    ws_finish(w, shard, length, 0x81)
    log_at_level(w, GATEWAY_SEND, shard, opcode, length)
    return 0


def _compose(w: World, shard: int, op: Op, *parts: bytes | int) -> int:
    """Write texts and numbers after each other, then send them."""
    gateway = w.view(ShardContext, shard).gateway
    start = at = gateway.offset_of("outbound")
    for part in parts:
        if isinstance(part, int):
            at = put_decimal(w, at, part)
        else:
            w.write(at, part)
            at += len(part)
    return gateway_send(w, shard, at - start, op)


@model
def gateway_heartbeat(w: World, shard: int) -> int:
    """Op 1 with the sequence or null; only a beat that finds none pending starts the wait."""
    context = w.view(ShardContext, shard)
    gateway = context.gateway
    known = context.flags & ShardFlag.SEQ_VALID
    sequence: bytes | int = gateway.seq_acked if known else b"null"
    if _compose(w, shard, Op.HEARTBEAT, b'{"op":1,"d":', sequence, b"}"):
        return 1
    gateway.beats += 1
    gateway.flags &= ~GatewayFlag.BEAT_OWED
    if not gateway.flags & GatewayFlag.ACK_PENDING:
        gateway.flags |= GatewayFlag.ACK_PENDING
        gateway.hb_sent_at = w.g(CORE).now
    return 0


def _token(w: World) -> bytes:
    token = w.g(TOKEN)
    return bytes(token.text[: token.length])


@model
def gateway_identify(w: World, shard: int) -> int:
    """Op 2 with token, intents where they exist, properties, and the shard pair unless turned off."""
    context, config = w.view(ShardContext, shard), w.g(CONFIG)
    parts: list[bytes | int] = [b'{"op":2,"d":{"token":"' + _token(w) + b'"']
    if PROFILES[context.profile].has_intents:
        parts += [b',"intents":', config.intents]
    parts.append(b',"properties":{"os":"shardfw","browser":"shardfw","device":"shardfw"}')
    if config.identify_shards:
        parts += [b',"shard":[', context.shard_id, b",", context.shard_total, b"]"]
    parts.append(bytes(config.identify_fields[: config.identify_fields_len]))
    return _compose(w, shard, Op.IDENTIFY, *parts, b"}}")


@model
def gateway_resume(w: World, shard: int) -> int:
    """Op 6 with token, session id and sequence."""
    context = w.view(ShardContext, shard)
    session = w.view(Session, context.session_ptr)
    id_ = bytes(session.session_id[: session.session_id_len])
    start = b'{"op":6,"d":{"token":"' + _token(w) + b'","session_id":"' + id_ + b'","seq":'
    return _compose(w, shard, Op.RESUME, start, context.gateway.seq_acked, b"}}")
