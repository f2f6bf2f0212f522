"""Which hosts may hear the token: the gateway's own, and those under the allowed suffix (I7)."""

from firmware.abi import CALLER_SAVED
from firmware.layouts.config import CONFIG, ConfigBlob
from firmware.websocket.request import ws_base
from toolchain.asm import (
    AL,
    CF,
    EAX,
    ECX,
    EDX,
    NC,
    NE,
    NZ,
    R8,
    R8D,
    R9,
    R9D,
    R10,
    R10D,
    R12,
    R13,
    R13D,
    RAX,
    RCX,
    RDI,
    RDX,
    RSI,
    A,
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
    routine,
)

NAME = Region("a host", "where its owner keeps it, bounded by the length")
LOWER = 0x20
"""Set in each letter it makes cases equal; no two other characters of a host become equal by it."""


@routine(
    inputs=[
        In(RSI, int, "a host"),
        In(ECX, int, "its bytes"),
        In(RDI, int, "a domain, or an address"),
        In(EDX, int, "its bytes"),
    ],
    outputs=[Out(CF, "1 = the host is another one")],
    clobbers=[RAX, RCX, RDX, R8, R9, R10],
    reads=[NAME],
    source="firmware/docs/gateway.md#hosts-that-hear-the-token",
)
def host_is_under(a: Asm, host: Reg64, size: Reg32, domain: Reg64, length: Reg32) -> None:
    """Tell whether a host is a domain or a name below it; below an address there is none."""
    other, under, letters = a.label("other"), a.label("under"), R10D
    a.mov(length, length)
    a.test(length, length)
    a.jz(other)
    a.sub(size, length)
    a.j(C, other)
    a.xor(letters, letters)
    a.lea(R8, mem8(host, index=RCX, ref=NAME))
    with a.loop() as each:
        a.movzx(EAX, mem8(R8, -1, index=RDX, ref=NAME))
        a.movzx(R9D, mem8(domain, -1, index=RDX, ref=NAME))
        a.or_(EAX, LOWER)
        a.or_(R9D, LOWER)
        a.cmp(EAX, R9D)
        a.jne(other)
        a.cmp(EAX, ord("9"))
        with a.if_(A):
            a.inc(letters)
        a.dec(length)
        a.again(NZ, each)
    a.test(size, size)
    a.jz(under)
    a.test(letters, letters)
    a.jz(other)
    a.cmp(mem8(R8, -1, ref=NAME), ord("."))
    a.jne(other)
    a.place(under)
    a.clc()
    a.ret()
    a.place(other)
    a.stc()
    a.ret()


def _take_parent(a: Asm, none: Label) -> None:
    """RDI, EDX := what follows the first dot of RSI, ECX, if it has a dot and a letter itself."""
    letters, dots = R8D, R9D
    with a.loop() as label:
        a.sub(ECX, 1)
        a.j(C, none)
        a.movzx(EAX, mem8(RSI, ref=NAME))
        a.inc(RSI)
        a.cmp(AL, ord("."))
        a.again(NE, label)
    # The parent of an address is none, and that of a short name is all names of its kind.
    a.mov(RDI, RSI)
    a.mov(EDX, ECX)
    a.xor(letters, letters)
    a.xor(dots, dots)
    with a.loop() as each:
        a.sub(ECX, 1)
        a.leave(C, each)
        a.movzx(EAX, mem8(RDI, index=RCX, ref=NAME))
        a.cmp(AL, ord("."))
        with a.if_(E):
            a.inc(dots)
        a.cmp(AL, ord("9"))
        with a.if_(A):
            a.inc(letters)
        a.jmp(each.top)
    a.test(dots, dots)
    a.j(Z, none)
    a.test(letters, letters)
    a.j(Z, none)


@routine(
    inputs=[In(RSI, int, "a host"), In(ECX, int, "its bytes")],
    outputs=[Out(CF, "1 = the token must not go there")],
    clobbers=CALLER_SAVED,
    reads=[NAME, ConfigBlob.resume_suffix_len],
    calls=[ws_base, host_is_under],
    saves=[R12, R13],
    source="firmware/docs/gateway.md#hosts-that-hear-the-token",
)
def gateway_host_allowed(a: Asm, host: Reg64, size: Reg32) -> None:
    """Allow the gateway, names below it, and what is under the suffix; by default its parent."""
    refused = a.label("refused")
    a.mov(R12, host)
    a.mov(R13D, size)
    a.call(ws_base)
    a.mov(RDI, RSI)
    a.mov(EDX, ECX)
    a.mov(RSI, R12)
    a.mov(ECX, R13D)
    a.call(host_is_under)
    with a.if_(NC):
        a.ret()

    a.lea(RDI, CONFIG.it.resume_suffix.address)
    a.mov(EDX, CONFIG.it.resume_suffix_len)
    a.test(EDX, EDX)
    with a.if_(Z):
        a.call(ws_base)
        _take_parent(a, refused)
    a.mov(RSI, R12)
    a.mov(ECX, R13D)
    a.jmp(host_is_under)
    a.place(refused)
    a.stc()
    a.ret()
