"""Name constraints: which names a CA may vouch for (RFC 5280 4.2.1.10)."""

from firmware.abi import CALLER_SAVED
from firmware.layouts.der import DER_IN, Tag
from firmware.layouts.x509 import (
    BUDGET,
    CONSTRAINTS,
    IPV4_BYTES,
    IPV6_BYTES,
    Certificate,
    GeneralName,
    Slice,
)
from firmware.x509.der import der_open, der_read, must_end, open_element
from firmware.x509.extensions import EXTENSION_VALUE, MALFORMED
from firmware.x509.names import x509_dns_valid, x509_match_dns, x509_same_text
from toolchain.asm import (
    AE,
    CF,
    EAX,
    EBP,
    EBX,
    ECX,
    EDX,
    NE,
    NZ,
    R8,
    R8B,
    R8D,
    R12,
    R13,
    R13D,
    R14,
    R15,
    R15D,
    RAX,
    RBP,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    ZF,
    Asm,
    B,
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
MATCHED, OF_KIND = 1, 2
"""What `x509_subtrees` tells: a subtree holds the name; one is of its kind."""
WILDCARD_BYTES = len(b"*.")


@routine(
    inputs=[
        In(RSI, int, "the mask of an address"),
        In(ECX, int, "its bytes, at least 1"),
    ],
    outputs=[Out(CF, "1 = not ones and then zeros")],
    clobbers=[RAX, RCX, RDX, RSI],
    reads=[DER_IN],
    source="RFC 5280 4.2.1.10, RFC 4632 3.1",
)
def x509_mask_valid(a: Asm, mask: Reg64, size: Reg32) -> None:
    """Judge a mask: after the first zero bit there are zeros alone."""
    bad = a.label("bad")
    a.xor(EDX, EDX)
    with a.loop() as each:
        a.movzx(EAX, mem8(mask, ref=DER_IN))
        # Ones where the mask has zeros: they begin at the lowest bit, and never end.
        a.xor(EAX, 0xFF)
        a.test(EDX, EDX)
        with a.if_(NZ):
            a.cmp(EAX, 0xFF)
            a.jne(bad)
        a.mov(EDX, EAX)
        a.inc(EAX)
        a.test(EAX, EDX)
        a.jnz(bad)
        a.inc(mask)
        a.dec(size)
        a.again(NZ, each)
    a.clc()
    a.ret()
    a.place(bad)
    a.stc()
    a.ret()


@routine(
    inputs=[
        In(RSI, int, "contents of GeneralSubtrees"),
        In(RDX, int, "their end"),
    ],
    outputs=[Out(CF, "1 = malformed, or of a kind that is not known here")],
    clobbers=CALLER_SAVED,
    calls=[der_open, der_read, x509_dns_valid, x509_mask_valid],
    saves=[R13, R14],
    source="RFC 5280 4.2.1.10",
)
def x509_subtrees_valid(a: Asm, contents: Reg64, end: Reg64) -> None:
    """Check a list of subtrees: host names and addresses, at least one, without distances."""
    bad, address, following = a.label("bad"), a.label("address"), a.label("following")
    a.mov(R13, end)
    with a.loop() as each:
        open_element(a, Tag.SEQUENCE, R13, bad)
        a.mov(R14, RDX)
        a.mov(RDI, R14)
        a.call(der_read)
        a.j(C, bad)
        must_end(a, R14, bad)
        a.mov(RCX, R14)
        a.sub(RCX, RSI)
        a.cmp(EAX, GeneralName.IP)
        a.je(address)
        a.cmp(EAX, GeneralName.DNS)
        a.jne(bad)
        # An empty name holds every name.
        a.test(ECX, ECX)
        a.jz(following)
        a.call(x509_dns_valid)
        a.j(C, bad)
        a.test(EAX, EAX)
        a.jnz(bad)
        a.jmp(following)
        a.place(address)
        a.shr(ECX, 1)
        a.j(C, bad)
        a.add(RSI, RCX)
        a.cmp(ECX, IPV4_BYTES)
        with a.if_(NE):
            a.cmp(ECX, IPV6_BYTES)
            a.jne(bad)
        a.call(x509_mask_valid)
        a.j(C, bad)
        a.place(following)
        a.mov(RSI, R14)
        a.cmp(RSI, R13)
        a.again(B, each)
    a.clc()
    a.ret()
    a.place(bad)
    a.stc()
    a.ret()


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
        In(RSI, int, "a name without a wildcard"),
        In(ECX, int, "its bytes"),
        In(RDI, int, "the name of a subtree"),
        In(EDX, int, "its bytes; 0 = every name"),
    ],
    outputs=[Out(ZF, "1 = the name is that one, or ends with it behind a dot")],
    clobbers=[RAX, RCX, RDI, RSI, R8],
    reads=[DER_IN],
    calls=[x509_same_text],
    source="RFC 5280 4.2.1.10",
)
def x509_dns_within(a: Asm, name: Reg64, size: Reg32, base: Reg64, base_size: Reg32) -> None:
    """Tell whether a name lies in a subtree."""
    done, same = a.label("done"), a.label("same")
    a.test(base_size, base_size)
    a.jz(done)
    a.sub(ECX, base_size)
    a.jz(same)
    a.jb(done)
    a.add(RSI, RCX)
    a.cmp(mem8(RSI, -1, ref=DER_IN), ord("."))
    a.jne(done)
    a.place(same)
    a.mov(ECX, base_size)
    a.jmp(x509_same_text)
    a.place(done)
    a.ret()


