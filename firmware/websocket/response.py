"""The upgrade response: read when its head has arrived whole (RFC 6455 4.1)."""

from firmware.abi import CALLER_SAVED
from firmware.layouts.clock import SECOND_MS
from firmware.layouts.discovery import RETRY_AFTER_MAX_S
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
from firmware.websocket.fields import RETRY_AFTER, http_line, http_same, same_as, ws_take_field
from firmware.websocket.http import http_find_end, http_number, http_status
from toolchain.asm import (
    AX,
    EAX,
    ECX,
    EDX,
    NC,
    R8,
    R8D,
    R9D,
    R12,
    R13,
    R13D,
    R14,
    RAX,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    A,
    Asm,
    C,
    E,
    In,
    Out,
    Reg32,
    Reg64,
    mem8,
    mem32,
    routine,
)

SWITCHING, TOO_MANY_REQUESTS = 101, 429


@routine(
    inputs=[
        In(RBX, ShardContext, "a shard whose upgrade is refused"),
        In(RSI, int, "the first header line"),
        In(RDX, int, "the empty line that ends the head"),
    ],
    clobbers=CALLER_SAVED,
    writes=[ShardContext.required_wait_ms],
    calls=[http_line, http_same, http_number],
    saves=[R12, R13],
    source="RFC 9110 10.2.3",
)
def ws_retry_after(a: Asm, shard: ShardContext, line: Reg64, last: Reg64) -> None:
    """Take the seconds of Retry-After; a date, or a line that is none, means nothing here."""
    out = a.label("out")
    a.mov(R13, last)
    with a.loop() as lines:
        a.cmp(RSI, R13)
        a.je(out)
        a.mov(R12, RSI)
        a.call(http_line)
        a.j(C, out)
        a.xchg(RSI, R12)  # the name is at RSI, the next line waits in R12
        a.mov(R8, RDX)
        a.mov(R9D, ECX)
        a.mov(ECX, EAX)
        same_as(a, RETRY_AFTER)
        a.mov(RSI, R12)
        a.again(NC, lines)
    a.mov(RSI, R8)
    a.mov(ECX, R9D)
    a.call(http_number)
    a.j(C, out)
    a.mov(ECX, RETRY_AFTER_MAX_S)
    a.cmp(EAX, ECX)
    a.cmov(A, EAX, ECX)
    a.imul(EAX, EAX, SECOND_MS)
    a.mov(shard.required_wait_ms, EAX)
    a.place(out)
    a.ret()


@routine(
    inputs=[
        In(RBX, ShardContext, "a shard in HANDSHAKE"),
        In(RSI, int, "what arrived"),
        In(ECX, int, "how much"),
    ],
    outputs=[Out(ECX, "bytes of the head; 0 = not whole yet, or failed")],
    clobbers=CALLER_SAVED,
    reads=[WebSocketContext.scanned, WebSocketContext.seen, WebSocketContext.http_status],
    writes=[
        WebSocketContext.scanned,
        WebSocketContext.http_status,
        WebSocketContext.state,
    ],
    calls=[http_find_end, http_status, http_line, ws_take_field, ws_retry_after, ws_fail],
    saves=[R12, R13, R14],
    source="RFC 6455 4.1; RFC 9112 4",
)
def ws_response(a: Asm, shard: ShardContext, head: Reg64, length: Reg32) -> None:
    """Accept the upgrade or fail; what follows the head belongs to the first frame."""
    ws = shard.websocket
    last, line = R13, R14
    whole, fail, none, accepted, status_line, refused = map(
        a.label, ("whole", "fail", "none", "accepted", "status_line", "refused")
    )
    a.mov(R12, head)
    a.mov(R13D, length)
    a.mov(EAX, ws.scanned)
    a.call(http_find_end)
    a.j(NC, whole)
    a.mov(ws.scanned, EAX)
    a.mov(R9D, RESPONSE_TOO_LONG.code)
    a.cmp(R13D, RESPONSE_MAX)
    a.jae(fail)
    a.place(none)
    a.xor(ECX, ECX)
    a.ret()

    a.place(whole)
    a.lea(last, mem8(head, 2, index=RAX, ref=RESPONSE))  # the empty line
    a.mov(RDX, last)
    a.call(http_status)
    a.j(C, status_line)
    a.cmp(EAX, SWITCHING)
    a.jne(refused)
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

    a.place(refused)
    a.mov(ws.http_status, AX)
    a.mov(RDX, last)
    a.call(ws_retry_after)
    a.movzx(EAX, ws.http_status)
    a.lea(R9D, mem32(RAX, UPGRADE_REFUSED.code, ref=RESPONSE))
    a.mov(EDX, End.NETWORK)
    a.xor(ECX, ECX)
    a.cmp(EAX, TOO_MANY_REQUESTS)
    with a.if_(E):
        a.mov(ECX, FailureFlag.WAIT)
    a.xor(R8D, R8D)
    a.call(ws_fail)
    a.jmp(none)
