"""One certificate: read in one pass into a `Certificate`, or refused with the place (RFC 5280 4.1).

Registers: R12 the certificate, R13 end of tbsCertificate, R14 its first byte, R15 end of it all.
"""

from firmware.abi import CALLER_SAVED
from firmware.layouts.der import DER_IN, Tag
from firmware.layouts.x509 import (
    ALGORITHMS_DIFFER,
    CRITICAL,
    DUPLICATE,
    EXTENSION,
    ID_CE,
    ID_CE_MAX,
    NOT_DER,
    PATH_ANY,
    SIGNATURE_ALGORITHMS,
    TIME,
    VERSION,
    VERSION_3,
    Certificate,
    Extension,
    Slice,
)
from firmware.x509.constraints import x509_name_constraints
from firmware.x509.der import der_known, der_open, der_read, must_end, open_element
from firmware.x509.extensions import (
    must_be_true,
    x509_basic_constraints,
    x509_extended_key_usage,
    x509_key_usage,
    x509_names,
)
from firmware.x509.key import x509_key
from firmware.x509.time import x509_time
from toolchain.asm import (
    AL,
    AX,
    BE,
    EAX,
    EBP,
    EBX,
    ECX,
    EDX,
    ESI,
    NE,
    NZ,
    R12,
    R13,
    R14,
    R15,
    RAX,
    RBP,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    SI,
    ZF,
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
    mem16,
    mem32,
    routine,
)

HANDLERS = {
    Extension.KEY_USAGE: x509_key_usage,
    Extension.SUBJECT_ALT_NAME: x509_names,
    Extension.BASIC_CONSTRAINTS: x509_basic_constraints,
    Extension.NAME_CONSTRAINTS: x509_name_constraints,
    Extension.EXTENDED_KEY_USAGE: x509_extended_key_usage,
}
"""Extensions that are read; any other must not be critical."""


@routine(
    inputs=[
        In(RSI, int, "bytes"),
        In(ECX, int, "how many"),
        In(RDI, int, "other bytes"),
        In(EDX, int, "how many"),
    ],
    outputs=[Out(ZF, "1 = the same")],
    clobbers=[RAX, RCX, RDI, RSI],
    reads=[DER_IN],
    source="RFC 5280 7.1: names are compared as they are encoded",
)
def x509_same(a: Asm, one: Reg64, size: Reg32, other: Reg64, other_size: Reg32) -> None:
    """Compare two runs of bytes."""
    done = a.label("done")
    a.cmp(size, other_size)
    a.jne(done)
    a.test(size, size)
    a.jz(done)
    with a.loop() as each:
        a.mov(AL, mem8(one, ref=DER_IN))
        a.cmp(AL, mem8(other, ref=DER_IN))
        a.leave(NE, each)
        a.inc(one)
        a.inc(other)
        a.dec(size)
        a.again(NZ, each)
    a.place(done)
    a.ret()


@routine(
    inputs=[
        In(RSI, int, "the extension, or the end"),
        In(RDX, int, "end of the extensions"),
        In(RDI, Certificate, "whose it is"),
    ],
    outputs=[
        Out(EAX, "why it is refused; 0 = it is not"),
        Out(RSI, "the next extension, or the end; 0 when refused"),
    ],
    clobbers=CALLER_SAVED,
    reads=[DER_IN, Certificate.seen],
    writes=[Certificate.seen],
    calls=[der_open, *HANDLERS.values()],
    saves=[RBX, RBP, R12, R13],
    source="RFC 5280 4.2",
)
def x509_extension(a: Asm, extension: Reg64, end: Reg64, certificate: Certificate) -> None:
    """Read one extension."""
    number, critical, value_end = EBX, EBP, R13
    kept = Certificate.at(R12)
    bad, done, refuse = map(a.label, ("bad", "done", "refuse"))
    a.mov(R12, RDI)
    a.mov(R13, end)
    a.xor(number, number)
    open_element(a, Tag.SEQUENCE, R13, bad)
    a.mov(value_end, RDX)
    open_element(a, Tag.OID, value_end, bad)

    # Extensions of id-ce have a number here, all others 0.
    with a.block() as other:
        a.mov(RCX, RDX)
        a.sub(RCX, RSI)
        a.jz(bad)
        a.cmp(RCX, len(ID_CE) + 1)
        a.leave(NE, other)
        a.cmp(mem16(RSI, ref=DER_IN), int.from_bytes(ID_CE, "little"))
        a.leave(NE, other)
        a.movzx(number, mem8(RSI, len(ID_CE), ref=DER_IN))
        a.cmp(number, ID_CE_MAX)
        a.leave(A, other)
        a.mov(RAX, kept.seen)
        a.bts(RAX, RBX)
        a.mov(kept.seen, RAX)
        with a.if_(C):
            a.mov(EAX, DUPLICATE.code)
            a.jmp(refuse)

    a.xor(critical, critical)
    a.mov(RSI, RDX)
    a.cmp(RSI, value_end)
    a.jae(bad)
    a.cmp(mem8(RSI, ref=DER_IN), Tag.BOOLEAN)
    with a.if_(E):
        open_element(a, Tag.BOOLEAN, value_end, bad)
        must_be_true(a, bad)
        a.inc(critical)
        a.mov(RSI, RDX)
    open_element(a, Tag.OCTET_STRING, value_end, bad)
    must_end(a, value_end, bad)

    a.mov(RDI, R12)
    labels = {known: a.label(known.name.lower()) for known in HANDLERS}
    for known, label in labels.items():  # unrolled: five extensions
        a.cmp(number, known)
        a.je(label)
    a.test(critical, critical)
    a.jz(done)
    a.mov(EAX, CRITICAL.code)
    a.jmp(refuse)
    for known, handler in HANDLERS.items():
        a.place(labels[known])
        a.call(handler)
        a.j(C, bad)
        a.jmp(done)

    a.place(done)
    a.mov(RSI, R13)
    a.xor(EAX, EAX)
    a.ret()
    a.place(bad)
    a.mov(EAX, EXTENSION.code)
    a.place(refuse)
    a.or_(EAX, number)
    a.xor(ESI, ESI)
    a.ret()


