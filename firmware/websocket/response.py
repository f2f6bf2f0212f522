"""The upgrade response: read when its head has arrived whole (RFC 6455 4.1)."""

from firmware.abi import CALLER_SAVED
from firmware.layouts.shard import End, FailureFlag, ShardContext
from firmware.layouts.websocket import (
    FIELD_MISSING,
    HEADER_LINE,
    RESPONSE,
    RESPONSE_MAX,
    RESPONSE_TOO_LONG,
    STATUS_LINE,
    UPGRADE_REFUSED,
    ResponseHeader,
    WebSocketContext,
    WsState,
)
from firmware.websocket.fail import fail_with, ws_fail
from firmware.websocket.fields import CLASSES, CRLF, SP, VALUE_CHAR, http_line, ws_take_field
from toolchain.asm import (
    AX,
    DL,
    EAX,
    ECX,
    EDX,
    R8,
    R8D,
    R9D,
    R12,
    R13,
    R14,
    RAX,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    A,
    Asm,
    B,
    C,
    E,
    G,
    In,
    Label,
    Out,
    Reg32,
    Reg64,
    Z,
    mem8,
    mem16,
    mem32,
    mem64,
    routine,
)

CRLF_TWICE = int.from_bytes(b"\r\n\r\n", "little")
HTTP_1_1 = int.from_bytes(b"HTTP/1.1", "little")
CR = ord("\r")
SWITCHING = 101
STATUS_BYTES = len(b"HTTP/1.1 101")


@routine(
    inputs=[
        In(RBX, ShardContext, "a shard in HANDSHAKE"),
        In(RSI, int, "what arrived"),
        In(ECX, int, "how much"),
    ],
    outputs=[Out(ECX, "bytes of the head; 0 = not whole yet, or failed")],
    clobbers=CALLER_SAVED,
    reads=[RESPONSE, CLASSES, WebSocketContext.scanned, WebSocketContext.seen],
    writes=[
        WebSocketContext.scanned,
        WebSocketContext.http_status,
        WebSocketContext.state,
    ],
    calls=[http_line, ws_take_field, ws_fail],
    saves=[R12, R13, R14],
    source="RFC 6455 4.1; RFC 9112 4",
)
def ws_response(a: Asm, shard: ShardContext, head: Reg64, length: Reg32) -> None:
    """Accept the upgrade or fail; what follows the head belongs to the first frame."""
    ws = shard.websocket
    last, line = R13, R14
    whole, fail, none, accepted, status_line = map(
        a.label, ("whole", "fail", "none", "accepted", "status_line")
    )
    # Search for the empty line, from where the last search ended.
    a.mov(R12, head)
    a.mov(EAX, ws.scanned)
    a.mov(EDX, RESPONSE_MAX)
    a.cmp(length, EDX)
    a.cmov(B, EDX, length)
    a.sub(EDX, 4)
    with a.loop() as search:
        a.cmp(EAX, EDX)
        a.leave(G, search)
        a.cmp(mem32(head, index=RAX, ref=RESPONSE), CRLF_TWICE)
        a.je(whole)
        a.inc(EAX)
        a.jmp(search.top)
    a.mov(ws.scanned, EAX)
    a.mov(R9D, RESPONSE_TOO_LONG.code)
    a.cmp(length, RESPONSE_MAX)
    a.jae(fail)
    a.place(none)
    a.xor(ECX, ECX)
    a.ret()

    a.place(whole)
    a.lea(last, mem8(head, 2, index=RAX, ref=RESPONSE))  # the empty line
    _status(a, shard, last, status_line, fail)
    with a.loop() as lines:
        a.cmp(RSI, last)
        a.je(accepted)
        a.mov(line, RSI)
        a.call(http_line)
        a.mov(R9D, HEADER_LINE.code)
        a.j(C, fail)
        a.mov(RDI, line)
        a.mov(line, RSI)
        a.call(ws_take_field)
        a.test(R9D, R9D)
        a.jnz(fail)
        a.mov(RSI, line)
        a.jmp(lines.top)

    a.place(accepted)
    a.mov(R9D, ws.seen)
    a.cmp(R9D, sum(ResponseHeader))
    with a.if_(E):
        a.mov(ws.state, WsState.OPEN)
        a.lea(RCX, mem8(last, 2, ref=RESPONSE))
        a.sub(RCX, R12)
        a.ret()
    a.or_(R9D, FIELD_MISSING.code)
    a.jmp(fail)

    # A handshake that is refused or wrong is dropped without a word; there is no frame to send.
    a.place(status_line)
    a.mov(R9D, STATUS_LINE.code)
    a.place(fail)
    fail_with(a, HEADER_LINE)
    a.jmp(none)


def _status(a: Asm, shard: ShardContext, last: Reg64, bad: Label, fail: Label) -> None:
    """Judge the status line at RSI; RSI := the line after it."""
    digit = EDX
    a.lea(RAX, mem8(RSI, STATUS_BYTES, ref=RESPONSE))
    a.cmp(RAX, last)
    a.jae(bad)
    a.mov(RAX, HTTP_1_1)
    a.cmp(RAX, mem64(RSI, ref=RESPONSE))
    a.jne(bad)
    a.cmp(mem8(RSI, 8, ref=RESPONSE), SP)
    a.jne(bad)
    a.xor(EAX, EAX)
    for n in range(9, STATUS_BYTES):  # unrolled: three digits
        a.movzx(digit, mem8(RSI, n, ref=RESPONSE))
        a.sub(digit, ord("0"))
        a.cmp(digit, 9)
        a.j(A, bad)
        a.imul(EAX, EAX, 10)
        a.add(EAX, digit)
    a.add(RSI, STATUS_BYTES)
    a.mov(DL, mem8(RSI, ref=RESPONSE))
    a.cmp(DL, SP)
    with a.block() as ended:
        a.leave(E, ended)
        a.cmp(DL, CR)
        a.jne(bad)
    # The reason means nothing, but the line has to end like one.
    a.lea(R8, CLASSES.address)
    with a.loop() as reason:
        a.movzx(EDX, mem8(RSI, ref=RESPONSE))
        a.test(mem8(R8, index=RDX, ref=CLASSES), VALUE_CHAR)
        a.leave(Z, reason)
        a.inc(RSI)
        a.jmp(reason.top)
    a.cmp(mem16(RSI, ref=RESPONSE), CRLF)
    a.jne(bad)
    a.add(RSI, 2)
    a.cmp(EAX, SWITCHING)
    with a.block() as switching:
        a.leave(E, switching)
        a.mov(shard.websocket.http_status, AX)
        a.lea(R9D, mem32(RAX, UPGRADE_REFUSED.code, ref=RESPONSE))
        a.mov(EDX, End.NETWORK)
        # 4xx: asking again at once can only make it worse (case E32).
        a.sub(EAX, 400)
        a.cmp(EAX, 100)
        a.sbb(ECX, ECX)
        a.and_(ECX, FailureFlag.WAIT)
        a.xor(R8D, R8D)
        a.call(ws_fail)
        a.xor(ECX, ECX)
        a.ret()
