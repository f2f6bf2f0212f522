"""Outgoing payloads: heartbeat, Identify, Resume. Each is written whole, then framed."""

from firmware.abi import CALLER_SAVED
from firmware.gateway.profile import profile_table
from firmware.layouts.config import CONFIG, ConfigBlob
from firmware.layouts.gateway import GatewayContext, GatewayFlag, Op
from firmware.layouts.log import GATEWAY_SEND, LogState
from firmware.layouts.log_line import Level
from firmware.layouts.node import CoreState, core
from firmware.layouts.profile import ProfileTable
from firmware.layouts.shard import Session, ShardContext, ShardFlag
from firmware.layouts.token import TOKEN, BotToken
from firmware.layouts.websocket import FIN_BIT, FRAME_OUT, Opcode
from firmware.log import at_level, log, log_write
from firmware.text import put_decimal
from firmware.websocket.send import ws_begin, ws_finish
from toolchain.asm import (
    CF,
    EAX,
    ECX,
    EDI,
    EDX,
    NE,
    NZ,
    R12,
    R12D,
    R13,
    R13D,
    RAX,
    RBX,
    RCX,
    RDI,
    RSI,
    Asm,
    C,
    In,
    Mem8,
    Mem32,
    Out,
    Reg32,
    Z,
    routine,
)
from toolchain.layout.data import Data, constant

TEXT_FRAME = FIN_BIT | Opcode.TEXT
BEAT = constant("gateway_beat_text", b'{"op":1,"d":', "before the sequence")
NULL = constant("payload_null", b"null", "no sequence yet")
IDENTIFY = constant("gateway_identify_text", b'{"op":2,"d":{"token":"', "before the token")
INTENTS = constant("payload_intents", b'","intents":', "before the intents")
TOKEN_END = constant("payload_token_end", b'"', "after the token of a service without intents")
PROPERTIES = constant(
    "payload_properties",
    b',"properties":{"os":"shardfw","browser":"shardfw","device":"shardfw"}',
    "after the intents",
)
PAIR = constant("payload_pair", b',"shard":[', "before the shard's number")
PAIR_END = constant("payload_pair_end", b"]", "after the shard pair")
IDENTIFY_END = constant("gateway_identify_end", b"}}", "after the fields of Identify")
RESUME = constant("gateway_resume_text", b'{"op":6,"d":{"token":"', "before the token")
SESSION = constant("payload_session", b'","session_id":"', "before the session id")
SEQUENCE = constant("payload_sequence", b'","seq":', "before the sequence")
RESUME_END = constant("payload_resume_end", b"}}", "after the sequence")


def _put(a: Asm, text: Data) -> None:
    a.lea(RSI, text.address)
    a.mov(ECX, text.size)
    a.rep_movsb()


def _put_bytes(a: Asm, text: Mem8[int], length: Mem32[int]) -> None:
    a.lea(RSI, text)
    a.mov(ECX, length)
    a.rep_movsb()


def _put_number(a: Asm, value: Mem32[int]) -> None:
    a.mov(EAX, value)
    a.call(put_decimal)


@routine(
    inputs=[
        In(RBX, ShardContext, "the shard; `outbound` holds the payload"),
        In(ECX, int, "its bytes; at most OUTBOUND_PAYLOAD_MAX"),
        In(EDX, int, "its opcode"),
    ],
    outputs=[Out(CF, "1 = no room now; nothing was sent")],
    clobbers=CALLER_SAVED,
    reads=[GatewayContext.outbound, LogState.level],
    writes=[FRAME_OUT],
    calls=[log_write, ws_begin, ws_finish],
    saves=[R12, R13],
    source="firmware/docs/gateway.md#payloads",
)
def gateway_send(a: Asm, shard: ShardContext, length: Reg32, opcode: Reg32) -> None:
    """Send the outbound payload as one text frame."""
    full = a.label("full")
    a.mov(R12D, length)
    a.mov(R13D, opcode)
    a.call(ws_begin)
    a.j(C, full)
    a.lea(RSI, shard.gateway.outbound.address)
    a.mov(ECX, R12D)
    a.rep_movsb()
    a.mov(ECX, R12D)
    a.mov(EAX, TEXT_FRAME)
    a.call(ws_finish)
    with at_level(a, Level.TRACE):
        a.mov(EDX, R13D)
        a.mov(ECX, R12D)
        log(a, GATEWAY_SEND, RBX)
    a.clc()
    a.place(full)
    a.ret()


def _send_written(a: Asm, shard: ShardContext, op: Op) -> None:
    """Send what lies before RDI in `outbound`."""
    a.lea(RAX, shard.gateway.outbound.address)
    a.sub(RDI, RAX)
    a.mov(ECX, EDI)
    a.mov(EDX, op)
    a.call(gateway_send)


