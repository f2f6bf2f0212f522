"""The names of a certificate: is this host one of them (RFC 9525 6.3, RFC 5280 4.2.1.6)."""

from firmware.abi import CALLER_SAVED
from firmware.layouts.der import DER_IN
from firmware.layouts.dns import DNS_TEXT_MAX
from firmware.layouts.x509 import IPV4_BYTES, Certificate, GeneralName, Slice
from firmware.net.dns_name import LABEL_MAX, dns_parse_quad
from firmware.x509.der import der_read
from toolchain.asm import (
    BE,
    CF,
    EAX,
    EBP,
    EBX,
    ECX,
    EDI,
    EDX,
    NC,
    NE,
    NZ,
    R8,
    R8D,
    R9D,
    R10D,
    R11D,
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
    A,
    Asm,
    B,
    C,
    E,
    In,
    Label,
    Out,
    Reg32,
    Reg64,
    Z,
    mem8,
    mem32,
    routine,
)

WILDCARD_LABELS = 2
"""Labels that must follow a wildcard."""


@routine(
    inputs=[In(RSI, int, "text"), In(ECX, int, "its bytes")],
    outputs=[
        Out(CF, "1 = no host name"),
        Out(EAX, "1 = its first label is a wildcard; 0 when there is none or it is no name"),
    ],
    clobbers=CALLER_SAVED,
    reads=[DER_IN],
    source="RFC 9525 6.3, firmware/docs/x509.md#names",
)
def x509_dns_valid(a: Asm, text: Reg64, size: Reg32) -> None:
    """Judge a name of letters, digits, hyphens and underscores; the last label is no number."""
    wildcard, length, labels, letters, last = EDI, R8D, R9D, R10D, EDX
    bad, good = a.label("bad"), a.label("good")
    for register in (wildcard, length, labels, letters, last):  # unrolled: five registers
        a.xor(register, register)
    a.lea(EAX, mem8(RCX, -1, ref=DER_IN))
    a.cmp(EAX, DNS_TEXT_MAX - 1)
    a.j(A, bad)
    # Only a whole first label can be a wildcard.
    a.cmp(mem8(RSI, ref=DER_IN), ord("*"))
    with a.if_(E):
        a.cmp(size, len(b"*."))
        a.j(B, bad)
        a.cmp(mem8(RSI, 1, ref=DER_IN), ord("."))
        a.jne(bad)
        a.inc(wildcard)
        a.add(RSI, len(b"*."))
        a.sub(size, len(b"*."))
        a.jz(bad)
    with a.loop() as each:
        a.movzx(EAX, mem8(RSI, ref=DER_IN))
        a.inc(RSI)
        a.cmp(EAX, ord("."))
        with a.if_(E):
            _label_ends(a, bad)
            a.inc(labels)
            a.xor(length, length)
            a.xor(letters, letters)
            a.mov(last, ord("."))
        with a.else_():
            a.inc(length)
            a.mov(last, EAX)
            _character(a, bad)
        a.dec(size)
        a.again(NZ, each)
    _label_ends(a, bad)
    a.test(letters, letters)
    a.jz(bad)
    a.inc(labels)
    a.mov(EAX, wildcard)
    a.test(EAX, EAX)
    a.jz(good)
    a.cmp(labels, WILDCARD_LABELS)
    a.jb(bad)
    a.place(good)
    a.clc()
    a.ret()
    a.place(bad)
    a.xor(EAX, EAX)
    a.stc()
    a.ret()


def _label_ends(a: Asm, bad: Label) -> None:
    """Refuse a label that is empty, too long, or ends with a hyphen; R8D is its length."""
    a.cmp(EDX, ord("-"))
    a.je(bad)
    a.lea(EAX, mem8(R8, -1, ref=DER_IN))
    a.cmp(EAX, LABEL_MAX - 1)
    a.j(A, bad)


def _character(a: Asm, bad: Label) -> None:
    """Refuse what no label holds; EAX is the character, R8D its place in the label from 1 on."""
    fine, letter = a.label("fine"), a.label("letter")
    a.lea(R11D, mem8(RAX, -ord("0"), ref=DER_IN))
    a.cmp(R11D, 9)
    a.j(BE, fine)
    a.cmp(EAX, ord("_"))
    a.je(letter)
    a.cmp(EAX, ord("-"))
    with a.if_(E):
        a.cmp(R8D, 1)
        a.je(bad)
        a.jmp(letter)
    a.or_(EAX, 0x20)
    a.sub(EAX, ord("a"))
    a.cmp(EAX, ord("z") - ord("a"))
    a.j(A, bad)
    a.place(letter)
    a.inc(R10D)
    a.place(fine)


