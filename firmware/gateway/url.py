"""Host and port of a URL (RFC 3986 3.2)."""

from firmware.layouts.gateway import UrlFault
from firmware.limits import RESUME_HOST_MAX
from toolchain.asm import (
    AE,
    EAX,
    ECX,
    EDX,
    R8,
    R9,
    R9D,
    R10,
    RCX,
    RSI,
    A,
    Asm,
    In,
    Out,
    Reg32,
    Reg64,
    Region,
    Z,
    mem8,
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
