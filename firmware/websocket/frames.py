"""Incoming frames: payload is handed out where it lies in the ring, control frames are answered."""

from firmware.abi import CALLER_SAVED
from firmware.layouts.shard import ShardContext
from firmware.layouts.websocket import (
    CONTROL_BIT,
    END_OF_STREAM,
    FIN_BIT,
    FRAME_IN,
    FRAME_OUT,
    TEXT_UTF8,
    Opcode,
    WebSocketContext,
    WsFlag,
    WsState,
)
from firmware.tls.stream import tls_ended
from firmware.tls.transport import tls_consume, tls_more, tls_readable
from firmware.websocket.close import ws_peer_close
from firmware.websocket.fail import Violations, ws_fail
from firmware.websocket.header import ws_header, ws_open_frame
from firmware.websocket.response import ws_response
from firmware.websocket.send import ws_begin, ws_finish
from firmware.websocket.utf8 import UTF8_ACCEPT, UTF8_REJECT, utf8_check
from toolchain.asm import (
    CF,
    DL,
    EAX,
    ECX,
    EDI,
    EDX,
    ESI,
    NC,
    NE,
    NZ,
    R12,
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
    Out,
    Reg32,
    Reg64,
    Z,
    mem8,
    routine,
)

FIRST_PART, LAST_PART = 1, 2
"""Bits of EDX beside a chunk."""
PONG_FRAME = FIN_BIT | Opcode.PONG


@routine(
    inputs=[
        In(RBX, ShardContext, "the shard"),
        In(RSI, int, "payload of a ping"),
        In(ECX, int, "its bytes, 0..125"),
    ],
    outputs=[Out(CF, "1 = no room now")],
    clobbers=CALLER_SAVED,
    reads=[WebSocketContext.state, FRAME_IN],
    writes=[WebSocketContext.pings, FRAME_OUT],
    calls=[ws_begin, ws_finish],
    saves=[R12, R13],
    source="RFC 6455 5.5.2",
)
def ws_pong(a: Asm, shard: ShardContext, payload: Reg64, length: Reg32) -> None:
    """Answer a ping with its own payload; after our close frame nothing may follow."""
    done, full = a.label("done"), a.label("full")
    a.cmp(shard.websocket.state, WsState.OPEN)
    a.jne(done)
    a.mov(R12, payload)
    a.mov(R13D, length)
    a.call(ws_begin)
    a.j(C, full)
    a.mov(RSI, R12)
    a.mov(ECX, R13D)
    a.rep_movsb()
    a.mov(ECX, R13D)
    a.mov(EAX, PONG_FRAME)
    a.call(ws_finish)
    a.inc(shard.websocket.pings)
    a.place(done)
    a.clc()
    a.place(full)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "the shard")],
    outputs=[
        Out(CF, "1 = nothing more now"),
        Out(RSI, "bytes of a message, where they lie in the ring until the next call"),
        Out(ECX, "how many; 0 only in the last part of a message"),
        Out(EDX, "bit 0: first of the message, bit 1: last"),
    ],
    clobbers=CALLER_SAVED,
    reads=[
        WebSocketContext.state,
        WebSocketContext.error,
        WebSocketContext.flags,
        WebSocketContext.frame_left,
        WebSocketContext.pending,
        WebSocketContext.utf8,
    ],
    writes=[
        WebSocketContext.state,
        WebSocketContext.pending,
        WebSocketContext.frame_left,
        WebSocketContext.message_bytes,
        WebSocketContext.utf8,
        WebSocketContext.flags,
        WebSocketContext.pongs,
    ],
    calls=[
        tls_readable,
        tls_more,
        tls_ended,
        tls_consume,
        ws_response,
        ws_header,
        ws_open_frame,
        ws_peer_close,
        ws_pong,
        utf8_check,
        ws_fail,
    ],
    saves=[R12, R13, R14],
    source="RFC 6455 5.4 to 6.2",
)
def ws_next(a: Asm, shard: ShardContext) -> None:
    """Give the next part of a message; everything else that arrives is dealt with on the way."""
    ws, bad = shard.websocket, Violations(a)
    again, payload, deliver, control, starved, drain, none = map(
        a.label, ("again", "payload", "deliver", "control", "starved", "drain", "none")
    )
    a.mov(ECX, ws.pending)
    a.test(ECX, ECX)
    with a.if_(NZ):
        a.mov(ws.pending, 0)
        a.call(tls_consume)

    a.place(again)
    a.call(tls_readable)
    a.cmp(ws.error, 0)
    a.jne(drain)
    a.mov(EAX, ws.state)
    a.cmp(EAX, WsState.HANDSHAKE)
    a.jb(none)
    with a.if_(E):
        a.call(ws_response)
        a.cmp(ws.state, WsState.FAILED)
        a.j(E, none)
        a.test(ECX, ECX)
        a.jz(starved)
        a.call(tls_consume)
        a.jmp(again)
    a.cmp(EAX, WsState.CLOSING)
    a.j(A, drain)
    a.mov(RAX, ws.frame_left)
    a.test(RAX, RAX)
    a.jnz(payload)

    a.mov(R12, RSI)
    a.mov(R13D, ECX)
    a.call(ws_header)
    a.j(C, none)
    a.test(EAX, EAX)
    a.jz(starved)
    a.test(DL, CONTROL_BIT)
    a.jnz(control)
    a.mov(ECX, EAX)
    a.call(ws_open_frame)
    a.call(tls_consume)
    # A frame with payload goes on at once; only a last frame without any is told as such.
    a.cmp(ws.frame_left, 0)
    a.jne(again)
    a.test(ws.flags, WsFlag.FIN)
    a.jz(again)
    a.call(tls_readable)
    a.xor(ECX, ECX)
    a.jmp(deliver)

    a.place(payload)
    a.test(ECX, ECX)
    a.jz(starved)
    a.cmp(RAX, RCX)
    a.cmov(B, ECX, EAX)
    a.place(deliver)
    _deliver(a, shard, bad)

    a.place(control)
    a.lea(R14D, mem8(RAX, index=RDI, ref=FRAME_IN))
    a.cmp(R14D, R13D)
    a.j(A, starved)
    a.lea(RSI, mem8(R12, index=RAX, ref=FRAME_IN))
    a.mov(ECX, EDI)
    a.and_(EDX, 0x0F)
    a.cmp(EDX, Opcode.PING)
    with a.if_(B):
        a.call(ws_peer_close)
        a.j(C, none)
    with a.else_():
        with a.if_(E):
            a.call(ws_pong)
            a.j(C, none)
        with a.else_():
            a.inc(ws.pongs)
    a.mov(ECX, R14D)
    a.call(tls_consume)
    a.jmp(again)

    # Nothing can be made of what is there. The end of the stream is fine after our close frame.
    a.place(starved)
    a.call(tls_more)
    a.j(NC, again)
    a.call(tls_ended)
    a.j(C, none)
    a.cmp(ws.state, WsState.CLOSING)
    a.jne(bad[END_OF_STREAM])
    a.mov(ws.state, WsState.CLOSED)
    a.jmp(none)

    # After a violation or the close handshake the rest of the stream means nothing.
    a.place(drain)
    a.call(tls_consume)
    a.call(tls_more)
    a.j(NC, again)
    a.call(tls_ended)
    a.j(C, none)
    a.cmp(ws.state, WsState.CLOSING)
    a.jne(none)
    a.mov(ws.state, WsState.CLOSED)
    a.place(none)
    a.xor(ECX, ECX)
    a.xor(EDX, EDX)
    a.xor(ESI, ESI)
    a.stc()
    a.ret()
    bad.emit(none)


