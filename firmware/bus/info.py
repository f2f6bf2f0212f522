"""INFO: what a server says of itself, read out of a JSON object that names much more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firmware.abi import CALLER_SAVED
from firmware.layouts.bus import INFO_TEXT, NONCE_MAX, BusLink
from firmware.text import SP, TAB, take_decimal, take_token
from toolchain.asm import (
    AE,
    AL,
    CF,
    CL,
    EAX,
    ECX,
    EDX,
    NE,
    R8,
    R8D,
    R9,
    R9D,
    R10,
    R11,
    R11B,
    R11D,
    R12,
    R13,
    R13D,
    R14,
    RAX,
    RBP,
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
    mem32,
    routine,
)
from toolchain.layout.data import Data, constant

if TYPE_CHECKING:
    from toolchain.asm import Label

QUOTE, ESCAPE = ord('"'), ord("\\")
TRUE = int.from_bytes(b"true", "little")
PART_MAX = 255
"""What a part of a version is taken for at most."""


def _key(name: bytes) -> Data:
    return constant("bus_key_" + name.decode(), name, "a key of INFO", align=1)


FLAGS = {
    _key(name.encode()): getattr(BusLink, field)
    for name, field in (
        ("ldm", "lame_duck"),
        ("tls_required", "tls_required"),
        ("tls_available", "tls_available"),
        ("headers", "headers"),
    )
}
NONCE, VERSION, CLUSTER = _key(b"nonce"), _key(b"version"), _key(b"cluster")
MAX_PAYLOAD = _key(b"max_payload")


@routine(
    inputs=[In(RSI, int, "text"), In(ECX, int, "its bytes")],
    outputs=[Out(EAX, "major << 16 | minor << 8 | patch; 0 = no version")],
    clobbers=[RCX, RDX, RSI, R8, R11],
    reads=[INFO_TEXT],
    source="firmware/docs/bus.md#info",
)
def bus_version(a: Asm, text: Reg64, length: Reg32) -> None:
    """Read three numbers with dots between; what follows means nothing."""
    part, digits, none = EDX, R8, a.label("none")
    version = R11D
    a.xor(version, version)
    for n in range(3):  # unrolled: three parts
        if n:
            a.sub(length, 1)
            a.j(B, none)
            a.cmp(mem8(text, ref=INFO_TEXT), ord("."))
            a.j(NE, none)
            a.inc(text)
        a.xor(part, part)
        a.mov(digits, text)
        with a.loop() as number:
            a.test(length, length)
            a.leave(E, number)
            a.movzx(EAX, mem8(text, ref=INFO_TEXT))
            a.sub(EAX, ord("0"))
            a.cmp(EAX, 9)
            a.leave(A, number)
            a.imul(part, part, 10)
            a.add(part, EAX)
            a.mov(EAX, PART_MAX)
            a.cmp(part, EAX)
            a.cmov(A, part, EAX)
            a.inc(text)
            a.dec(length)
            a.jmp(number.top)
        a.cmp(text, digits)
        a.j(E, none)
        a.shl(version, 8)
        a.or_(version, part)
    a.mov(EAX, version)
    a.ret()
    a.place(none)
    a.xor(EAX, EAX)
    a.ret()


@routine(
    inputs=[
        In(RBP, BusLink, "the link"),
        In(RDI, int, "name of the member"),
        In(EDX, int, "its bytes"),
        In(RSI, int, "its value, quotes and all"),
        In(ECX, int, "bytes of that, at least 1"),
    ],
    outputs=[Out(CF, "1 = a value that cannot be used")],
    clobbers=CALLER_SAVED,
    reads=[INFO_TEXT],
    writes=[
        BusLink.nonce, BusLink.nonce_len, BusLink.version, BusLink.clustered, BusLink.max_payload,
        *FLAGS.values(),
    ],
    calls=[bus_version, take_token, take_decimal],
    source="firmware/docs/bus.md#info",
)  # fmt: skip
def bus_info_value(
    a: Asm, link: BusLink, name: Reg64, name_length: Reg32, value: Reg64, length: Reg32
) -> None:
    """Take a member that counts; all others mean nothing."""
    done, bad = a.label("done"), a.label("bad")
    a.mov(R10, name)
    a.mov(R8, value)
    a.mov(R9D, length)
    a.xor(R11D, R11D)
    a.cmp(length, len(b"true"))
    with a.if_(AE):
        a.cmp(mem32(value, ref=INFO_TEXT), TRUE)
        a.set(E, R11B)
    handlers = {key: a.label(key.name) for key in (*FLAGS, NONCE, VERSION, CLUSTER, MAX_PAYLOAD)}
    for key, handler in handlers.items():  # unrolled: eight keys
        other = a.label(f"not_{key.name}")
        a.cmp(name_length, key.size)
        a.jne(other)
        a.mov(RSI, R10)
        a.lea(RDI, key.address)
        a.mov(ECX, key.size)
        a.repe_cmpsb()
        a.je(handler)
        a.place(other)
    a.place(done)
    a.clc()
    a.ret()

    for key, field in FLAGS.items():  # unrolled: four flags
        a.place(handlers[key])
        a.mov(getattr(link, field.name), R11B)
        a.jmp(done)

    a.place(handlers[CLUSTER])
    # An empty name is none.
    a.xor(EAX, EAX)
    a.cmp(mem8(R8, ref=INFO_TEXT), QUOTE)
    with a.if_(E):
        a.cmp(R9D, 2)
        a.set(A, AL)
    a.mov(link.clustered, AL)
    a.jmp(done)

    a.place(handlers[VERSION])
    a.xor(EAX, EAX)
    a.cmp(mem8(R8, ref=INFO_TEXT), QUOTE)
    with a.if_(E):
        a.lea(RSI, mem8(R8, 1, ref=INFO_TEXT))
        a.lea(ECX, mem8(R9, -1, ref=INFO_TEXT))
        a.call(bus_version)
    a.mov(link.version, EAX)
    a.jmp(done)

    a.place(handlers[MAX_PAYLOAD])
    a.mov(RSI, R8)
    a.mov(EDX, R9D)
    a.add(RDX, RSI)
    a.call(take_token)
    a.call(take_decimal)
    a.j(C, bad)
    a.mov(ECX, -1)
    a.cmp(RAX, RCX)
    a.cmov(A, EAX, ECX)
    a.mov(link.max_payload, EAX)
    a.jmp(done)

    a.place(handlers[NONCE])
    a.cmp(mem8(R8, ref=INFO_TEXT), QUOTE)
    a.jne(bad)
    a.lea(ECX, mem8(R9, -2, ref=INFO_TEXT))
    a.cmp(ECX, NONCE_MAX)
    a.j(A, bad)
    a.mov(link.nonce_len, CL)
    a.lea(RDI, link.nonce.address)
    a.lea(RSI, mem8(R8, 1, ref=INFO_TEXT))
    a.rep_movsb()
    a.jmp(done)

    a.place(bad)
    a.stc()
    a.ret()


class _Scan:
    """Emits the parts of the scanner; what ends too early leaves to `bad`."""

    def __init__(self, a: Asm, at: Reg64, end: Reg64, bad: Label) -> None:
        self._a, self.at, self._end, self._bad = a, at, end, bad

    def more(self) -> None:
        """Make sure that a byte comes."""
        self._a.cmp(self.at, self._end)
        self._a.j(AE, self._bad)

    def look(self) -> None:
        """EAX := the byte that comes."""
        self.more()
        self._a.movzx(EAX, mem8(self.at, ref=INFO_TEXT))

    def want(self, byte: str) -> None:
        """Pass over the byte in EAX, which must be this one."""
        self._a.cmp(AL, ord(byte))
        self._a.j(NE, self._bad)
        self._a.inc(self.at)

    def blanks(self) -> None:
        """Pass over blanks; EAX := the byte behind them."""
        a = self._a
        with a.loop() as more, a.block() as other:
            self.look()
            a.cmp(AL, SP)
            with a.block() as blank:
                a.leave(E, blank)
                a.cmp(AL, TAB)
                a.leave(NE, other)
            a.inc(self.at)
            a.jmp(more.top)

    def string(self) -> None:
        """Pass over a string whose first quote was read."""
        a = self._a
        with a.loop() as letters:
            self.look()
            a.inc(self.at)
            a.cmp(AL, QUOTE)
            a.leave(E, letters)
            a.cmp(AL, ESCAPE)
            a.again(NE, letters)
            self.more()
            a.inc(self.at)
            a.jmp(letters.top)

    def value(self) -> None:
        """Pass over a value that begins with EAX: a string, or all before the comma or brace behind it."""
        a, depth = self._a, ECX
        done, plain, deeper, end = map(a.label, ("done", "plain", "deeper", "end"))
        a.cmp(AL, QUOTE)
        a.j(NE, plain)
        a.inc(self.at)
        self.string()
        a.jmp(done)
        a.place(plain)
        a.xor(depth, depth)
        with a.loop() as bytes_:
            self.look()
            a.cmp(AL, ord(","))
            with a.if_(E):
                a.test(depth, depth)
                a.j(E, done)
            # A brace and a bracket differ in one bit.
            a.mov(R8D, EAX)
            a.or_(R8D, 0x20)
            a.cmp(R8D, ord("{"))
            a.j(E, deeper)
            a.cmp(R8D, ord("}"))
            a.j(E, end)
            a.inc(self.at)
            a.cmp(AL, QUOTE)
            a.again(NE, bytes_)
            self.string()
            a.jmp(bytes_.top)
            a.place(deeper)
            a.inc(depth)
            a.inc(self.at)
            a.jmp(bytes_.top)
            a.place(end)
            a.sub(depth, 1)
            a.leave(B, bytes_)
            a.inc(self.at)
            a.jmp(bytes_.top)
        a.place(done)


@routine(
    inputs=[
        In(RBP, BusLink, "the link"),
        In(RSI, int, "what follows the word INFO"),
        In(ECX, int, "its bytes"),
    ],
    outputs=[Out(CF, "1 = no object, or a value in it cannot be used")],
    clobbers=CALLER_SAVED,
    reads=[INFO_TEXT],
    writes=[
        BusLink.nonce_len, BusLink.version, BusLink.clustered, BusLink.max_payload,
        *FLAGS.values(),
    ],
    calls=[bus_info_value],
    saves=[R12, R13, R14],
    source="firmware/docs/bus.md#info",
)  # fmt: skip
def bus_info(a: Asm, link: BusLink, text: Reg64, length: Reg32) -> None:
    """Read what counts of a server's own description; what it does not name is not so."""
    at, end, name, value = R12, R13, R14, R11
    bad, done = a.label("bad"), a.label("done")
    scan = _Scan(a, at, end, bad)
    a.mov(at, text)
    a.mov(R13D, length)
    a.add(end, at)
    a.xor(EAX, EAX)
    a.mov(link.version, EAX)
    a.mov(link.max_payload, EAX)
    for field in (BusLink.nonce_len, BusLink.clustered, *FLAGS.values()):  # unrolled: six bytes
        a.mov(getattr(link, field.name), AL)
    scan.blanks()
    scan.want("{")
    scan.blanks()
    a.cmp(AL, ord("}"))
    a.j(E, done)
    with a.loop() as members:
        scan.want('"')
        a.mov(name, at)
        scan.string()
        a.mov(RDX, at)
        a.sub(RDX, name)
        a.dec(EDX)
        scan.blanks()
        scan.want(":")
        scan.blanks()
        a.mov(value, at)
        scan.value()
        a.mov(RSI, value)
        a.mov(RCX, at)
        a.sub(RCX, value)
        a.j(E, bad)
        a.mov(RDI, name)
        a.call(bus_info_value)
        a.j(C, bad)
        scan.blanks()
        a.cmp(AL, ord("}"))
        a.j(E, done)
        scan.want(",")
        scan.blanks()
        a.jmp(members.top)
    a.place(done)
    a.clc()
    a.ret()
    a.place(bad)
    a.stc()
    a.ret()
