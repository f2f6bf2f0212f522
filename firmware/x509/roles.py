"""May this certificate be where it is: the rules for the leaf, an issuer and an anchor.

An error's detail is the number of the certificate in the message; the callers put it in.
"""

from firmware.abi import CALLER_SAVED
from firmware.layouts.trust import TRUST, TrustRecord
from firmware.layouts.x509 import (
    EARLY,
    EXPIRED,
    KEY,
    KEY_USAGE,
    LEAF_IS_CA,
    NOT_CA,
    PATH_LENGTH,
    PURPOSE,
    Certificate,
    CertificateFlag,
    KeyKind,
    KeyUsage,
    PublicKey,
    Slice,
)
from firmware.x509.key import x509_key
from toolchain.asm import (
    EAX,
    ECX,
    EDX,
    NZ,
    RAX,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    A,
    Asm,
    G,
    In,
    L,
    Label,
    Out,
    Reg32,
    Reg64,
    Z,
    mem8,
    routine,
)


@routine(
    inputs=[
        In(RDI, Certificate, "the certificate"),
        In(RAX, int, "seconds since 1970"),
    ],
    outputs=[Out(EAX, "why it does not count now, without detail; 0 = it does")],
    reads=[Certificate.not_before, Certificate.not_after],
    source="RFC 5280 6.1.3 a 2",
)
def x509_check_time(a: Asm, certificate: Certificate, now: Reg64) -> None:
    """Judge the validity: both ends are part of it."""
    early, late = a.label("early"), a.label("late")
    a.cmp(RAX, certificate.not_before)
    a.j(L, early)
    a.cmp(RAX, certificate.not_after)
    a.j(G, late)
    a.xor(EAX, EAX)
    a.ret()
    a.place(early)
    a.mov(EAX, EARLY.code)
    a.ret()
    a.place(late)
    a.mov(EAX, EXPIRED.code)
    a.ret()


@routine(
    inputs=[
        In(RDI, Certificate, "the leaf; it was read without an error"),
        In(RAX, int, "seconds since 1970"),
    ],
    outputs=[Out(EAX, "why it is no server's; 0 = it is one's")],
    reads=[
        Certificate.flags,
        Certificate.key_usage,
        PublicKey.kind,
        Slice.size,
    ],
    calls=[x509_check_time],
    source="RFC 5280 6.1.3, RFC 9846 4.4.2.2",
)
def x509_check_leaf(a: Asm, certificate: Certificate, now: Reg64) -> None:
    """Judge the server's own certificate, but for its name."""
    done = a.label("done")
    a.call(x509_check_time)
    a.test(EAX, EAX)
    a.jnz(done)
    a.mov(EAX, LEAF_IS_CA.code)
    a.test(certificate.flags, CertificateFlag.CA)
    a.jnz(done)
    # Who is no CA signs no certificates and constrains nobody.
    a.cmp(certificate.constraints.size, 0)
    a.jne(done)
    a.mov(EAX, KEY_USAGE.code)
    a.test(certificate.flags, CertificateFlag.KEY_USAGE)
    with a.if_(NZ):
        a.test(certificate.key_usage, KeyUsage.DIGITAL_SIGNATURE)
        a.jz(done)
        a.test(certificate.key_usage, KeyUsage.KEY_CERT_SIGN)
        a.jnz(done)
    _server_auth(a, certificate, done)
    _supported(a, certificate, done)
    a.place(done)
    a.ret()


def _server_auth(a: Asm, certificate: Certificate, done: Label) -> None:
    """Refuse extKeyUsage without serverAuth."""
    with a.block() as fine:
        a.test(certificate.flags, CertificateFlag.EXTENDED_KEY_USAGE)
        a.leave(Z, fine)
        a.mov(EAX, PURPOSE.code)
        a.test(certificate.flags, CertificateFlag.SERVER_AUTH)
        a.jz(done)


def _supported(a: Asm, certificate: Certificate, done: Label) -> None:
    """Refuse a key that cannot verify; the last rule of each role."""
    a.mov(EAX, KEY.code)
    a.cmp(certificate.key.kind, KeyKind.UNSUPPORTED)
    a.je(done)
    a.xor(EAX, EAX)


@routine(
    inputs=[
        In(RDI, Certificate, "the certificate of the issuer; it was read without an error"),
        In(RAX, int, "seconds since 1970"),
        In(ECX, int, "intermediates between it and the leaf"),
    ],
    outputs=[Out(EAX, "why it may not issue here; 0 = it may")],
    reads=[
        Certificate.flags,
        Certificate.key_usage,
        Certificate.path_length,
        PublicKey.kind,
    ],
    calls=[x509_check_time],
    source="RFC 5280 6.1.4",
)
def x509_check_issuer(a: Asm, certificate: Certificate, now: Reg64, below: Reg32) -> None:
    """Judge an intermediate."""
    done = a.label("done")
    a.call(x509_check_time)
    a.test(EAX, EAX)
    a.jnz(done)
    a.mov(EAX, NOT_CA.code)
    a.test(certificate.flags, CertificateFlag.CA)
    a.jz(done)
    a.mov(EAX, PATH_LENGTH.code)
    a.cmp(below, certificate.path_length)
    a.j(A, done)
    with a.block() as fine:
        a.test(certificate.flags, CertificateFlag.KEY_USAGE)
        a.leave(Z, fine)
        a.mov(EAX, KEY_USAGE.code)
        a.test(certificate.key_usage, KeyUsage.KEY_CERT_SIGN)
        a.jz(done)
    _server_auth(a, certificate, done)
    _supported(a, certificate, done)
    a.place(done)
    a.ret()


@routine(
    inputs=[
        In(RSI, TrustRecord, "the anchor"),
        In(RAX, int, "seconds since 1970"),
        In(ECX, int, "intermediates between it and the leaf"),
        In(RDI, PublicKey, "where its key goes"),
    ],
    outputs=[Out(EAX, "why it may not issue here; 0 = it may")],
    clobbers=CALLER_SAVED,
    reads=[
        TrustRecord.not_after,
        TrustRecord.path_length,
        TrustRecord.subject_len,
        TrustRecord.spki_len,
        PublicKey.kind,
    ],
    writes=[PublicKey.kind],
    calls=[x509_key],
    saves=[RBX],
    source="firmware/docs/x509.md#anchors",
)
def x509_check_anchor(
    a: Asm, record: TrustRecord, now: Reg64, below: Reg32, key: PublicKey
) -> None:
    """Judge an anchor, and read its key."""
    kept = PublicKey.at(RBX)
    done = a.label("done")
    a.mov(RBX, RDI)
    a.mov(RDX, RAX)
    a.mov(EAX, EXPIRED.code)
    a.cmp(RDX, record.not_after)
    a.j(G, done)
    a.mov(EAX, PATH_LENGTH.code)
    a.cmp(below, record.path_length)
    a.j(A, done)
    a.mov(kept.kind, KeyKind.UNSUPPORTED)
    a.mov(ECX, record.subject_len)
    a.mov(EDX, record.spki_len)
    a.lea(RSI, mem8(RSI, TrustRecord.SIZE, index=RCX, ref=TRUST))
    a.add(RDX, RSI)
    # A store holds keys that are well formed; a malformed one would stay UNSUPPORTED.
    a.call(x509_key)
    a.mov(EAX, KEY.code)
    a.cmp(kept.kind, KeyKind.UNSUPPORTED)
    a.je(done)
    a.xor(EAX, EAX)
    a.place(done)
    a.ret()
