"""Header fields of the upgrade response: one line split, one field judged (RFC 9112 5)."""

from firmware.layouts.shard import ShardContext
from firmware.layouts.websocket import (
    ACCEPT_BYTES,
    ACCEPT_FIELD,
    EXTENSION,
    RESPONSE,
    SUBPROTOCOL,
    ResponseHeader,
    WebSocketContext,
)
from firmware.text import CRLF, SP, TAB
from toolchain.asm import (
    AL,
    CF,
    EAX,
    ECX,
    EDX,
    NC,
    NS,
    NZ,
    R8,
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
    Asm,
    C,
    E,
    In,
    Label,
    Out,
    Reg32,
    Reg64,
    Region,
    Z,
    mem8,
    mem16,
    mem32,
    routine,
)
from toolchain.layout.data import Data, constant

# RFC 9110 5.6.2 (token) and 5.5 (field-value).
TCHAR, VALUE_CHAR = 1, 2
_TOKEN = b"!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def _class_of(byte: int) -> int:
    value = byte == 0x09 or (byte >= 0x20 and byte != 0x7F)
    return (TCHAR if byte in _TOKEN else 0) | (VALUE_CHAR if value else 0)


CLASSES = constant("http_classes", bytes(map(_class_of, range(256))), "TCHAR and VALUE_CHAR")


def known_name(text: bytes) -> Data:
    """Return the constant of a name in small letters and hyphens."""
    symbol = "http_" + text.decode().replace("-", "_")
    return constant(symbol, text, "compared without regard to case", align=1)


NAME = Region("a known name", "one of the constants below")
UPGRADE, CONNECTION = known_name(b"upgrade"), known_name(b"connection")
ACCEPT = known_name(b"sec-websocket-accept")
EXTENSIONS, PROTOCOL = (
    known_name(b"sec-websocket-extensions"),
    known_name(b"sec-websocket-protocol"),
)
WEBSOCKET, RETRY_AFTER = known_name(b"websocket"), known_name(b"retry-after")
CF_MITIGATED = known_name(b"cf-mitigated")
"""Cloudflare, developer documentation, "Detect a Challenge Page response": who sends the page says so here."""


@routine(
    inputs=[
        In(RSI, int, "a token"),
        In(ECX, int, "its bytes"),
        In(RDI, int, "text in small letters and hyphens"),
        In(EDX, int, "its bytes"),
    ],
    outputs=[Out(CF, "1 = the same, without regard to case")],
    clobbers=[RAX, RCX, RSI, RDI],
    reads=[RESPONSE, NAME],
    source="RFC 9110 5.1",
)
def http_same(a: Asm, token: Reg64, length: Reg32, text: Reg64, size: Reg32) -> None:
    """Compare a token with a known name."""
    other = a.label("other")
    a.cmp(length, size)
    a.jne(other)
    with a.loop() as letters:
        # In a token only letters have a partner that differs in this bit and occurs in names.
        a.mov(AL, mem8(token, ref=RESPONSE))
        a.or_(AL, 0x20)
        a.cmp(AL, mem8(text, ref=NAME))
        a.jne(other)
        a.inc(token)
        a.inc(text)
        a.dec(length)
        a.again(NZ, letters)
    a.stc()
    a.ret()
    a.place(other)
    a.clc()
    a.ret()


@routine(
    inputs=[In(RSI, int, "a header line of a head that ends with an empty one")],
    outputs=[
        Out(CF, "1 = not a header line"),
        Out(RSI, "the next line"),
        Out(EAX, "bytes of the name, which begins the line"),
        Out(RDX, "the value, without blanks around it"),
        Out(ECX, "bytes of the value"),
    ],
    clobbers=[RDI, R8, R9],
    reads=[RESPONSE, CLASSES],
    source="RFC 9112 5",
)
def http_line(a: Asm, line: Reg64) -> None:
    """Split one header line; folded lines, bare line feeds and blanks before the colon are refused."""
    classes, at, value, name = R8, RDI, RDX, R9
    bad, back, trimmed = map(a.label, ("bad", "back", "trimmed"))
    a.lea(classes, CLASSES.address)
    a.mov(at, line)
    with a.loop() as token:
        a.movzx(EAX, mem8(at, ref=RESPONSE))
        a.test(mem8(classes, index=RAX, ref=CLASSES), TCHAR)
        a.leave(Z, token)
        a.inc(at)
        a.jmp(token.top)
    a.mov(name, at)
    a.mov(value, at)
    a.cmp(AL, ord(":"))
    a.jne(bad)
    a.sub(name, line)
    a.jz(bad)

    with a.loop() as blanks:
        a.inc(at)
        a.mov(AL, mem8(at, ref=RESPONSE))
        a.cmp(AL, SP)
        a.again(E, blanks)
        a.cmp(AL, TAB)
        a.again(E, blanks)
    a.mov(value, at)
    with a.loop() as text:
        a.movzx(EAX, mem8(at, ref=RESPONSE))
        a.test(mem8(classes, index=RAX, ref=CLASSES), VALUE_CHAR)
        a.leave(Z, text)
        a.inc(at)
        a.jmp(text.top)
    a.cmp(mem16(at, ref=RESPONSE), CRLF)
    a.jne(bad)
    a.lea(RSI, mem8(at, 2, ref=RESPONSE))

    a.place(back)
    a.cmp(at, value)
    a.je(trimmed)
    a.dec(at)
    a.mov(AL, mem8(at, ref=RESPONSE))
    a.cmp(AL, SP)
    a.je(back)
    a.cmp(AL, TAB)
    a.je(back)
    a.inc(at)
    a.place(trimmed)
    a.mov(RCX, at)
    a.sub(RCX, value)
    a.mov(RAX, name)
    a.clc()
    a.ret()
    a.place(bad)
    a.xor(ECX, ECX)
    a.stc()
    a.ret()


