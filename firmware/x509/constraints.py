"""Name constraints: which names a CA may vouch for (RFC 5280 4.2.1.10)."""

from firmware.abi import CALLER_SAVED
from firmware.layouts.der import DER_IN, Tag
from firmware.layouts.x509 import BUDGET, CONSTRAINTS, Certificate, GeneralName, Slice
from firmware.x509.der import der_open, der_read, must_end, open_element
from firmware.x509.extensions import EXTENSION_VALUE, MALFORMED
from firmware.x509.names import x509_dns_valid
from firmware.x509.subtrees import (
    MATCHED,
    OF_KIND,
    WILDCARD_BYTES,
    x509_subtrees,
    x509_subtrees_valid,
)
from toolchain.asm import (
    AE,
    EAX,
    EBP,
    EBX,
    ECX,
    EDX,
    NE,
    NZ,
    R8D,
    R12,
    R13,
    R13D,
    R14,
    R15,
    R15D,
    RBP,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    Asm,
    C,
    In,
    Out,
    Reg32,
    Reg64,
    Z,
    mem8,
    routine,
)

SUBTREES = {"permitted": Tag.CONTEXT_0, "excluded": Tag.CONTEXT_1}


@routine(
    inputs=EXTENSION_VALUE,
    outputs=MALFORMED,
    clobbers=CALLER_SAVED,
    reads=[DER_IN],
    writes=[Slice.start, Slice.size],
    calls=[der_open, x509_subtrees_valid],
    saves=[R12, R13, R14],
    source="RFC 5280 4.2.1.10",
)
def x509_name_constraints(a: Asm, value: Reg64, end: Reg64, certificate: Certificate) -> None:
    """Check nameConstraints whole, and note where they lie; empty ones are refused."""
    kept = Certificate.at(R12)
    bad = a.label("bad")
    a.mov(R12, RDI)
    a.mov(R13, end)
    open_element(a, Tag.SEQUENCE, R13, bad)
    must_end(a, R13, bad)
    a.mov(kept.constraints.start, RSI)
    a.sub(RDX, RSI)
    a.jz(bad)
    a.mov(kept.constraints.size, EDX)
    for tag in SUBTREES.values():  # unrolled: permitted and excluded
        with a.block() as absent:
            if tag is Tag.CONTEXT_1:  # something is there, but it may be the first list alone
                a.cmp(RSI, R13)
                a.leave(AE, absent)
            a.cmp(mem8(RSI, ref=DER_IN), tag)
            a.leave(NE, absent)
            open_element(a, tag, R13, bad)
            a.mov(R14, RDX)
            a.call(x509_subtrees_valid)
            a.j(C, bad)
            a.mov(RSI, R14)
    a.cmp(RSI, R13)
    a.jne(bad)
    a.clc()
    a.ret()
    a.place(bad)
    a.stc()
    a.ret()


@routine(
    inputs=[
        In(RDI, Certificate, "whose names are judged; it was read without an error"),
        In(RSI, int, "contents of a checked nameConstraints"),
        In(ECX, int, "their bytes; 0 = none"),
        In(EDX, int, "bytes that may be compared: each name costs its own and all of theirs"),
    ],
    outputs=[
        Out(EAX, "why the names are refused; 0 = they are not"),
        Out(EDX, "bytes that may be compared after it"),
    ],
    clobbers=CALLER_SAVED,
    reads=[DER_IN, Slice.start, Slice.size],
    calls=[der_read, x509_dns_valid, x509_subtrees],
    saves=[RBX, RBP, R12, R13, R14, R15],
    stack=48,
    source="RFC 5280 4.2.1.10, 6.1.4 g",
)
def x509_constrain(
    a: Asm, certificate: Certificate, constraints: Reg64, size: Reg32, left: Reg32
) -> None:
    """Judge every host name and address of a certificate by one CA's constraints."""
    refuse, fine, out = a.label("refuse"), a.label("fine"), a.label("out")
    whole, budget, used_up = a.local(4, 32), a.local(4, 36), a.label("used_up")
    a.mov(whole, size)
    a.mov(budget, left)
    a.mov(R12, certificate.names.start)
    a.mov(R13D, certificate.names.size)
    a.add(R13, R12)
    a.mov(ECX, size)
    a.lea(R14, mem8(constraints, index=RCX, ref=DER_IN))
    for n, tag in enumerate(SUBTREES.values()):  # unrolled: permitted and excluded
        start, end = a.local(8, 16 * n), a.local(8, 16 * n + 8)
        a.mov(start, 0)
        with a.block() as absent:
            a.cmp(RSI, R14)
            a.leave(AE, absent)
            if tag is Tag.CONTEXT_0:  # behind it there is nothing else
                a.cmp(mem8(RSI, ref=DER_IN), tag)
                a.leave(NE, absent)
            a.mov(RDI, R14)
            a.call(der_read)
            a.mov(start, RSI)
            a.mov(end, RDX)
            if tag is Tag.CONTEXT_0:
                a.mov(RSI, RDX)

    with a.loop() as each:
        a.cmp(R12, R13)
        a.jae(fine)
        a.mov(RSI, R12)
        a.mov(RDI, R13)
        a.call(der_read)
        a.mov(RCX, RDX)
        a.sub(RCX, R12)
        a.add(ECX, whole)
        a.sub(budget, ECX)
        a.jb(used_up)
        a.mov(R12, RDX)
        a.mov(R14, RSI)
        a.sub(RDX, RSI)
        a.mov(R15D, EDX)
        a.mov(EBX, EAX)
        a.xor(EBP, EBP)
        a.cmp(EBX, GeneralName.IP)
        with a.if_(NE):
            a.cmp(EBX, GeneralName.DNS)
            a.jne(each.top)
            # A name that is none could mean anything to somebody.
            a.mov(ECX, EDX)
            a.call(x509_dns_valid)
            a.j(C, refuse)
            a.mov(EBP, EAX)
            a.test(EAX, EAX)
            with a.if_(NZ):
                a.add(R14, WILDCARD_BYTES)
                a.sub(R15D, WILDCARD_BYTES)
        # All that a wildcard stands for must be permitted, and none of it excluded.
        for n, which in enumerate(SUBTREES):  # unrolled: permitted and excluded
            with a.block() as absent:
                a.mov(RSI, a.local(8, 16 * n))
                a.test(RSI, RSI)
                a.leave(Z, absent)
                a.mov(RDX, a.local(8, 16 * n + 8))
                a.mov(EAX, EBX)
                a.mov(RDI, R14)
                a.mov(ECX, R15D)
                if which == "permitted":
                    a.xor(R8D, R8D)
                    a.call(x509_subtrees)
                    a.cmp(EAX, OF_KIND)
                    a.je(refuse)
                else:
                    a.mov(R8D, EBP)
                    a.call(x509_subtrees)
                    a.test(EAX, MATCHED)
                    a.jnz(refuse)
        a.jmp(each.top)
    a.place(fine)
    a.xor(EAX, EAX)
    a.jmp(out)
    a.place(used_up)
    a.mov(budget, 0)
    a.mov(EAX, BUDGET.code)
    a.jmp(out)
    a.place(refuse)
    a.mov(EAX, CONSTRAINTS.code)
    a.place(out)
    a.mov(EDX, budget)
    a.ret()