@routine(
    inputs=[In(RBX, ShardContext, "the shard, after Hello")],
    outputs=[Out(CF, "1 = no room now")],
    clobbers=CALLER_SAVED,
    reads=[
        ShardContext.flags,
        GatewayContext.seq_acked,
        GatewayContext.flags,
        CoreState.now,
    ],
    writes=[
        GatewayContext.outbound,
        GatewayContext.flags,
        GatewayContext.hb_sent_at,
        GatewayContext.beats,
    ],
    calls=[put_decimal, gateway_send],
    source="firmware/docs/gateway.md#heartbeats",
)
def gateway_heartbeat(a: Asm, shard: ShardContext) -> None:
    """Send op 1 with the sequence handed on, or null; one that is pending keeps its time."""
    gateway = shard.gateway
    full = a.label("full")
    a.lea(RDI, gateway.outbound.address)
    _put(a, BEAT)
    a.test(shard.flags, ShardFlag.SEQ_VALID)
    with a.if_(NZ):
        _put_number(a, gateway.seq_acked)
    with a.else_():
        _put(a, NULL)
    a.mov(gateway_byte(), ord("}"))
    a.inc(RDI)
    _send_written(a, shard, Op.HEARTBEAT)
    a.j(C, full)
    a.inc(gateway.beats)
    a.and_(gateway.flags, ~GatewayFlag.BEAT_OWED & 0xFFFF_FFFF)
    a.test(gateway.flags, GatewayFlag.ACK_PENDING)
    with a.if_(Z):
        a.or_(gateway.flags, GatewayFlag.ACK_PENDING)
        a.mov(RAX, core.now)
        a.mov(gateway.hb_sent_at, RAX)
    a.clc()
    a.place(full)
    a.ret()


def gateway_byte() -> Mem8[int]:
    """Return the byte at RDI, inside `outbound`."""
    return GatewayContext.at(RDI, -GatewayContext.outbound.offset).outbound.m8()


@routine(
    inputs=[In(RBX, ShardContext, "the shard")],
    outputs=[Out(CF, "1 = no room now")],
    clobbers=CALLER_SAVED,
    reads=[
        ShardContext.shard_id,
        ShardContext.shard_total,
        ShardContext.profile,
        ProfileTable.has_intents,
        BotToken.length,
        ConfigBlob.intents,
        ConfigBlob.identify_shards,
        ConfigBlob.identify_fields_len,
    ],
    writes=[GatewayContext.outbound],
    calls=[put_decimal, gateway_send],
    source="firmware/docs/gateway.md#identify",
)
def gateway_identify(a: Asm, shard: ShardContext) -> None:
    """Send op 2: token, intents where they exist, properties, shard pair, what was configured."""
    config = CONFIG.it
    a.lea(RDI, shard.gateway.outbound.address)
    _put(a, IDENTIFY)
    _put_bytes(a, TOKEN.it.text.address, TOKEN.it.length)
    table = profile_table(a, shard, RAX, RCX)
    a.cmp(table.has_intents, 0)
    with a.if_(NE):
        _put(a, INTENTS)
        _put_number(a, config.intents)
    with a.else_():
        _put(a, TOKEN_END)
    _put(a, PROPERTIES)
    a.cmp(config.identify_shards, 0)
    with a.if_(NE):
        _put(a, PAIR)
        _put_number(a, shard.shard_id)
        a.mov(gateway_byte(), ord(","))
        a.inc(RDI)
        _put_number(a, shard.shard_total)
        _put(a, PAIR_END)
    _put_bytes(a, config.identify_fields.address, config.identify_fields_len)
    _put(a, IDENTIFY_END)
    _send_written(a, shard, Op.IDENTIFY)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "the shard; its session can be resumed")],
    outputs=[Out(CF, "1 = no room now")],
    clobbers=CALLER_SAVED,
    reads=[
        ShardContext.session_ptr,
        Session.session_id_len,
        GatewayContext.seq_acked,
        BotToken.length,
    ],
    calls=[put_decimal, gateway_send],
    saves=[R12],
    source="firmware/docs/gateway.md#resume",
)
def gateway_resume(a: Asm, shard: ShardContext) -> None:
    """Send op 6: token, session id, last sequence handed on."""
    session = Session.at(R12)
    a.mov(R12, shard.session_ptr)
    a.lea(RDI, shard.gateway.outbound.address)
    _put(a, RESUME)
    _put_bytes(a, TOKEN.it.text.address, TOKEN.it.length)
    _put(a, SESSION)
    _put_bytes(a, session.session_id.address, session.session_id_len)
    _put(a, SEQUENCE)
    _put_number(a, shard.gateway.seq_acked)
    _put(a, RESUME_END)
    _send_written(a, shard, Op.RESUME)
    a.ret()
