"""The body of an answer: its end, its framing, and the document inside (RFC 9112 6 and 7)."""

from firmware.abi import CALLER_SAVED
from firmware.gateway.discovery_result import OK, discovery_document
from firmware.gateway.discovery_verdict import discovery_refuse, discovery_retry
from firmware.json.feed import json_feed
from firmware.layouts.discovery import (
    DISCOVERY,
    DISCOVERY_DOCUMENT,
    DISCOVERY_ENDED,
    DISCOVERY_HTTP,
    DISCOVERY_TOO_BIG,
    DISCOVERY_UNAVAILABLE,
    DOCUMENT_MAX,
    BodyForm,
    ChunkState,
    Discovery,
)
from firmware.layouts.shard import ShardContext
from firmware.layouts.websocket import RESPONSE
from firmware.tls.stream import tls_ended
from firmware.tls.transport import tls_consume, tls_readable
from toolchain.asm import (
    AX,
    EAX,
    ECX,
    EDX,
    NE,
    NZ,
    R8,
    R9D,
    R12,
    R13,
    R13D,
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
    Reg32,
    mem8,
    routine,
)
from toolchain.layout.data import constant

D = DISCOVERY.it
C_ = ChunkState
HEX, CR, LF, BLANK, OTHER = range(5)
"""Classes of bytes; BLANK ends a size before what an extension may say."""
COLUMNS = 8
_BY_BYTE = {
    **dict.fromkeys(b"0123456789abcdefABCDEF", HEX),
    ord("\r"): CR, ord("\n"): LF,
    **dict.fromkeys(b"; \t", BLANK),
}  # fmt: skip
RULES: dict[ChunkState, dict[int, ChunkState]] = {
    C_.SIZE_FIRST: {HEX: C_.SIZE},
    C_.SIZE: {HEX: C_.SIZE, CR: C_.SIZE_LF, BLANK: C_.EXTENSION},
    C_.EXTENSION: {**dict.fromkeys((HEX, BLANK, OTHER), C_.EXTENSION), CR: C_.SIZE_LF},
    C_.SIZE_LF: {LF: C_.DATA},
    C_.DATA_CR: {CR: C_.DATA_LF},
    C_.DATA_LF: {LF: C_.SIZE_FIRST},
    C_.TRAILER: {**dict.fromkeys((HEX, BLANK, OTHER), C_.TRAILER_TEXT), CR: C_.LAST_LF},
    C_.TRAILER_TEXT: {**dict.fromkeys((HEX, BLANK, OTHER), C_.TRAILER_TEXT), CR: C_.TRAILER_LF},
    C_.TRAILER_LF: {LF: C_.TRAILER},
    C_.LAST_LF: {LF: C_.DONE},
}
"""State and class to the next state; what is not here breaks the framing."""
CHUNK_CLASSES = constant(
    "discovery_chunk_classes",
    bytes(_BY_BYTE.get(byte, OTHER) for byte in range(256)),
    "class of a byte of the framing",
)
CHUNK_RULES = constant(
    "discovery_chunk_rules",
    bytes(RULES.get(s, {}).get(c, C_.BROKEN) for s in ChunkState for c in range(COLUMNS)),
    "the next state, by state and class",
)


@routine(
    inputs=[In(EAX, int, "a byte of the framing")],
    clobbers=[RAX, RCX, RDX, R8],
    reads=[CHUNK_CLASSES, CHUNK_RULES, Discovery.chunk, Discovery.left],
    writes=[Discovery.chunk, Discovery.left],
    source="RFC 9112 7.1",
)
def discovery_chunk(a: Asm, byte: Reg32) -> None:
    """Take one byte of sizes, line ends and trailers."""
    a.mov(EAX, byte)
    a.lea(R8, CHUNK_CLASSES.address)
    a.movzx(ECX, mem8(R8, index=RAX, ref=CHUNK_CLASSES))
    a.mov(EDX, D.chunk)
    a.shl(EDX, COLUMNS.bit_length() - 1)
    a.add(EDX, ECX)
    a.lea(R8, CHUNK_RULES.address)
    a.movzx(EDX, mem8(R8, index=RDX, ref=CHUNK_RULES))
    a.cmp(EDX, ChunkState.SIZE)
    with a.if_(E):
        # Letters lie nine above the digits in their low four bits.
        a.mov(ECX, EAX)
        a.and_(EAX, 0x0F)
        a.cmp(ECX, ord("9"))
        with a.if_(A):
            a.add(EAX, 9)
        a.mov(RCX, D.left)
        a.shl(RCX, 4)
        a.or_(RCX, RAX)
        a.mov(D.left, RCX)
    a.cmp(EDX, ChunkState.DATA)
    with a.if_(E):
        a.cmp(D.left, 0)
        with a.if_(E):
            a.mov(EDX, ChunkState.TRAILER)
    a.mov(D.chunk, EDX)
    a.ret()


