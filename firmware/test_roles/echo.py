"""A client that sends every message back, so that suites for WebSocket clients can judge the layer.

Test builds only. One message at a time lies in a buffer of the node; while it goes out, nothing more
is read, so the ring and the peer's window hold the rest.
"""

from firmware.abi import CALLER_SAVED
from firmware.layouts.echo import (
    BUFFER,
    ECHO,
    ECHO_BUFFER,
    ECHO_FRAGMENT_MAX,
    ECHO_MESSAGE_MAX,
    Echo,
    EchoState,
)
from firmware.layouts.shard import End, ShardContext
from firmware.layouts.websocket import (
    FIN_BIT,
    FRAME_IN,
    FRAME_OUT,
    MESSAGE_TOO_LONG,
    CloseCode,
    Opcode,
    WebSocketContext,
    WsFlag,
)
from firmware.websocket.close import ws_close
from firmware.websocket.fail import ws_fail
from firmware.websocket.frames import FIRST_PART, LAST_PART, ws_next
from firmware.websocket.request import ws_write_request
from firmware.websocket.send import ws_begin, ws_finish
from toolchain.asm import (
    CF,
    EAX,
    ECX,
    EDX,
    NC,
    NE,
    NZ,
    R8,
    R8D,
    R9D,
    R12,
    R12D,
    R13,
    R13D,
    RAX,
    RBX,
    RCX,
    RDI,
    RSI,
    A,
    Asm,
    C,
    E,
    In,
    Out,
    Reg32,
    Reg64,
    routine,
)


@routine(
    inputs=[In(RBX, ShardContext, "the shard that runs the role; wiped")],
    clobbers=CALLER_SAVED,
    reads=[Echo.host_len, Echo.path_len, Echo.port],
    writes=[
        Echo.state,
        Echo.length,
        Echo.sent,
        Echo.opcode,
        Echo.messages,
        WebSocketContext.flags,
    ],
    calls=[ws_write_request],
    source="firmware/docs/test-roles.md#echo",
)
def echo_begin(a: Asm, shard: ShardContext) -> None:
    """Start a connection: an empty buffer, and a request for the target."""
    echo = ECHO.it
    for field in (echo.length, echo.sent, echo.opcode, echo.messages):  # unrolled: four fields
        a.mov(field, 0)
    a.mov(echo.state, EchoState.READING)
    a.mov(shard.websocket.flags, WsFlag.BINARY_ALLOWED)
    a.lea(RSI, echo.host.address)
    a.mov(ECX, echo.host_len)
    a.movzx(EDX, echo.port)
    a.lea(R8, echo.path.address)
    a.mov(R9D, echo.path_len)
    a.jmp(ws_write_request)


@routine(
    inputs=[In(RBX, ShardContext, "the shard; the role is SENDING")],
    outputs=[Out(CF, "1 = more to send, no room now")],
    clobbers=CALLER_SAVED,
    reads=[Echo.length, Echo.sent, Echo.opcode, BUFFER],
    writes=[Echo.length, Echo.sent, Echo.opcode, Echo.state, Echo.messages, FRAME_OUT],
    calls=[ws_begin, ws_finish],
    saves=[R12, R13],
    source="firmware/docs/test-roles.md#echo",
)
def echo_send(a: Asm, shard: ShardContext) -> None:
    """Send the message on, fragment by fragment, as long as there is room."""
    echo = ECHO.it
    size, full = R12D, a.label("full")
    with a.loop() as fragments:
        a.mov(size, echo.length)
        a.sub(size, echo.sent)
        a.mov(R13D, ECHO_FRAGMENT_MAX)
        a.cmp(size, R13D)
        a.cmov(A, size, R13D)
        a.mov(ECX, size)
        a.call(ws_begin)
        a.j(C, full)
        a.lea(RSI, ECHO_BUFFER.address)
        a.mov(ECX, echo.sent)
        a.add(RSI, RCX)
        a.mov(ECX, size)
        a.rep_movsb()
        a.mov(EAX, echo.opcode)
        a.mov(echo.opcode, Opcode.CONTINUATION)
        a.add(echo.sent, size)
        a.mov(R13D, echo.sent)
        a.cmp(R13D, echo.length)
        with a.if_(E):
            a.or_(EAX, FIN_BIT)
        a.mov(ECX, size)
        a.call(ws_finish)
        a.cmp(R13D, echo.length)
        a.again(NE, fragments)
    a.inc(echo.messages)
    a.mov(echo.length, 0)
    a.mov(echo.sent, 0)
    a.mov(echo.state, EchoState.READING)
    a.clc()
    a.place(full)
    a.ret()


@routine(
    inputs=[
        In(RBX, ShardContext, "the shard"),
        In(RSI, int, "a part of a message"),
        In(ECX, int, "its bytes"),
        In(EDX, int, "bit 0: first of the message, bit 1: last"),
    ],
    clobbers=CALLER_SAVED,
    reads=[Echo.length, WebSocketContext.flags, FRAME_IN],
    writes=[Echo.length, Echo.opcode, Echo.state, BUFFER],
    calls=[ws_fail],
    source="firmware/docs/test-roles.md#echo",
)
def echo_take(a: Asm, shard: ShardContext, part: Reg64, length: Reg32, place: Reg32) -> None:
    """Append a part to the message; one that does not fit in the buffer ends the connection."""
    echo = ECHO.it
    a.test(place, FIRST_PART)
    with a.if_(NZ):
        a.mov(EAX, Opcode.BINARY)
        a.test(shard.websocket.flags, WsFlag.TEXT)
        with a.if_(NZ):
            a.mov(EAX, Opcode.TEXT)
        a.mov(echo.opcode, EAX)
    a.mov(EAX, echo.length)
    a.mov(R8D, EAX)
    a.add(R8D, length)
    a.cmp(R8D, ECHO_MESSAGE_MAX)
    with a.if_(A):
        a.mov(EDX, End.PROTOCOL)
        a.xor(ECX, ECX)
        a.mov(R8D, CloseCode.TOO_BIG)
        a.mov(R9D, MESSAGE_TOO_LONG.code)
        a.jmp(ws_fail)
    a.mov(echo.length, R8D)
    a.lea(RDI, ECHO_BUFFER.address)
    a.add(RDI, RAX)
    a.rep_movsb()
    a.test(place, LAST_PART)
    with a.if_(NZ):
        a.mov(echo.state, EchoState.SENDING)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "the shard that runs the role")],
    clobbers=CALLER_SAVED,
    reads=[Echo.state, WebSocketContext.error, ShardContext.failure_close],
    calls=[ws_next, ws_close, echo_take, echo_send],
    source="firmware/docs/test-roles.md#echo",
)
def echo_poll(a: Asm, shard: ShardContext) -> None:
    """Read and send back what can be; say the close code of a violation."""
    read, failed = a.label("read"), a.label("failed")
    a.place(read)
    a.cmp(ECHO.it.state, EchoState.SENDING)
    with a.if_(E):
        a.call(echo_send)
        with a.if_(C):
            a.ret()
    a.call(ws_next)
    with a.if_(NC):
        a.call(echo_take)
        a.jmp(read)
    a.cmp(shard.websocket.error, 0)
    a.jne(failed)
    a.ret()
    a.place(failed)
    a.movzx(EDX, shard.failure_close)
    a.jmp(ws_close)