@routine(
    inputs=[
        In(RSI, int, "an address"),
        In(ECX, int, "its bytes"),
        In(RDI, int, "the address of a subtree, its mask behind it"),
        In(EDX, int, "bytes of both together"),
    ],
    outputs=[Out(ZF, "1 = the address lies in it")],
    clobbers=[RAX, RCX, RSI, RDI, R8],
    reads=[DER_IN],
    source="RFC 5280 4.2.1.10",
)
def x509_address_within(a: Asm, name: Reg64, size: Reg32, base: Reg64, base_size: Reg32) -> None:
    """Tell whether an address lies in a subtree; one of the other family does not."""
    done = a.label("done")
    a.mov(EAX, size)
    a.add(EAX, EAX)
    a.cmp(EAX, base_size)
    a.jne(done)
    a.mov(EAX, size)
    with a.loop() as each:
        a.mov(R8B, mem8(RSI, ref=DER_IN))
        a.xor(R8B, mem8(RDI, ref=DER_IN))
        a.test(mem8(RDI, index=RAX, ref=DER_IN), R8B)
        a.leave(NZ, each)
        a.inc(RSI)
        a.inc(RDI)
        a.dec(size)
        a.again(NZ, each)
    a.place(done)
    a.ret()


@routine(
    inputs=[
        In(RSI, int, "contents of GeneralSubtrees, checked"),
        In(RDX, int, "their end"),
        In(EAX, int, "GeneralName: the kind of the name"),
        In(RDI, int, "the name; of one with a wildcard, what stands behind its first dot"),
        In(ECX, int, "its bytes"),
        In(R8D, int, "1 = a wildcard stands before it, and each of its names counts"),
    ],
    outputs=[Out(EAX, "OF_KIND: a subtree is of this kind; MATCHED: one holds the name")],
    clobbers=CALLER_SAVED,
    calls=[der_read, x509_dns_within, x509_address_within, x509_match_dns],
    saves=[RBX, RBP, R12, R13, R14, R15],
    stack=16,
    source="RFC 5280 4.2.1.10",
)
def x509_subtrees(
    a: Asm, contents: Reg64, end: Reg64, kind: Reg32, name: Reg64, size: Reg32, wildcard: Reg32
) -> None:
    """Look for a name in a list of subtrees."""
    found, base, base_size, any_label = EBP, a.local(8), a.local(4, 8), a.local(4, 12)
    address, matched, other = a.label("address"), a.label("matched"), a.label("other")
    a.mov(R12, contents)
    a.mov(R13, end)
    a.mov(EBX, kind)
    a.mov(R14, name)
    a.mov(R15D, size)
    a.mov(any_label, wildcard)
    a.xor(found, found)
    with a.loop() as each:
        # The list was checked when the certificate was read.
        a.mov(RSI, R12)
        a.mov(RDI, R13)
        a.call(der_read)
        a.mov(R12, RDX)
        a.mov(RDI, RDX)
        a.call(der_read)
        a.cmp(EAX, EBX)
        a.jne(other)
        a.or_(found, OF_KIND)
        a.sub(RDX, RSI)
        a.mov(base, RSI)
        a.mov(base_size, EDX)
        a.mov(RDI, RSI)
        a.mov(RSI, R14)
        a.mov(ECX, R15D)
        a.cmp(EBX, GeneralName.IP)
        a.je(address)
        a.call(x509_dns_within)
        a.je(matched)
        a.cmp(any_label, 0)
        a.je(other)
        # One of its names may be the subtree's own.
        a.lea(RSI, mem8(R14, -WILDCARD_BYTES, ref=DER_IN))
        a.lea(ECX, mem8(R15, WILDCARD_BYTES, ref=DER_IN))
        a.mov(RDI, base)
        a.mov(EDX, base_size)
        a.call(x509_match_dns)
        a.j(C, matched)
        a.place(other)
        a.cmp(R12, R13)
        a.again(B, each)
    a.mov(EAX, found)
    a.ret()
    a.place(address)
    a.call(x509_address_within)
    a.jne(other)
    a.place(matched)
    a.mov(EAX, OF_KIND | MATCHED)
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