@routine(
    inputs=[
        In(RBX, ShardContext, "the shard"),
        In(RDI, int, "name of the field"),
        In(EAX, int, "its bytes"),
        In(RDX, int, "value"),
        In(ECX, int, "its bytes"),
    ],
    outputs=[Out(R9D, "error of a value that must not be; 0 = go on")],
    clobbers=[RAX, RCX, RDX, RSI, RDI, R8],
    reads=[RESPONSE, CLASSES, WebSocketContext.seen, WebSocketContext.accept],
    writes=[WebSocketContext.seen],
    calls=[http_same],
    saves=[R12, R13, R14, R15],
    source="RFC 6455 4.1",
)
def ws_take_field(
    a: Asm, shard: ShardContext, name: Reg64, name_length: Reg32, value: Reg64, length: Reg32
) -> None:
    """Judge one header field; what is unknown means nothing."""
    ws = shard.websocket
    fine, refused = a.label("fine"), a.label("refused")
    a.mov(R12, name)
    a.mov(R13D, name_length)
    a.mov(R14, value)
    a.mov(R15D, length)

    handlers = {
        known: a.label(known.name) for known in (UPGRADE, CONNECTION, ACCEPT, EXTENSIONS, PROTOCOL)
    }
    for known, handler in handlers.items():  # unrolled: five known fields
        a.mov(RSI, R12)
        a.mov(ECX, R13D)
        same_as(a, known)
        a.j(C, handler)
    a.place(fine)
    a.xor(R9D, R9D)
    a.place(refused)
    a.ret()

    a.place(handlers[UPGRADE])
    a.mov(RSI, R14)
    a.mov(ECX, R15D)
    same_as(a, WEBSOCKET)
    a.j(NC, fine)
    a.or_(ws.seen, ResponseHeader.UPGRADE)
    a.jmp(fine)

    a.place(handlers[CONNECTION])
    _find_upgrade(a, shard, fine)

    # A second accept field is refused even when it says the same.
    a.place(handlers[ACCEPT])
    a.mov(R9D, ACCEPT_FIELD.code)
    a.test(ws.seen, ResponseHeader.ACCEPT)
    a.jnz(refused)
    a.cmp(R15D, ACCEPT_BYTES)
    a.jne(refused)
    for n in range(0, ACCEPT_BYTES, 4):  # unrolled: seven doublewords
        a.mov(EAX, mem32(R14, n, ref=RESPONSE))
        a.cmp(EAX, ws.accept.m32(n))
        a.jne(refused)
    a.or_(ws.seen, ResponseHeader.ACCEPT)
    a.jmp(fine)

    a.place(handlers[EXTENSIONS])
    a.mov(R9D, EXTENSION.code)
    a.ret()
    a.place(handlers[PROTOCOL])
    a.mov(R9D, SUBPROTOCOL.code)
    a.ret()


def same_as(a: Asm, known: Data) -> None:
    """Compare the token at RSI, ECX bytes, with a known name: CF."""
    a.lea(RDI, known.address)
    a.mov(EDX, known.size)
    a.call(http_same)


def _find_upgrade(a: Asm, shard: ShardContext, fine: Label) -> None:
    """Look for `upgrade` in the list at R14, R15D bytes; what separates tokens is skipped."""
    at, left, classes = R14, R15D, R8
    scan, matched = a.label("scan"), a.label("matched")
    a.lea(classes, CLASSES.address)
    with a.loop() as tokens:
        a.mov(RSI, at)
        a.mov(ECX, left)
        a.place(scan)
        a.sub(left, 1)
        a.jb(matched)
        a.movzx(EAX, mem8(at, ref=RESPONSE))
        a.inc(at)
        a.test(mem8(classes, index=RAX, ref=CLASSES), TCHAR)
        a.jnz(scan)
        a.place(matched)
        # left is -1 at the end of the value, else the separator is counted out too.
        a.sub(ECX, left)
        a.dec(ECX)
        same_as(a, UPGRADE)
        with a.if_(C):
            a.or_(shard.websocket.seen, ResponseHeader.CONNECTION)
        a.test(left, left)
        a.again(NS, tokens)
    a.jmp(fine)
