"""What the extensions that count here say (RFC 5280 4.2.1)."""

from firmware.abi import CALLER_SAVED
from firmware.layouts.der import DER_IN, Tag
from firmware.layouts.x509 import (
    GENERAL_NAMES,
    IPV4_BYTES,
    IPV6_BYTES,
    PURPOSES,
    Certificate,
    CertificateFlag,
    GeneralName,
    Slice,
)
from firmware.x509.der import der_known, der_open, der_read, der_small, must_end, open_element
from toolchain.asm import (
    AL,
    CF,
    EAX,
    ECX,
    NC,
    R12,
    R13,
    RAX,
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
    Label,
    Out,
    Reg64,
    Z,
    mem8,
    routine,
)

DER_TRUE = 0xFF
CONTEXT_CLASS, CLASS_MASK = 0x80, 0xC0
NAMES_MASK = sum(1 << tag % 64 for tag in GENERAL_NAMES)
"""A bit for each kind of name, by its tag without the class."""
UNUSED_MAX = 7

EXTENSION_VALUE = (
    In(RSI, int, "the extension's value"),
    In(RDX, int, "its end"),
    In(RDI, Certificate, "whose it is"),
)
MALFORMED = (Out(CF, "1 = malformed"),)


def must_be_true(a: Asm, bad: Label) -> None:
    """Refuse a BOOLEAN (RSI, RDX) other than TRUE: FALSE is a default, which DER leaves out."""
    a.mov(RCX, RDX)
    a.sub(RCX, RSI)
    a.cmp(RCX, 1)
    a.jne(bad)
    a.cmp(mem8(RSI, ref=DER_IN), DER_TRUE)
    a.jne(bad)


@routine(
    inputs=EXTENSION_VALUE,
    outputs=MALFORMED,
    clobbers=CALLER_SAVED,
    reads=[DER_IN],
    writes=[Certificate.flags, Certificate.path_length],
    calls=[der_open, der_small],
    saves=[R12, R13],
    source="RFC 5280 4.2.1.9",
)
def x509_basic_constraints(a: Asm, value: Reg64, end: Reg64, certificate: Certificate) -> None:
    """Read whether it is a CA, and how many intermediates may follow it."""
    kept = Certificate.at(R12)
    bad, good = a.label("bad"), a.label("good")
    a.mov(R12, RDI)
    a.mov(R13, end)
    open_element(a, Tag.SEQUENCE, R13, bad)
    must_end(a, R13, bad)
    a.cmp(RSI, R13)
    a.je(good)
    # Without cA there is no pathLenConstraint either.
    open_element(a, Tag.BOOLEAN, R13, bad)
    must_be_true(a, bad)
    a.or_(kept.flags, CertificateFlag.CA)
    a.mov(RSI, RDX)
    a.cmp(RSI, R13)
    a.je(good)
    open_element(a, Tag.INTEGER, R13, bad)
    must_end(a, R13, bad)
    a.call(der_small)
    a.j(C, bad)
    a.mov(kept.path_length, EAX)
    a.place(good)
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
    writes=[Certificate.flags, Certificate.key_usage],
    calls=[der_open],
    saves=[R12, R13],
    source="RFC 5280 4.2.1.3, X.690 11.2.2",
)
def x509_key_usage(a: Asm, value: Reg64, end: Reg64, certificate: Certificate) -> None:
    """Read what the key may be used for: one or two bytes of named bits, the last one set."""
    kept = Certificate.at(R12)
    bad = a.label("bad")
    a.mov(R12, RDI)
    a.mov(R13, end)
    open_element(a, Tag.BIT_STRING, R13, bad)
    must_end(a, R13, bad)
    a.mov(RCX, RDX)
    a.sub(RCX, RSI)
    a.sub(RCX, 2)
    a.cmp(RCX, 1)
    a.j(A, bad)
    # As many unused bits as there are zeros behind the last bit that is set.
    a.movzx(EAX, mem8(RDX, -1, ref=DER_IN))
    a.bsf(EAX, EAX)
    a.j(Z, bad)
    a.cmp(AL, mem8(RSI, ref=DER_IN))
    a.jne(bad)
    a.movzx(EAX, mem8(RSI, 1, ref=DER_IN))
    a.mov(kept.key_usage, EAX)
    a.or_(kept.flags, CertificateFlag.KEY_USAGE)
    a.clc()
    a.ret()
    a.place(bad)
    a.stc()
    a.ret()


@routine(
    inputs=EXTENSION_VALUE,
    outputs=MALFORMED,
    clobbers=CALLER_SAVED,
    writes=[Certificate.flags],
    calls=[der_open, der_known],
    saves=[R12, R13],
    source="RFC 5280 4.2.1.12",
)
def x509_extended_key_usage(a: Asm, value: Reg64, end: Reg64, certificate: Certificate) -> None:
    """Read extKeyUsage: whether serverAuth is among the purposes; "any" is not taken for it."""
    kept = Certificate.at(R12)
    bad = a.label("bad")
    a.mov(R12, RDI)
    a.mov(R13, end)
    open_element(a, Tag.SEQUENCE, R13, bad)
    must_end(a, R13, bad)
    a.or_(kept.flags, CertificateFlag.EXTENDED_KEY_USAGE)
    with a.loop() as each:
        # None at all is refused too: the SEQUENCE has at least one.
        open_element(a, Tag.OID, R13, bad)
        a.cmp(RSI, RDX)
        a.je(bad)
        a.lea(RDI, PURPOSES.address)
        a.call(der_known)
        a.or_(kept.flags, EAX)
        a.mov(RSI, RDX)
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
    writes=[Slice.start, Slice.size],
    calls=[der_open, der_read],
    saves=[R12, R13],
    source="RFC 5280 4.2.1.6",
)
def x509_names(a: Asm, value: Reg64, end: Reg64, certificate: Certificate) -> None:
    """Check that subjectAltName is a list of names; addresses have the length of one."""
    kept = Certificate.at(R12)
    bad, other = a.label("bad"), a.label("other")
    a.mov(R12, RDI)
    a.mov(R13, end)
    open_element(a, Tag.SEQUENCE, R13, bad)
    must_end(a, R13, bad)
    a.mov(kept.names.start, RSI)
    a.mov(RCX, RDX)
    a.sub(RCX, RSI)
    a.mov(kept.names.size, ECX)
    with a.loop() as each:
        a.mov(RDI, R13)
        a.call(der_read)
        a.j(C, bad)
        a.mov(ECX, EAX)
        a.and_(ECX, CLASS_MASK)
        a.cmp(ECX, CONTEXT_CLASS)
        a.jne(bad)
        a.mov(RCX, NAMES_MASK)
        a.bt(RCX, RAX)
        a.j(NC, bad)
        a.mov(RCX, RDX)
        a.sub(RCX, RSI)
        a.mov(RSI, RDX)
        a.cmp(EAX, GeneralName.IP)
        with a.if_(E):
            a.cmp(RCX, IPV4_BYTES)
            a.je(other)
            a.cmp(RCX, IPV6_BYTES)
            a.jne(bad)
        a.place(other)
        a.cmp(RSI, R13)
        a.again(B, each)
    a.clc()
    a.ret()
    a.place(bad)
    a.stc()
    a.ret()
