"""What log_write makes of a template: text is copied, an op becomes the text of a value."""

from firmware.layouts.log_line import IN_CONTEXT, NAMES_END, Render
from firmware.layouts.node import CLOCK
from toolchain.asm import (
    AL,
    AX,
    CL,
    DL,
    EAX,
    EBX,
    ECX,
    EDX,
    NZ,
    R8,
    R8B,
    R8D,
    R9,
    R9B,
    R9D,
    R10,
    R11,
    R11D,
    RAX,
    RBP,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    RSP,
    A,
    Asm,
    B,
    Label,
    Region,
    S,
    Z,
    mem8,
    mem16,
    mem32,
    mem64,
)
from toolchain.asm.assembler import STACK

TEMPLATES = Region("log_templates", "read-only texts; offsets in it are made by build_templates")
COMPUTED = Region("nothing", "LEA only computes")
SHARD = Region("shard", "the fields of the line's shard that its code names")
# Locals of log_write: six values, then room for digits (written from the end), then the line.
VALUES, DIGITS_END, LINE = 0, 72, 72
NONE = b"none"


def in_ms(a: Asm) -> None:
    """Turn cycles in RAX into milliseconds; 0 while the clock is unknown. Clobbers RCX, RDX."""
    a.mov(RCX, CLOCK.it.tsc_cycles_per_ms)
    a.xor(EDX, EDX)
    a.test(RCX, RCX)
    with a.if_(Z):
        a.xor(EAX, EAX)
    with a.else_():
        a.div(RCX)


def interpret(a: Asm, finished: Label) -> None:
    """Copy template text to the line; render a value at each op.

    Registers: RSI template, RDI line, RBX text of the code (0 once it is being copied), R9 value,
    R8 radix, R10 table, R11 octets of an IPv4 address that still follow.
    """
    template, operation, more = a.label("template"), a.label("operation"), a.label("more")
    number, names, name = a.label("number"), a.label("names"), a.label("name")
    flagged = a.label("flagged")
    a.place(template)
    a.lodsb()
    a.test(AL, AL)
    a.j(S, operation)
    a.jz(more)
    a.stosb()
    a.jmp(template)
    # The prefix is followed by the text of the code, which is followed by nothing.
    a.place(more)
    a.test(RBX, RBX)
    a.jz(finished)
    a.lea(RSI, mem8(RBX, 1, ref=TEMPLATES))
    a.xor(EBX, EBX)
    a.jmp(template)

    a.place(operation)
    a.mov(ECX, EAX)
    a.and_(ECX, 7)
    a.cmp(ECX, IN_CONTEXT)
    with a.if_(Z):
        _from_shard(a)
    with a.else_():
        a.mov(R9, mem64(RSP, VALUES, index=RCX, scale=8, ref=STACK))
    a.xor(R11D, R11D)
    a.mov(R8D, 10)
    a.and_(AL, 0x78)
    a.cmp(AL, Render.NAMES << 3)
    a.jz(names)
    with a.if_(A):
        a.cmp(AL, Render.WORD << 3)
        a.j(Z, name)
        a.j(A, flagged)
        # SHARD: nothing for the node's own lines.
        a.test(RBP, RBP)
        a.jz(template)
        a.mov(RAX, int.from_bytes(b" shard=\0", "little"))
        a.mov(mem64(RDI, ref=STACK), RAX)
        a.add(RDI, 7)
        a.jmp(number)
    a.cmp(AL, Render.IP << 3)
    with a.if_(A):  # MS
        a.mov(RAX, R9)
        in_ms(a)
        a.mov(R9, RAX)
        a.jmp(number)
    with a.if_(Z):
        a.mov(R9D, R9D)
        a.mov(R11D, 3)
        a.jmp(number)
    a.cmp(AL, Render.HEX << 3)
    with a.if_(Z):
        a.mov(mem16(RDI, ref=STACK), int.from_bytes(b"0x", "little"))
        a.add(RDI, 2)
        a.mov(R8D, 16)

    _number(a, number, template)
    _name(a, names, number, template)
    _word(a, name, template)
    _known(a, flagged, number, template)


def _from_shard(a: Asm) -> None:
    """R9 := the value in the shard that the template names; exactly its bytes. Clobbers RCX, RDX."""
    loaded = a.label("loaded")
    a.movzx(ECX, mem16(RSI, ref=TEMPLATES))
    a.add(RSI, 2)
    a.mov(EDX, ECX)
    a.and_(EDX, 3)
    a.shr(ECX, 2)
    a.add(RCX, RBP)
    a.sub(EDX, 1)
    with a.if_(B):
        a.movzx(R9D, mem8(RCX, ref=SHARD))
        a.jmp(loaded)
    with a.if_(Z):
        a.movzx(R9D, mem16(RCX, ref=SHARD))
        a.jmp(loaded)
    a.sub(EDX, 1)
    with a.if_(Z):
        a.mov(R9D, mem32(RCX, ref=SHARD))
    with a.else_():
        a.mov(R9, mem64(RCX, ref=SHARD))
    a.place(loaded)


