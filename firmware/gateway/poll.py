"""What came: parts of messages into the parser, whole messages to their opcode, close codes."""

from firmware.abi import CALLER_SAVED
from firmware.events.stall import publish_ready
from firmware.failure import shard_fail
from firmware.gateway.fail import gateway_violate
from firmware.gateway.heard import finish_message, gateway_heard
from firmware.gateway.ops import gateway_message
from firmware.json.feed import json_feed, json_reset
from firmware.layouts.closes import (
    CLOSE_RULES,
    FIRST_CODE,
    RULES_PER_PROFILE,
    TRY_AGAIN_LATER,
    Action,
)
from firmware.layouts.events import EVENTS, Events
from firmware.layouts.gateway import GatewayContext, GatewayState
from firmware.layouts.json import JsonParser
from firmware.layouts.log import GATEWAY_CLOSED
from firmware.layouts.node import CoreState, core
from firmware.layouts.outbox import OUTBOX, Outbox
from firmware.layouts.shard import End, ShardContext
from firmware.layouts.websocket import PEER_CLOSED, WebSocketContext, WsState
from firmware.log import log, log_write
from firmware.websocket.frames import FIRST_PART, LAST_PART, ws_next
from toolchain.asm import (
    EAX,
    ECX,
    EDX,
    NE,
    NZ,
    R8D,
    R9D,
    R12,
    R12D,
    R13,
    R13D,
    R14,
    R14D,
    RAX,
    RBX,
    RCX,
    RDI,
    RSI,
    A,
    Asm,
    B,
    C,
    E,
    In,
    Reg32,
    Reg64,
    Z,
    mem8,
    routine,
)


@routine(
    inputs=[In(RBX, ShardContext, "a shard whose server closed")],
    clobbers=CALLER_SAVED,
    reads=[
        ShardContext.peer_close,
        ShardContext.profile,
        ShardContext.sequence,
        CLOSE_RULES,
    ],
    calls=[shard_fail, log_write],
    saves=[R12, R13],
    source="firmware/docs/gateway.md#close-codes",
)
def gateway_closed(a: Asm, shard: ShardContext) -> None:
    """Turn the server's close code into what the next attempt has to do, by the profile's table."""
    code, flags = R12D, R13D
    a.movzx(code, shard.peer_close)
    a.xor(flags, flags)
    a.lea(EAX, mem8(R12, -FIRST_CODE, ref=CLOSE_RULES))
    a.cmp(EAX, RULES_PER_PROFILE)
    with a.if_(B):
        a.movzx(ECX, shard.profile)
        a.shl(ECX, RULES_PER_PROFILE.bit_length() - 1)
        a.add(EAX, ECX)
        a.lea(RCX, CLOSE_RULES.address)
        a.movzx(flags, mem8(RCX, index=RAX, scale=2, ref=CLOSE_RULES))
    a.cmp(code, TRY_AGAIN_LATER)
    with a.if_(E):
        a.mov(flags, Action.WAIT)
    a.mov(EDX, code)
    a.mov(ECX, flags)
    log(a, GATEWAY_CLOSED, RBX)
    a.mov(EDX, End.CLOSED)
    a.mov(ECX, flags)
    a.xor(R8D, R8D)
    a.mov(R9D, code)
    a.or_(R9D, PEER_CLOSED.code)
    a.jmp(shard_fail)


@routine(
    inputs=[
        In(RBX, ShardContext, "the shard"),
        In(RSI, int, "a part of a message"),
        In(ECX, int, "its bytes"),
        In(EDX, int, "bit 0: first of the message, bit 1: last"),
    ],
    clobbers=CALLER_SAVED,
    reads=[
        ShardContext.failure,
        CoreState.now,
        JsonParser.state,
        Events.listeners,
        Outbox.base,
    ],
    writes=[
        ShardContext.bytes_received,
        GatewayContext.last_frame_at,
        GatewayContext.message_bytes,
    ],
    calls=[json_reset, json_feed, gateway_message, gateway_violate, gateway_heard],
    saves=[R12, R13, R14],
    source="firmware/docs/gateway.md#messages",
)
def gateway_chunk(a: Asm, shard: ShardContext, part: Reg64, length: Reg32, place: Reg32) -> None:
    """Feed the parser; act on a message when its last part was read."""
    gateway, heard = shard.gateway, a.label("heard")
    a.cmp(shard.failure, End.NONE)
    with a.if_(NE):
        a.ret()
    a.mov(R12, part)
    a.mov(R13D, length)
    a.mov(R14D, place)
    a.mov(RAX, core.now)
    a.mov(gateway.last_frame_at, RAX)
    a.add(shard.bytes_received, R13)
    a.test(place, FIRST_PART)
    with a.if_(NZ):
        a.mov(gateway.message_bytes, 0)
        a.lea(RDI, gateway.parser.state)
        a.call(json_reset)
    a.add(gateway.message_bytes, R13D)
    a.lea(RDI, gateway.parser.state)
    a.call(json_feed)
    a.mov(R9D, EAX)
    a.test(EAX, EAX)
    with a.if_(NZ):
        a.jmp(gateway_violate)
    a.cmp(EVENTS.it.listeners, 0)
    a.jne(heard)
    a.cmp(OUTBOX.it.base, 0)
    with a.if_(NE):
        a.place(heard)
        a.mov(RSI, R12)
        a.mov(ECX, R13D)
        a.mov(EDX, R14D)
        a.jmp(gateway_heard)
    a.test(R14D, LAST_PART)
    with a.if_(Z):
        a.ret()
    finish_message(a, shard)


@routine(
    inputs=[In(RBX, ShardContext, "the shard")],
    clobbers=CALLER_SAVED,
    reads=[
        ShardContext.failure,
        GatewayContext.state,
        WebSocketContext.state,
        Outbox.base,
    ],
    calls=[publish_ready, ws_next, gateway_chunk, gateway_closed],
    source="firmware/docs/gateway.md#messages",
)
def gateway_poll(a: Asm, shard: ShardContext) -> None:
    """Take everything that lies in the ring and has room to go to, then the server's close."""
    with a.loop() as parts:
        with a.block() as roomy:
            a.cmp(OUTBOX.it.base, 0)
            a.leave(E, roomy)
            # Before the shard asks for a session nothing that comes is a dispatch, and no timer
            # would look for room again.
            a.mov(EAX, shard.gateway.state)
            a.sub(EAX, GatewayState.WAIT_READY)
            a.cmp(EAX, GatewayState.READY - GatewayState.WAIT_READY)
            a.leave(A, roomy)
            a.call(publish_ready)
            a.leave(C, parts)
        a.call(ws_next)
        a.leave(C, parts)
        a.call(gateway_chunk)
        a.jmp(parts.top)
    a.cmp(shard.websocket.state, WsState.CLOSED)
    with a.if_(E):
        a.cmp(shard.failure, End.NONE)
        with a.if_(E):
            a.jmp(gateway_closed)
    a.ret()
