"""The head of an HTTP/1.1 response: where it ends, and its status line (RFC 9112 2 and 4)."""

from firmware.layouts.websocket import RESPONSE, RESPONSE_MAX
from firmware.text import CRLF, CRLF_TWICE, SP
from firmware.websocket.fields import CLASSES, VALUE_CHAR
from toolchain.asm import (
    CF,
    CL,
    EAX,
    ECX,
    EDX,
    NZ,
    R8,
    RAX,
    RCX,
    RDX,
    RSI,
    A,
    Asm,
    B,
    E,
    G,
    In,
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

HTTP_1_1 = int.from_bytes(b"HTTP/1.1", "little")
CR = ord("\r")
NUMBER_MAX = 100_000_000
"""Ten times it is still a 32-bit number."""
STATUS_BYTES = len(b"HTTP/1.1 101")


@routine(
    inputs=[
        In(RSI, int, "what arrived"),
        In(ECX, int, "how much; beyond RESPONSE_MAX nothing is looked at"),
        In(EAX, int, "bytes that are known to hold no end"),
    ],
    outputs=[
        Out(CF, "1 = the head is not whole yet"),
        Out(EAX, "where the two line ends begin, else bytes that hold no end"),
    ],
    clobbers=[RDX],
    reads=[RESPONSE],
    source="RFC 9112 2.1",
)
def http_find_end(a: Asm, head: Reg64, length: Reg32, scanned: Reg32) -> None:
    """Search for the empty line, from where the last search ended."""
    whole = a.label("whole")
    a.mov(EDX, RESPONSE_MAX)
    a.cmp(length, EDX)
    a.cmov(B, EDX, length)
    a.sub(EDX, 4)
    a.mov(scanned, scanned)  # the upper half of a narrow input is anything
    with a.loop() as search:
        a.cmp(scanned, EDX)
        a.leave(G, search)
        a.cmp(mem32(head, index=RAX, ref=RESPONSE), CRLF_TWICE)
        a.je(whole)
        a.inc(scanned)
        a.jmp(search.top)
    a.stc()
    a.ret()
    a.place(whole)
    a.clc()
    a.ret()


@routine(
    inputs=[
        In(RSI, int, "a head that is whole"),
        In(RDX, int, "its empty line"),
    ],
    outputs=[
        Out(CF, "1 = not a status line of HTTP/1.1"),
        Out(EAX, "the status"),
        Out(RSI, "the line after it"),
    ],
    clobbers=[RCX, RDX, R8],
    reads=[RESPONSE, CLASSES],
    source="RFC 9112 4",
)
def http_status(a: Asm, head: Reg64, last: Reg64) -> None:
    """Judge the status line; the reason means nothing, but has to end like one."""
    digit, bad = ECX, a.label("bad")
    a.xor(EAX, EAX)
    a.lea(RCX, mem8(head, STATUS_BYTES, ref=RESPONSE))
    a.cmp(RCX, last)
    a.jae(bad)
    a.mov(RCX, HTTP_1_1)
    a.cmp(RCX, mem64(head, ref=RESPONSE))
    a.jne(bad)
    a.cmp(mem8(head, 8, ref=RESPONSE), SP)
    a.jne(bad)
    for n in range(9, STATUS_BYTES):  # unrolled: three digits
        a.movzx(digit, mem8(head, n, ref=RESPONSE))
        a.sub(digit, ord("0"))
        a.cmp(digit, 9)
        a.j(A, bad)
        a.imul(EAX, EAX, 10)
        a.add(EAX, digit)
    a.add(head, STATUS_BYTES)
    a.mov(CL, mem8(head, ref=RESPONSE))
    a.cmp(CL, SP)
    with a.block() as ended:
        a.leave(E, ended)
        a.cmp(CL, CR)
        a.jne(bad)
    a.lea(R8, CLASSES.address)
    with a.loop() as reason:
        a.movzx(EDX, mem8(head, ref=RESPONSE))
        a.test(mem8(R8, index=RDX, ref=CLASSES), VALUE_CHAR)
        a.leave(Z, reason)
        a.inc(head)
        a.jmp(reason.top)
    a.cmp(mem16(head, ref=RESPONSE), CRLF)
    a.jne(bad)
    a.add(head, 2)
    a.clc()
    a.ret()
    a.place(bad)
    a.stc()
    a.ret()


@routine(
    inputs=[In(RSI, int, "text"), In(ECX, int, "its bytes")],
    outputs=[
        Out(CF, "1 = not a number in digits"),
        Out(EAX, "the number, NUMBER_MAX when it is greater"),
    ],
    clobbers=[RCX, RDX, RSI],
    reads=[RESPONSE],
    source="RFC 9110 8.6",
)
def http_number(a: Asm, text: Reg64, length: Reg32) -> None:
    """Read a field value that consists of digits alone."""
    bad = a.label("bad")
    a.xor(EAX, EAX)
    a.test(length, length)
    a.jz(bad)
    with a.loop() as digits:
        a.movzx(EDX, mem8(text, ref=RESPONSE))
        a.sub(EDX, ord("0"))
        a.cmp(EDX, 9)
        a.j(A, bad)
        a.imul(EAX, EAX, 10)
        a.add(EAX, EDX)
        a.mov(EDX, NUMBER_MAX)
        a.cmp(EAX, EDX)
        a.cmov(A, EAX, EDX)
        a.inc(text)
        a.dec(length)
        a.again(NZ, digits)
    a.clc()
    a.ret()
    a.place(bad)
    a.stc()
    a.ret()
