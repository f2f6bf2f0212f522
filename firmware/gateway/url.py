"""Scheme, host and port of a URL (RFC 3986 3)."""

from firmware.layouts.config import CONFIG, ConfigBlob
from firmware.layouts.gateway import UrlFault
from firmware.layouts.websocket import WS_PORT, WSS_PORT
from firmware.limits import RESUME_HOST_MAX
from toolchain.asm import (
    AE,
    EAX,
    ECX,
    EDX,
    NE,
    R8,
    R9,
    R9D,
    R10,
    RCX,
    RSI,
    A,
    Asm,
    In,
    Label,
    Out,
    Reg32,
    Reg64,
    Region,
    Z,
    mem8,
    mem32,
    routine,
)
from toolchain.layout.data import constant

_HOST = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._"
# RFC 8259 needs no escape for these, and no session id of any service holds others.
_ID = bytes(c for c in range(0x21, 0x7F) if c not in b'"\\')
# RFC 9110 7.1: a request target is printable and has no fragment.
_TARGET = bytes(c for c in range(0x21, 0x7F) if c != ord("#"))
HOST_CHAR, ID_CHAR, TARGET_CHAR = 1, 2, 4
CHARS = constant(
    "gateway_chars",
    bytes(
        sum(
            bit
            for bit, text in ((HOST_CHAR, _HOST), (ID_CHAR, _ID), (TARGET_CHAR, _TARGET))
            if c in text
        )
        for c in range(256)
    ),
    "what may stand in a host name, in a session id, and in path and query",
)
URL = Region("a URL", "where its owner keeps it, bounded by the length")


WEB_SOCKET, HTTP = 0, 1
SCHEMES = {WEB_SOCKET: (b"ws://", b"wss://"), HTTP: (b"http://", b"https://")}
"""By what is asked, without TLS and with it."""
PORTS = (WS_PORT, WSS_PORT)


def text_is(a: Asm, text: bytes, other: Label) -> None:
    """Go to `other` unless the text at RSI begins with these bytes, four to eight of them."""
    for at in dict.fromkeys((0, len(text) - 4)):  # unrolled: two doublewords that overlap
        a.cmp(mem32(RSI, at, ref=URL), int.from_bytes(text[at : at + 4], "little"))
        a.jne(other)


@routine(
    inputs=[
        In(RSI, int, "a URL; eight bytes of it can be read"),
        In(EAX, int, "WEB_SOCKET or HTTP: which schemes it may have"),
    ],
    outputs=[
        Out(EAX, "UrlFault; 0 = fine"),
        Out(EDX, "the scheme's port"),
        Out(RSI, "what follows the two slashes"),
    ],
    reads=[URL, ConfigBlob.gateway_secure],
    source="firmware/docs/gateway.md#resume-url",
)
def url_scheme(a: Asm, text: Reg64, kind: Reg32) -> None:
    """Judge the scheme: TLS when the configured URL has it, and else not."""
    judged = a.label("judged")
    for wanted, texts in SCHEMES.items():
        for secure, scheme in enumerate(texts):  # unrolled: four schemes
            other = a.label(scheme[:-3].decode())
            a.cmp(kind, wanted)
            a.jne(other)
            text_is(a, scheme, other)
            a.add(text, len(scheme))
            a.mov(EDX, PORTS[secure])
            a.cmp(CONFIG.it.gateway_secure, secure)
            a.jmp(judged)
            a.place(other)
    a.xor(EDX, EDX)
    a.mov(EAX, UrlFault.SCHEME)
    a.ret()
    a.place(judged)
    a.mov(EAX, 0)  # no XOR: it would change the flags
    with a.if_(NE):
        a.mov(EAX, UrlFault.SECURITY)
    a.ret()


@routine(
    inputs=[
        In(RSI, int, "what follows the two slashes"),
        In(R8, int, "its end"),
        In(EDX, int, "the scheme's port"),
    ],
    outputs=[
        Out(EAX, "UrlFault; 0 = fine"),
        Out(ECX, "bytes of the host, which begins the text"),
        Out(EDX, "TCP port"),
        Out(RSI, "what follows the authority: /, ? or the end"),
    ],
    clobbers=[R9, R10],
    reads=[URL, CHARS],
    source="firmware/docs/gateway.md#resume-url",
)
def url_authority(a: Asm, text: Reg64, end: Reg64, default: Reg32) -> None:
    """Judge host and port; a user, an address in brackets and a fragment are refused."""
    at, size, port, letter, chars = RSI, ECX, EDX, R9D, R10
    no_port, fine, bad, host = map(a.label, ("no_port", "fine", "bad", "host"))
    a.lea(chars, CHARS.address)
    a.xor(size, size)
    with a.loop() as name:
        a.cmp(at, end)
        a.leave(AE, name)
        a.movzx(letter, mem8(at, ref=URL))
        a.test(mem8(chars, index=R9, ref=CHARS), HOST_CHAR)
        a.leave(Z, name)
        a.inc(at)
        a.inc(size)
        a.jmp(name.top)
    a.lea(letter, mem8(RCX, -1, ref=URL))
    a.cmp(letter, RESUME_HOST_MAX)
    a.jae(host)

    a.cmp(at, end)
    a.jae(fine)
    a.cmp(mem8(at, ref=URL), ord(":"))
    a.jne(no_port)
    a.xor(port, port)
    with a.loop() as digits:
        a.inc(at)
        a.cmp(at, end)
        a.leave(AE, digits)
        a.movzx(letter, mem8(at, ref=URL))
        a.sub(letter, ord("0"))
        a.cmp(letter, 9)
        a.leave(A, digits)
        a.imul(port, port, 10)
        a.add(port, letter)
        a.cmp(port, 0xFFFF)
        a.j(A, bad)
        a.jmp(digits.top)
    a.test(port, port)
    a.jz(bad)
    a.cmp(at, end)
    a.jae(fine)
    a.place(no_port)
    a.cmp(mem8(at, ref=URL), ord("/"))
    a.je(fine)
    a.cmp(mem8(at, ref=URL), ord("?"))
    a.jne(bad)
    a.place(fine)
    a.xor(EAX, EAX)
    a.ret()
    a.place(bad)
    a.mov(EAX, UrlFault.PORT)
    a.ret()
    a.place(host)
    a.mov(EAX, UrlFault.HOST)
    a.ret()
