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
    UPGRADE_CHALLENGED,
    UPGRADE_REFUSED,
    ResponseHeader,
    WebSocketContext,
    WsState,
)
from firmware.websocket.fail import fail_with, ws_fail
from firmware.websocket.fields import (
    CF_MITIGATED,
    RETRY_AFTER,
    http_line,
    http_same,
    ws_take_field,
)
from firmware.websocket.http import http_find_end, http_number, http_status
from toolchain.asm import (
    AX,
    CF,
    EAX,
    ECX,
    EDX,
    NC,
    R8,
    R8D,
    R9,
    R9D,
    R12,
    R13,
    R13D,
    R14,
    R15,
    R15D,
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
    routine,
)
from toolchain.layout.data import Data

SWITCHING, FORBIDDEN, TOO_MANY_REQUESTS = 101, 403, 429


@routine(
    inputs=[
        In(RSI, int, "the first header line"),
        In(RDX, int, "the empty line that ends the head"),
        In(RDI, int, "a name in small letters and hyphens"),
        In(ECX, int, "its bytes"),
    ],
    outputs=[
        Out(CF, "1 = no field of that name, or a line before it that is none"),
        Out(RSI, "its value, without blanks around it"),
        Out(ECX, "bytes of the value"),
    ],
    clobbers=[RAX, RDX, RDI, R8, R9],
    calls=[http_line, http_same],
    saves=[R12, R13, R14, R15],
    source="RFC 9110 5.1",
)
def ws_find_field(a: Asm, line: Reg64, last: Reg64, name: Reg64, size: Reg32) -> None:
    """Find the first field of a name in a head."""
    missing = a.label("missing")
    a.mov(R13, last)
    a.mov(R14, name)
    a.mov(R15D, size)
    with a.loop() as lines:
        a.cmp(line, R13)
        a.je(missing)
        a.mov(R12, line)
        a.call(http_line)
        a.j(C, missing)
        a.xchg(RSI, R12)  # the name is at RSI, the next line waits in R12
        a.mov(R8, RDX)
        a.mov(R9D, ECX)
        a.mov(ECX, EAX)
        a.mov(RDI, R14)
        a.mov(EDX, R15D)
        a.call(http_same)
        a.mov(RSI, R12)
        a.again(NC, lines)
    a.mov(RSI, R8)
    a.mov(ECX, R9D)
    a.clc()
    a.ret()
    a.place(missing)
    a.xor(ECX, ECX)
    a.stc()
    a.ret()


def _find(a: Asm, known: Data) -> None:
    """Look for a known field from the line at RSI to the empty one at RDX."""
    a.lea(RDI, known.address)
    a.mov(ECX, known.size)
    a.call(ws_find_field)


@routine(
    inputs=[
        In(RBX, ShardContext, "a shard whose upgrade is refused"),
        In(RSI, int, "the first header line"),
        In(RDX, int, "the empty line that ends the head"),
    ],
    clobbers=CALLER_SAVED,
    writes=[ShardContext.required_wait_ms],
    calls=[ws_find_field, http_number],
    source="RFC 9110 10.2.3",
)
def ws_retry_after(a: Asm, shard: ShardContext, line: Reg64, last: Reg64) -> None:
    """Take the seconds of Retry-After; a date, or a line that is none, means nothing here."""
    out = a.label("out")
    _find(a, RETRY_AFTER)
    a.j(C, out)
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
    calls=[
        http_find_end,
        http_status,
        http_line,
        ws_take_field,
        ws_retry_after,
        ws_find_field,
        ws_fail,
    ],
    saves=[R12, R13, R14],
    source="RFC 6455 4.1; RFC 9112 4",
)
def ws_response(a: Asm, shard: ShardContext, head: Reg64, length: Reg32) -> None:
    """Accept the upgrade or fail; what follows the head belongs to the first frame."""
    ws = shard.websocket
    last, line = R13, R14
    whole, fail, none, accepted, status_line, refused, plain, told = map(
        a.label,
        ("whole", "fail", "none", "accepted", "status_line", "refused", "plain", "told"),
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
    a.mov(line, RSI)
    a.mov(RDX, last)
    a.call(ws_retry_after)
    # A challenge is for browsers: the gateway has not seen the request, and no client of its own can pass.
    a.cmp(ws.http_status, FORBIDDEN)
    a.jne(plain)
    a.mov(RSI, line)
    a.mov(RDX, last)
    _find(a, CF_MITIGATED)
    a.mov(R9D, UPGRADE_CHALLENGED.code)
    a.mov(EDX, End.CHALLENGED)
    a.j(NC, told)
    a.place(plain)
    a.mov(R9D, UPGRADE_REFUSED.code)
    a.mov(EDX, End.NETWORK)
    a.place(told)
    a.movzx(EAX, ws.http_status)
    a.or_(R9D, EAX)
    a.xor(ECX, ECX)
    a.cmp(EAX, TOO_MANY_REQUESTS)
    with a.if_(E):
        a.mov(ECX, FailureFlag.WAIT)
    a.xor(R8D, R8D)
    a.call(ws_fail)
    a.jmp(none)
