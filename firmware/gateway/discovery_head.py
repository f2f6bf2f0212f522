"""The head of an answer: what its status asks for, and the fields that matter (RFC 9112)."""

from firmware.abi import CALLER_SAVED
from firmware.gateway.discovery_redirect import discovery_redirect
from firmware.gateway.discovery_result import OK
from firmware.gateway.discovery_verdict import discovery_refuse, discovery_retry
from firmware.gateway.profile import profile_table
from firmware.json.feed import json_reset
from firmware.layouts.discovery import (
    DISCOVERY,
    DISCOVERY_ENDED,
    DISCOVERY_HTTP,
    DISCOVERY_STATUS,
    DISCOVERY_TOO_BIG,
    DISCOVERY_UNAVAILABLE,
    DOCUMENT_MAX,
    LOCATION_MAX,
    REDIRECTS,
    RETRY_AFTER_MAX_S,
    BodyForm,
    ChunkState,
    Discovery,
    DiscoveryState,
    HttpField,
)
from firmware.layouts.json import JsonParser
from firmware.layouts.log import DISCOVERY_DATE
from firmware.layouts.profile import ProfileTable
from firmware.layouts.shard import ShardContext
from firmware.layouts.websocket import RESPONSE, RESPONSE_MAX
from firmware.log import log, log_write
from firmware.tls.stream import tls_ended
from firmware.tls.transport import tls_consume, tls_more, tls_readable
from firmware.websocket.fields import RETRY_AFTER, http_line, http_same, known_name, same_as
from firmware.websocket.http import http_find_end, http_number, http_status
from toolchain.asm import (
    AX,
    BE,
    EAX,
    ECX,
    EDX,
    NC,
    NZ,
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
    B,
    C,
    E,
    In,
    Out,
    Reg32,
    Reg64,
    mem8,
    routine,
)

D = DISCOVERY.it
LENGTH, CODING = known_name(b"content-length"), known_name(b"transfer-encoding")
LOCATION = known_name(b"location")
CHUNKED = known_name(b"chunked")
SWITCHING, TOO_MANY, SERVER_ERROR = 101, 429, 500


@routine(
    inputs=[
        In(RDI, int, "name of the field"),
        In(EAX, int, "its bytes"),
        In(RDX, int, "value"),
        In(ECX, int, "its bytes"),
    ],
    outputs=[Out(R9D, "error of a value that must not be; 0 = go on")],
    clobbers=CALLER_SAVED,
    reads=[
        RESPONSE,
        Discovery.seen,
        Discovery.left,
        Discovery.status,
        Discovery.retry_after_ms,
    ],
    writes=[
        Discovery.seen,
        Discovery.left,
        Discovery.location,
        Discovery.location_len,
        Discovery.retry_after_ms,
    ],
    calls=[http_same, http_number, log_write],
    saves=[R12, R13, R14, R15],
    source="RFC 9112 6.3",
)
def discovery_field(a: Asm, name: Reg64, name_length: Reg32, value: Reg64, length: Reg32) -> None:
    """Keep one header field; what is unknown means nothing."""
    fine, wrong = a.label("fine"), a.label("wrong")
    a.mov(R12, name)
    a.mov(R13D, name_length)
    a.mov(R14, value)
    a.mov(R15D, length)
    handlers = {known: a.label(known.name) for known in (LENGTH, CODING, LOCATION, RETRY_AFTER)}
    for known, handler in handlers.items():  # unrolled: four known fields
        a.mov(RSI, R12)
        a.mov(ECX, R13D)
        same_as(a, known)
        a.j(C, handler)
    a.place(fine)
    a.xor(R9D, R9D)
    a.ret()
    a.place(wrong)
    a.mov(R9D, DISCOVERY_HTTP.code)
    a.ret()

    # Two lengths that differ are how answers are smuggled.
    a.place(handlers[LENGTH])
    a.mov(RSI, R14)
    a.mov(ECX, R15D)
    a.call(http_number)
    a.j(C, wrong)
    a.test(D.seen, HttpField.LENGTH)
    with a.if_(NZ):
        a.cmp(RAX, D.left)
        a.jne(wrong)
    a.mov(D.left, RAX)
    a.or_(D.seen, HttpField.LENGTH)
    a.jmp(fine)

    a.place(handlers[CODING])
    a.mov(RSI, R14)
    a.mov(ECX, R15D)
    same_as(a, CHUNKED)
    a.j(NC, wrong)
    a.or_(D.seen, HttpField.CHUNKED)
    a.jmp(fine)

    a.place(handlers[LOCATION])
    a.mov(D.location_len, R15D)
    a.mov(ECX, LOCATION_MAX)
    a.cmp(R15D, ECX)
    a.cmov(B, ECX, R15D)
    a.mov(RSI, R14)
    a.lea(RDI, D.location.address)
    a.rep_movsb()
    a.or_(D.seen, HttpField.LOCATION)
    a.jmp(fine)

    # A date means nothing to a node whose clock nobody vouches for.
    a.place(handlers[RETRY_AFTER])
    a.mov(RSI, R14)
    a.mov(ECX, R15D)
    a.call(http_number)
    with a.if_(C):
        a.movzx(EDX, D.status)
        log(a, DISCOVERY_DATE)
        a.jmp(fine)
    a.mov(ECX, RETRY_AFTER_MAX_S)
    a.cmp(EAX, ECX)
    a.cmov(A, EAX, ECX)
    a.imul(RAX, RAX, 1000)
    a.cmp(RAX, D.retry_after_ms)
    a.j(BE, fine)
    a.mov(D.retry_after_ms, RAX)
    a.jmp(fine)