def _deliver(a: Asm, shard: ShardContext, bad: Violations) -> None:
    """Return ECX bytes at RSI as a part of the message, after the text check."""
    ws = shard.websocket
    a.mov(R12, RSI)
    a.mov(R13D, ECX)
    a.test(ws.flags, WsFlag.TEXT)
    with a.if_(NZ):
        a.mov(EAX, ws.utf8)
        a.call(utf8_check)
        a.mov(ws.utf8, EAX)
        a.cmp(EAX, UTF8_REJECT)
        a.j(E, bad[TEXT_UTF8])
    a.sub(ws.frame_left, R13)
    a.mov(ws.pending, R13D)
    a.mov(EAX, ws.flags)
    a.mov(EDX, EAX)
    a.shr(EDX, WsFlag.FIRST.bit_length() - 1)
    a.and_(EDX, FIRST_PART)
    a.and_(EAX, ~WsFlag.FIRST & 0xFFFF_FFFF)
    with a.block() as more:
        a.cmp(ws.frame_left, 0)
        a.leave(NE, more)
        a.test(EAX, WsFlag.FIN)
        a.leave(Z, more)
        with a.block() as whole:
            a.test(EAX, WsFlag.TEXT)
            a.leave(Z, whole)
            a.cmp(ws.utf8, UTF8_ACCEPT)
            a.jne(bad[TEXT_UTF8])
        a.or_(EDX, LAST_PART)
        a.and_(EAX, WsFlag.BINARY_ALLOWED | WsFlag.TEXT)
        a.mov(ws.message_bytes, 0)
    a.mov(ws.flags, EAX)
    a.mov(RSI, R12)
    a.mov(ECX, R13D)
    a.clc()
    a.ret()