@routine(
    inputs=[
        In(RSI, int, "a text"),
        In(ECX, int, "its bytes"),
        In(RDI, int, "another one"),
        In(EDX, int, "its bytes"),
    ],
    outputs=[Out(ZF, "1 = the same")],
    clobbers=[RAX, RCX, RDI, RSI, R8],
    reads=[DER_IN],
    source="RFC 4343",
)
def x509_same_text(a: Asm, one: Reg64, size: Reg32, other: Reg64, other_size: Reg32) -> None:
    """Compare two texts without regard to the case of ASCII letters."""
    done = a.label("done")
    a.cmp(size, other_size)
    a.jne(done)
    a.test(size, size)
    a.jz(done)
    with a.loop() as each:
        a.movzx(EAX, mem8(one, ref=DER_IN))
        _small(a, EAX)
        a.movzx(R8D, mem8(other, ref=DER_IN))
        _small(a, R8D)
        a.cmp(EAX, R8D)
        a.leave(NE, each)
        a.inc(one)
        a.inc(other)
        a.dec(size)
        a.again(NZ, each)
    a.place(done)
    a.ret()


def _small(a: Asm, character: Reg32) -> None:
    """Make a letter small."""
    small = a.label("small")
    a.cmp(character, ord("A"))
    a.j(B, small)
    a.cmp(character, ord("Z"))
    a.j(A, small)
    a.or_(character, 0x20)
    a.place(small)


@routine(
    inputs=[
        In(RSI, int, "a dNSName of a certificate"),
        In(ECX, int, "its bytes"),
        In(RDI, int, "the host"),
        In(EDX, int, "its bytes"),
    ],
    outputs=[Out(CF, "1 = it names the host")],
    clobbers=CALLER_SAVED,
    reads=[DER_IN],
    calls=[x509_dns_valid, x509_same_text],
    saves=[RBX, R12, R13, R14, R15],
    source="RFC 9525 6.3",
)
def x509_match_dns(a: Asm, name: Reg64, size: Reg32, host: Reg64, host_size: Reg32) -> None:
    """Compare a name with the host; a wildcard stands for exactly one label."""
    no = a.label("no")
    a.mov(R12, name)
    a.mov(R13D, size)
    a.mov(R14, host)
    a.mov(R15D, host_size)
    a.mov(EBX, host_size)
    a.call(x509_dns_valid)
    a.j(C, no)
    a.test(EAX, EAX)
    with a.if_(NZ):
        # What is left of both begins at their first dots.
        a.inc(R12)
        a.dec(R13D)
        with a.loop() as label:
            a.test(R15D, R15D)
            a.j(Z, no)
            a.cmp(mem8(R14, ref=DER_IN), ord("."))
            a.leave(E, label)
            a.inc(R14)
            a.dec(R15D)
            a.jmp(label.top)
        # The label that it stands for is not empty.
        a.cmp(R15D, EBX)
        a.je(no)
    a.mov(RSI, R12)
    a.mov(ECX, R13D)
    a.mov(RDI, R14)
    a.mov(EDX, R15D)
    a.call(x509_same_text)
    a.jne(no)
    a.stc()
    a.ret()
    a.place(no)
    a.clc()
    a.ret()


@routine(
    inputs=[
        In(RDI, Certificate, "the certificate; it was read without an error"),
        In(RSI, int, "the host: a name, or an IPv4 address in decimal"),
        In(ECX, int, "its bytes"),
    ],
    outputs=[Out(CF, "1 = it is one of the certificate's names")],
    clobbers=CALLER_SAVED,
    reads=[DER_IN, Slice.start, Slice.size],
    calls=[dns_parse_quad, der_read, x509_match_dns],
    saves=[RBX, RBP, R12, R13, R14, R15],
    source="RFC 9525 6, RFC 5280 4.2.1.6",
)
def x509_match_host(a: Asm, certificate: Certificate, host: Reg64, size: Reg32) -> None:
    """Look for the host in subjectAltName; nothing else names a host."""
    address, is_name = EBX, EBP
    no, yes = a.label("no"), a.label("yes")
    a.mov(R12, certificate.names.start)
    a.mov(R13D, certificate.names.size)
    a.add(R13, R12)
    a.mov(R14, host)
    a.mov(R15D, size)
    a.call(dns_parse_quad)
    a.mov(address, EAX)
    a.mov(is_name, 0)
    a.adc(is_name, 0)
    with a.loop() as each:
        a.cmp(R12, R13)
        a.jae(no)
        # The list was checked when the certificate was read.
        a.mov(RSI, R12)
        a.mov(RDI, R13)
        a.call(der_read)
        a.mov(R12, RDX)
        a.sub(RDX, RSI)
        a.mov(ECX, EDX)
        a.test(is_name, is_name)
        with a.if_(Z):
            a.cmp(EAX, GeneralName.IP)
            a.jne(each.top)
            a.cmp(ECX, IPV4_BYTES)
            a.jne(each.top)
            a.cmp(address, mem32(RSI, ref=DER_IN))
            a.je(yes)
            a.jmp(each.top)
        a.cmp(EAX, GeneralName.DNS)
        a.jne(each.top)
        a.mov(RDI, R14)
        a.mov(EDX, R15D)
        a.call(x509_match_dns)
        a.again(NC, each)
    a.place(yes)
    a.stc()
    a.ret()
    a.place(no)
    a.clc()
    a.ret()