@routine(
    inputs=[In(RBX, ShardContext, "the shard that asks")],
    clobbers=CALLER_SAVED,
    reads=[
        Discovery.scanned,
        Discovery.status,
        Discovery.seen,
        Discovery.left,
        ShardContext.profile,
        ProfileTable.vocabulary,
    ],
    writes=[
        Discovery.scanned,
        Discovery.status,
        Discovery.seen,
        Discovery.left,
        Discovery.location_len,
        Discovery.retry_after_ms,
        Discovery.form,
        Discovery.chunk,
        Discovery.body_bytes,
        Discovery.state,
        JsonParser.vocabulary,
    ],
    calls=[
        tls_readable,
        tls_more,
        tls_ended,
        tls_consume,
        http_find_end,
        http_status,
        http_line,
        discovery_field,
        discovery_redirect,
        discovery_refuse,
        discovery_retry,
        json_reset,
    ],
    saves=[R12, R13, R14],
    source="firmware/docs/gateway.md#discovery",
)
def discovery_head(a: Asm, shard: ShardContext) -> None:
    """Act on the status once the head is whole; an interim answer is passed over."""
    last, line = R13, R14
    top, whole, broken, redirect, body, refused, later, fail = map(
        a.label, ("top", "whole", "broken", "redirect", "body", "refused", "later", "fail")
    )
    a.place(top)
    a.call(tls_readable)
    a.mov(R12, RSI)
    a.mov(R13D, ECX)
    a.mov(EAX, D.scanned)
    a.call(http_find_end)
    a.j(NC, whole)
    a.mov(D.scanned, EAX)
    a.cmp(R13D, RESPONSE_MAX)
    a.jae(broken)
    a.call(tls_more)
    a.j(NC, top)
    a.call(tls_ended)
    a.mov(R9D, DISCOVERY_ENDED.code)
    a.j(NC, fail)
    a.ret()

    a.place(whole)
    a.lea(last, mem8(R12, 2, index=RAX, ref=RESPONSE))  # the empty line
    a.mov(RDX, last)
    a.call(http_status)
    a.j(C, broken)
    a.mov(D.status, AX)
    a.xor(EAX, EAX)
    a.mov(D.scanned, EAX)
    a.mov(D.seen, EAX)
    a.mov(D.left, RAX)
    a.mov(D.location_len, EAX)
    a.mov(D.retry_after_ms, RAX)
    with a.loop() as lines:
        a.cmp(RSI, last)
        a.leave(E, lines)
        a.mov(line, RSI)
        a.call(http_line)
        a.j(C, broken)
        a.mov(RDI, line)
        a.mov(line, RSI)
        a.call(discovery_field)
        a.test(R9D, R9D)
        a.jnz(fail)
        a.mov(RSI, line)
        a.jmp(lines.top)
    a.lea(RCX, mem8(last, 2, ref=RESPONSE))
    a.sub(RCX, R12)
    a.call(tls_consume)

    a.movzx(EAX, D.status)
    for status in (OK, TOO_MANY):  # unrolled: two statuses with a document
        a.cmp(EAX, status)
        a.je(body)
    for status in REDIRECTS:  # unrolled: five statuses
        a.cmp(EAX, status)
        a.je(redirect)
    a.cmp(EAX, SERVER_ERROR)
    a.jae(later)
    a.cmp(EAX, SWITCHING)
    a.je(refused)
    a.sub(EAX, 100)
    a.cmp(EAX, OK - 100)
    a.jb(top)
    a.add(EAX, 100)
    a.place(refused)
    a.mov(R9D, EAX)
    a.or_(R9D, DISCOVERY_STATUS.code)
    a.jmp(discovery_refuse)

    a.place(body)
    a.xor(ECX, ECX)  # UNTIL_CLOSE
    a.test(D.seen, HttpField.LENGTH)
    with a.if_(NZ):
        a.mov(ECX, BodyForm.LENGTH)
        a.cmp(D.left, DOCUMENT_MAX)
        with a.if_(A):
            a.cmp(EAX, OK)
            a.jne(later)
            a.mov(R9D, DISCOVERY_TOO_BIG.code)
            a.jmp(discovery_refuse)
    a.xor(EAX, EAX)
    a.test(D.seen, HttpField.CHUNKED)
    with a.if_(NZ):
        # A length beside it means nothing (RFC 9112 6.3).
        a.mov(ECX, BodyForm.CHUNKED)
        a.mov(D.left, RAX)
    a.mov(D.form, ECX)
    a.mov(D.chunk, ChunkState.SIZE_FIRST)
    a.mov(D.body_bytes, RAX)
    a.lea(RDI, D.parser.state)
    a.call(json_reset)
    table = profile_table(a, shard, RDX, RCX)
    a.mov(EAX, table.vocabulary)
    a.mov(D.parser.vocabulary, EAX)
    a.mov(D.state, DiscoveryState.BODY)
    a.ret()

    a.place(redirect)
    a.jmp(discovery_redirect)
    a.place(later)
    a.mov(R9D, EAX)
    a.or_(R9D, DISCOVERY_UNAVAILABLE.code)
    a.jmp(discovery_retry)
    a.place(broken)
    a.mov(R9D, DISCOVERY_HTTP.code)
    a.place(fail)
    a.jmp(discovery_retry)
