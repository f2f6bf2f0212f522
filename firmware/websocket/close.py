"""The end of the conversation: our close frame, the peer's, and which codes may be sent."""

from firmware.abi import CALLER_SAVED
from firmware.layouts.shard import ShardContext
from firmware.layouts.websocket import (
    CLOSE_CODE,
    CLOSE_LENGTH,
    CLOSE_UTF8,
    FIN_BIT,
    FRAME_IN,
    FRAME_OUT,
    Opcode,
    WebSocketContext,
    WsState,
)
from firmware.websocket.fail import Violations, ws_fail
from firmware.websocket.send import ws_begin, ws_finish
from firmware.websocket.utf8 import UTF8_ACCEPT, utf8_check
from toolchain.asm import (
    AX,
    BE,
    CF,
    EAX,
    ECX,
    EDX,
    NE,
    R9D,
    R12,
    R12D,
    R13,
    R13D,
    RBX,
    RDI,
    RSI,
    Asm,
    B,
    C,
    In,
    Label,
    Out,
    Reg32,
    Reg64,
    mem16,
    routine,
)

CLOSE_FRAME = FIN_BIT | Opcode.CLOSE
# RFC 6455 7.4.2 and the IANA registry: what may stand in a frame. 1004-1006 and 1015 never may.
SENDABLE = ((1000, 1003), (1007, 1014), (3000, 4999))


def _send(a: Asm, shard: ShardContext, code: Reg32, full: Label) -> None:
    """Send a close frame with the code in a preserved register, without a body when it is 0."""
    a.xor(ECX, ECX)
    a.test(code, code)
    with a.if_(NE):
        a.mov(ECX, 2)
    a.call(ws_begin)
    a.j(C, full)
    a.xor(ECX, ECX)
    a.test(code, code)
    with a.if_(NE):
        a.mov(EAX, code)
        a.rol(AX, 8)
        a.mov(mem16(RDI, ref=FRAME_OUT), AX)
        a.mov(ECX, 2)
    a.mov(EAX, CLOSE_FRAME)
    a.call(ws_finish)


@routine(
    inputs=[In(RBX, ShardContext, "the shard"), In(EDX, int, "close code; 0 = none")],
    clobbers=CALLER_SAVED,
    reads=[WebSocketContext.state],
    writes=[WebSocketContext.state, FRAME_OUT],
    calls=[ws_begin, ws_finish],
    saves=[R12],
    source="RFC 6455 7.1.2",
)
def ws_close(a: Asm, shard: ShardContext, code: Reg32) -> None:
    """Begin the close handshake when the connection is open and there is room for the frame."""
    done = a.label("done")
    a.cmp(shard.websocket.state, WsState.OPEN)
    a.jne(done)
    a.mov(R12D, code)
    _send(a, shard, R12D, done)
    a.mov(shard.websocket.state, WsState.CLOSING)
    a.place(done)
    a.ret()


@routine(
    inputs=[
        In(RBX, ShardContext, "the shard, OPEN or CLOSING"),
        In(RSI, int, "body of the peer's close frame"),
        In(ECX, int, "its bytes, 0..125"),
    ],
    outputs=[Out(CF, "1 = the answer has no room now; ask again with the same frame")],
    clobbers=CALLER_SAVED,
    reads=[FRAME_IN, WebSocketContext.state],
    writes=[
        ShardContext.peer_close,
        WebSocketContext.state,
        WebSocketContext.close_reason_len,
        FRAME_OUT,
    ],
    calls=[utf8_check, ws_begin, ws_finish, ws_fail],
    saves=[R12, R13],
    source="RFC 6455 5.5.1 and 7.4",
)
def ws_peer_close(a: Asm, shard: ShardContext, body: Reg64, length: Reg32) -> None:
    """Take the peer's close frame: judge it, answer it with its own code, be CLOSED."""
    ws = shard.websocket
    bad = Violations(a)
    answer, answered, failed, full = map(a.label, ("answer", "answered", "failed", "full"))
    code, reason_length = R12D, R13D
    a.xor(code, code)
    a.xor(reason_length, reason_length)
    a.sub(length, 2)
    with a.if_(B):
        a.cmp(length, -2)
        a.je(answer)
        a.jmp(bad[CLOSE_LENGTH])
    a.mov(reason_length, length)
    a.movzx(EAX, mem16(body, ref=FRAME_IN))
    a.rol(AX, 8)
    a.mov(code, EAX)
    allowed = a.label("allowed")
    for first, last in SENDABLE:  # unrolled: three ranges
        a.lea(EDX, mem16(R12, -first, ref=FRAME_IN))
        a.cmp(EDX, last - first)
        a.j(BE, allowed)
    a.mov(R9D, code)
    a.jmp(bad[CLOSE_CODE])
    a.place(allowed)
    a.add(RSI, 2)
    a.mov(EAX, UTF8_ACCEPT)
    a.call(utf8_check)
    a.cmp(EAX, UTF8_ACCEPT)
    a.jne(bad[CLOSE_UTF8])

    # An answer to our own close needs none.
    a.place(answer)
    a.cmp(ws.state, WsState.OPEN)
    a.jne(answered)
    _send(a, shard, code, full)
    a.place(answered)
    a.mov(EAX, code)
    a.mov(shard.peer_close, AX)
    a.mov(ws.close_reason_len, reason_length)
    a.mov(ws.state, WsState.CLOSED)
    a.place(failed)
    a.clc()
    a.place(full)
    a.ret()
    bad.emit(failed, detailed=(CLOSE_CODE,))