def _slice_to_here(a: Asm, field: Slice) -> None:
    """Keep the element that began at RBP and was opened last."""
    a.mov(field.start, RBP)
    a.mov(RCX, RDX)
    a.sub(RCX, RBP)
    a.mov(field.size, ECX)


@routine(
    inputs=[
        In(RSI, int, "the certificate"),
        In(ECX, int, "its bytes"),
        In(RDI, Certificate, "where it goes; what stood there is gone"),
    ],
    outputs=[Out(EAX, "why it is refused; 0 = it is read. `Certificate.error` says the same")],
    clobbers=CALLER_SAVED,
    reads=[DER_IN],
    writes=[
        Certificate.signature_algorithm,
        Certificate.not_before,
        Certificate.not_after,
        Certificate.path_length,
        Certificate.error,
        Slice.start,
        Slice.size,
    ],
    calls=[der_open, der_read, der_known, x509_same, x509_time, x509_key, x509_extension],
    saves=[RBX, RBP, R12, R13, R14, R15],
    stack=16,
    source="RFC 5280 4.1, firmware/docs/x509.md#certificate",
)
def x509_parse(a: Asm, encoded: Reg64, length: Reg32, certificate: Certificate) -> None:
    """Read a certificate of version 3; every byte of it belongs to something."""
    kept = Certificate.at(R12)
    bad, time_bad, refuse, done = map(a.label, ("bad", "time_bad", "refuse", "done"))
    a.mov(R12, RDI)
    a.mov(R14, encoded)
    a.mov(EBX, length)
    a.mov(ECX, Certificate.SIZE // 8)
    a.xor(EAX, EAX)
    a.rep_stosq()
    a.mov(kept.der.start, R14)
    a.mov(kept.der.size, EBX)
    a.mov(kept.path_length, PATH_ANY)
    a.lea(R15, mem8(R14, index=RBX, ref=DER_IN))

    # Certificate ::= SEQUENCE { tbsCertificate, signatureAlgorithm, signatureValue }
    open_element(a, Tag.SEQUENCE, R15, bad)
    must_end(a, R15, bad)
    a.mov(RBP, RSI)
    open_element(a, Tag.SEQUENCE, R15, bad)
    a.mov(R13, RDX)
    _slice_to_here(a, kept.tbs)
    a.mov(a.local(8), RSI)
    a.mov(RBP, RDX)
    a.mov(RSI, RDX)
    open_element(a, Tag.SEQUENCE, R15, bad)
    # The algorithm stays in RBP and RBX until the signed one comes.
    a.mov(RBX, RDX)
    a.sub(RBX, RBP)
    a.lea(RDI, SIGNATURE_ALGORITHMS.address)
    a.call(der_known)
    a.mov(kept.signature_algorithm, EAX)
    a.mov(RSI, RDX)
    open_element(a, Tag.BIT_STRING, R15, bad)
    must_end(a, R15, bad)
    a.cmp(RSI, RDX)
    a.je(bad)
    a.cmp(mem8(RSI, ref=DER_IN), 0)
    a.jne(bad)
    a.inc(RSI)
    a.mov(kept.signature.start, RSI)
    a.sub(RDX, RSI)
    a.mov(kept.signature.size, EDX)

    # version [0] INTEGER { v3(2) }
    a.mov(RSI, a.local(8))
    a.mov(RAX, R13)
    a.sub(RAX, RSI)
    a.cmp(RAX, len(VERSION_3))
    a.jb(bad)
    with a.block() as right:
        with a.block() as wrong:
            a.cmp(mem32(RSI, ref=DER_IN), int.from_bytes(VERSION_3[:4], "little"))
            a.leave(NE, wrong)
            a.cmp(mem8(RSI, 4, ref=DER_IN), VERSION_3[4])
            a.leave(E, right)
        a.mov(EAX, VERSION.code)
        a.jmp(refuse)
    a.add(RSI, len(VERSION_3))

    # serialNumber, in its shortest form: its first nine bits are not all the same.
    open_element(a, Tag.INTEGER, R13, bad)
    a.mov(kept.serial.start, RSI)
    a.mov(RCX, RDX)
    a.sub(RCX, RSI)
    a.jz(bad)
    a.mov(kept.serial.size, ECX)
    a.cmp(ECX, 1)
    with a.if_(A):
        a.movzx(EAX, mem16(RSI, ref=DER_IN))
        a.rol(AX, 8)
        a.shr(EAX, 7)
        a.inc(EAX)
        a.and_(EAX, 0x1FF)
        a.cmp(EAX, 1)
        a.j(BE, bad)

    # signature: the same as outside.
    a.mov(a.local(8), RDX)
    a.mov(RSI, RDX)
    open_element(a, Tag.SEQUENCE, R13, bad)
    a.mov(a.local(8, 8), RDX)
    a.mov(RCX, RDX)
    a.mov(RSI, a.local(8))
    a.sub(RCX, RSI)
    a.mov(RDI, RBP)
    a.mov(EDX, EBX)
    a.call(x509_same)
    with a.if_(NZ):
        a.mov(EAX, ALGORITHMS_DIFFER.code)
        a.jmp(refuse)

    # issuer: a name that is not empty.
    a.mov(RSI, a.local(8, 8))
    a.mov(RBP, RSI)
    open_element(a, Tag.SEQUENCE, R13, bad)
    a.cmp(RSI, RDX)
    a.je(bad)
    _slice_to_here(a, kept.issuer)

    # validity ::= SEQUENCE { notBefore, notAfter }
    a.mov(RSI, RDX)
    open_element(a, Tag.SEQUENCE, R13, bad)
    a.mov(RBX, RDX)
    for field in (kept.not_before, kept.not_after):  # unrolled: two times
        a.mov(RDI, RBX)
        a.call(der_read)
        a.j(C, bad)
        a.mov(RBP, RDX)
        a.mov(a.local(8), RSI)
        a.call(x509_time)
        a.j(C, time_bad)
        a.mov(field, RAX)
        a.mov(RSI, RBP)
    a.cmp(RSI, RBX)
    a.jne(bad)

    # subject and subjectPublicKeyInfo
    a.mov(RBP, RSI)
    open_element(a, Tag.SEQUENCE, R13, bad)
    _slice_to_here(a, kept.subject)
    a.mov(RSI, RDX)
    a.mov(RBP, RSI)
    open_element(a, Tag.SEQUENCE, R13, bad)
    _slice_to_here(a, kept.spki)
    a.mov(RBX, RDX)
    a.mov(RSI, RBP)
    a.lea(RDI, kept.key.kind)
    a.call(x509_key)
    a.mov(RSI, RBP)
    a.j(C, bad)
    a.mov(RSI, RBX)

    # extensions [3]; the unique identifiers before them are refused.
    a.cmp(RSI, R13)
    a.je(done)
    open_element(a, Tag.CONTEXT_3, R13, bad)
    must_end(a, R13, bad)
    open_element(a, Tag.SEQUENCE, R13, bad)
    must_end(a, R13, bad)
    with a.loop() as each:
        a.mov(RDX, R13)
        a.mov(RDI, R12)
        a.call(x509_extension)
        a.test(EAX, EAX)
        a.jnz(refuse)
        a.cmp(RSI, R13)
        a.again(B, each)
    a.place(done)
    a.xor(EAX, EAX)
    a.ret()

    a.place(time_bad)
    a.mov(RSI, a.local(8))
    a.mov(EAX, TIME.code)
    with a.block() as placed:
        a.jmp(placed)
        a.place(bad)
        a.mov(EAX, NOT_DER.code)
    a.sub(RSI, R14)
    a.movzx(ESI, SI)
    a.or_(EAX, ESI)
    a.place(refuse)
    a.mov(kept.error, EAX)
    a.ret()