def _number(a: Asm, number: Label, template: Label) -> None:
    """Print R9 in radix R8; of an address one octet, R11 more to come."""
    a.place(number)
    a.mov(RAX, R9)
    a.test(R11D, R11D)
    with a.if_(NZ):
        a.movzx(EAX, R9B)
    a.lea(RCX, a.local(1, DIGITS_END))
    with a.loop() as digits:
        a.xor(EDX, EDX)
        a.div(R8)
        a.add(DL, ord("0"))
        a.cmp(DL, ord("9"))
        with a.if_(A):
            a.add(DL, ord("a") - ord("9") - 1)
        a.dec(RCX)
        a.mov(mem8(RCX, ref=STACK), DL)
        a.test(RAX, RAX)
        a.again(NZ, digits)
    a.mov(RDX, RSI)
    a.mov(RSI, RCX)
    a.lea(RAX, a.local(1, DIGITS_END))
    a.sub(RAX, RCX)
    a.mov(RCX, RAX)
    a.rep_movsb()
    a.mov(RSI, RDX)
    a.sub(R11D, 1)
    a.j(B, template)
    a.mov(AL, ord("."))
    a.stosb()
    a.shr(R9, 8)
    a.jmp(number)


def _name(a: Asm, names: Label, number: Label, template: Label) -> None:
    """Print the text of value R9; of one without a text the table's last text and the number."""
    known = a.label("known")
    a.place(names)
    a.lodsw()
    a.movzx(ECX, AX)
    a.add(RCX, R10)
    with a.loop() as search:
        a.movzx(EDX, mem16(RCX, ref=TEMPLATES))
        a.movzx(EAX, mem8(RCX, 2, ref=TEMPLATES))
        a.add(RCX, 3)
        a.cmp(EDX, NAMES_END)
        a.leave(Z, search)
        a.cmp(RDX, R9)
        a.jz(known)
        a.add(RCX, RAX)
        a.jmp(search.top)
    a.place(known)
    a.mov(R11, RSI)
    a.mov(RSI, RCX)
    a.mov(ECX, EAX)
    a.rep_movsb()
    a.mov(RSI, R11)
    a.xor(R11D, R11D)
    a.cmp(EDX, NAMES_END)
    a.jz(number)
    a.jmp(template)


def _word(a: Asm, word: Label, template: Label) -> None:
    """Print a name that a peer sent: R9 characters, at most as many as the template says."""
    a.place(word)
    a.movzx(EDX, mem16(RSI, ref=TEMPLATES))
    a.movzx(ECX, mem8(RSI, 2, ref=TEMPLATES))
    a.add(RSI, 3)
    a.add(RDX, RBP)
    a.cmp(R9D, ECX)
    a.cmov(B, ECX, R9D)
    a.test(ECX, ECX)
    a.jz(template)
    with a.loop() as characters:
        a.mov(AL, mem8(RDX, ref=SHARD))
        a.inc(RDX)
        with a.block() as printed:
            a.cmp(AL, ord("_"))
            a.leave(Z, printed)
            a.lea(R8D, mem8(RAX, -ord("0"), ref=COMPUTED))
            a.cmp(R8B, 10)
            a.leave(B, printed)
            a.lea(R8D, mem8(RAX, -ord("A"), ref=COMPUTED))
            a.cmp(R8B, 26)
            a.leave(B, printed)
            a.mov(AL, ord("?"))
        a.stosb()
        a.dec(ECX)
        a.again(NZ, characters)
    a.jmp(template)


def _known(a: Asm, flagged: Label, number: Label, template: Label) -> None:
    """Print the number R9 when its flags say that it counts, else that there is none."""
    a.place(flagged)
    a.movzx(EDX, mem16(RSI, ref=TEMPLATES))
    a.movzx(ECX, mem8(RSI, 2, ref=TEMPLATES))
    a.add(RSI, 3)
    a.add(RDX, RBP)
    a.test(mem8(RDX, ref=SHARD), CL)
    a.jnz(number)
    a.mov(mem32(RDI, ref=STACK), int.from_bytes(NONE, "little"))
    a.add(RDI, len(NONE))
    a.jmp(template)