@routine(
    inputs=[In(RBX, ShardContext, "the shard that asks")],
    clobbers=CALLER_SAVED,
    reads=[
        RESPONSE,
        Discovery.status,
        Discovery.form,
        Discovery.chunk,
        Discovery.left,
        Discovery.body_bytes,
    ],
    writes=[Discovery.left, Discovery.chunk, Discovery.body_bytes],
    calls=[
        tls_readable,
        tls_ended,
        tls_consume,
        json_feed,
        discovery_chunk,
        discovery_document,
        discovery_refuse,
        discovery_retry,
    ],
    saves=[R12, R13],
    source="firmware/docs/gateway.md#discovery",
)
def discovery_body(a: Asm, shard: ShardContext) -> None:
    """Take what came of the body; at its end the document is judged."""
    top, whole, starved, ended, framing, bounded, limited, big, broken, bad = map(
        a.label,
        (
            "top", "whole", "starved", "ended", "framing", "bounded", "limited", "big", "broken",
            "bad",
        ),
    )  # fmt: skip
    a.place(top)
    a.cmp(D.form, BodyForm.CHUNKED)
    with a.if_(E):
        a.cmp(D.chunk, ChunkState.DONE)
        a.je(whole)
    a.cmp(D.form, BodyForm.LENGTH)
    with a.if_(E):
        a.cmp(D.left, 0)
        a.je(whole)
    a.call(tls_readable)
    a.mov(R12, RSI)
    a.test(ECX, ECX)
    a.jz(starved)
    a.mov(R13D, ECX)
    a.cmp(D.form, BodyForm.UNTIL_CLOSE)
    with a.block() as unlimited:
        a.leave(E, unlimited)
        a.cmp(D.form, BodyForm.CHUNKED)
        a.jne(limited)
        a.cmp(D.chunk, ChunkState.DATA)
        a.jne(framing)
        a.place(limited)
        a.cmp(R13, D.left)
        a.cmov(A, R13, D.left)
        a.sub(D.left, R13)
    a.add(D.body_bytes, R13)
    a.lea(RDI, D.parser.state)
    a.mov(ECX, R13D)
    a.call(json_feed)
    # Of an answer that only says "later" the words mean nothing.
    a.test(EAX, EAX)
    with a.if_(NZ):
        a.cmp(D.status, OK)
        a.je(bad)
    a.mov(ECX, R13D)
    a.call(tls_consume)
    a.cmp(D.form, BodyForm.CHUNKED)
    a.jne(bounded)
    a.cmp(D.left, 0)
    a.jne(bounded)
    a.mov(D.chunk, ChunkState.DATA_CR)
    a.jmp(bounded)

    a.place(framing)
    a.movzx(EAX, mem8(R12, ref=RESPONSE))
    a.call(discovery_chunk)
    a.inc(D.body_bytes)
    a.mov(ECX, 1)
    a.call(tls_consume)
    a.cmp(D.chunk, ChunkState.BROKEN)
    a.je(broken)
    a.cmp(D.left, DOCUMENT_MAX)
    a.j(A, big)
    a.place(bounded)
    a.cmp(D.body_bytes, DOCUMENT_MAX)
    a.j(A, big)
    a.jmp(top)

    a.place(starved)
    a.call(tls_ended)
    with a.if_(C):
        a.ret()
    a.cmp(D.form, BodyForm.UNTIL_CLOSE)
    a.jne(ended)
    a.place(whole)
    a.jmp(discovery_document)
    a.place(big)
    a.movzx(R9D, D.status)
    a.cmp(R9D, OK)
    with a.if_(NE):
        a.or_(R9D, DISCOVERY_UNAVAILABLE.code)
        a.jmp(discovery_retry)
    a.mov(R9D, DISCOVERY_TOO_BIG.code)
    a.jmp(discovery_refuse)
    a.place(bad)
    a.movzx(R9D, AX)
    a.or_(R9D, DISCOVERY_DOCUMENT.code)
    a.jmp(discovery_refuse)
    a.place(ended)
    a.mov(R9D, DISCOVERY_ENDED.code)
    a.jmp(discovery_retry)
    a.place(broken)
    a.mov(R9D, DISCOVERY_HTTP.code)
    a.jmp(discovery_retry)
