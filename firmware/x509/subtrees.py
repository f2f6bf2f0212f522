"""Lists of subtrees: whether one is well formed, and whether it holds a name (RFC 5280 4.2.1.10)."""

from firmware.abi import CALLER_SAVED
from firmware.layouts.der import DER_IN, Tag
from firmware.layouts.x509 import IPV4_BYTES, IPV6_BYTES, GeneralName
from firmware.x509.der import der_open, der_read, must_end, open_element
from firmware.x509.names import x509_dns_valid, x509_match_dns, x509_same_text
from toolchain.asm import (
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
    mem8,
    routine,
)

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
