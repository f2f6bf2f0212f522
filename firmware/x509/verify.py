"""Signatures: a message is hashed, and the key that must have signed it verifies what was made of it.

One way serves certificates and TLS's CertificateVerify. Everything is public.
"""

from __future__ import annotations

from firmware.abi import CALLER_SAVED
from firmware.crypto.chosen import leave_to
from firmware.crypto.ecdsa import (
    ecdsa_p256_verify_adx,
    ecdsa_p256_verify_base,
    ecdsa_p384_verify_adx,
    ecdsa_p384_verify_base,
)
from firmware.crypto.rsa import rsa_recover_adx, rsa_recover_base
from firmware.crypto.rsa_encodings import FUNCTIONS, RSA_PKCS1, RSA_PSS
from firmware.layouts.field import Level
from firmware.layouts.rsa import RSA, RSA_HASHES, RsaKey
from firmware.layouts.variants import VARIANTS, Variants
from firmware.layouts.x509 import (
    ECDSA,
    P256_BYTES,
    P384_BYTES,
    SIGNATURE_HASHES,
    Certificate,
    KeyKind,
    PublicKey,
    SignatureAlgorithm,
    Slice,
)
from firmware.layouts.x509_chain import Chain
from firmware.x509.signature import ecdsa_signature_read
from toolchain.asm import (
    EAX,
    EBP,
    EBX,
    ECX,
    EDI,
    EDX,
    R8,
    R9,
    R12,
    R13,
    R13D,
    R14,
    RAX,
    RBP,
    RBX,
    RDI,
    RDX,
    RSI,
    Asm,
    C,
    E,
    In,
    Out,
    Reg32,
    Reg64,
    Routine,
    routine,
)

RECOVER = {Level.ADX: rsa_recover_adx, Level.BASE: rsa_recover_base}
CURVES = {
    Level.ADX: {
        KeyKind.P256: (ecdsa_p256_verify_adx, P256_BYTES),
        KeyKind.P384: (ecdsa_p384_verify_adx, P384_BYTES),
    },
    Level.BASE: {
        KeyKind.P256: (ecdsa_p256_verify_base, P256_BYTES),
        KeyKind.P384: (ecdsa_p384_verify_base, P384_BYTES),
    },
}
_A = SignatureAlgorithm
CHECKS = {
    _A.RSA_SHA256: RSA_PKCS1["sha256"],
    _A.RSA_SHA384: RSA_PKCS1["sha384"],
    _A.RSA_SHA512: RSA_PKCS1["sha512"],
    _A.PSS_SHA256: RSA_PSS["sha256"],
    _A.PSS_SHA384: RSA_PSS["sha384"],
    _A.PSS_SHA512: RSA_PSS["sha512"],
}
"""What judges the encoded message that RSA gives back."""


@routine(
    inputs=[
        In(RDI, Chain, "a chain, for its work space"),
        In(EDX, int, "SignatureAlgorithm"),
        In(RSI, int, "the message"),
        In(ECX, int, "its bytes"),
    ],
    outputs=[Out(EAX, "bytes of the digest, in `Chain.signed`; 0 = an algorithm of none")],
    clobbers=CALLER_SAVED,
    calls=[call for functions in FUNCTIONS.values() for call in functions],
    saves=[RBX, RBP, R12, R13],
    source="FIPS 180-4",
)
def x509_digest(a: Asm, chain: Chain, algorithm: Reg32, message: Reg64, length: Reg32) -> None:
    """Hash a message as its signature's algorithm does."""
    kept, size = Chain.at(R12), R13D
    a.mov(R12, RDI)
    a.mov(RBX, message)
    a.mov(EBP, length)
    hashes = {h: a.label(h.name) for h in RSA_HASHES}
    for h, label in hashes.items():  # unrolled: eight algorithms
        for served in SIGNATURE_HASHES[h.name]:
            a.cmp(algorithm, served)
            a.je(label)
    a.xor(EAX, EAX)
    a.ret()
    for h, label in hashes.items():  # unrolled: three hashes
        start, update, finish = FUNCTIONS[h.name]
        a.place(label)
        a.mov(size, h.size)
        a.lea(RDI, kept.hash.state.address)
        a.call(start)
        a.lea(RDI, kept.hash.state.address)
        a.mov(RSI, RBX)
        a.mov(ECX, EBP)
        a.call(update)
        a.lea(RDI, kept.hash.state.address)
        a.lea(RSI, kept.signed.address)
        a.call(finish)
        a.mov(EAX, size)
        a.ret()


SIGNATURE_INPUTS = [
    In(RDI, Chain, "a chain, for its work space"),
    In(RSI, PublicKey, "the key that must have signed"),
    In(EDX, int, "SignatureAlgorithm"),
    In(R8, int, "what it must have signed"),
    In(ECX, int, "its bytes"),
    In(R9, Slice, "the signature"),
]
SIGNATURE_OUTPUTS = [Out(EAX, "1 = the signature is good; else 0")]


def _verify(level: Level) -> Routine:
    curves, recover = CURVES[level], RECOVER[level]

    def body(
        a: Asm,
        chain: Chain,
        key: PublicKey,
        algorithm: Reg32,
        message: Reg64,
        length: Reg32,
        signature: Slice,
    ) -> None:
        """Verify a signature; a key and an algorithm that do not fit are refused."""
        kept, signer, sealed = Chain.at(R12), PublicKey.at(R13), Slice.at(R14)
        wanted, number_bytes = EBX, EBP
        refused, curve, done = a.label("refused"), a.label("curve"), a.label("done")
        a.mov(R12, RDI)
        a.mov(R13, RSI)
        a.mov(R14, R9)
        a.mov(wanted, algorithm)
        a.mov(RSI, message)
        for one in ECDSA:  # unrolled: two hashes
            a.cmp(wanted, one)
            a.je(curve)

        a.cmp(signer.kind, KeyKind.RSA)
        a.jne(refused)
        a.call(x509_digest)
        a.test(EAX, EAX)
        a.jz(refused)
        given = RSA.it.key
        a.mov(RAX, signer.value.start)
        a.mov(given.modulus, RAX)
        a.mov(EAX, signer.value.size)
        a.mov(given.size, EAX)
        a.mov(EAX, signer.exponent)
        a.mov(given.exponent, EAX)
        a.lea(RDI, given.modulus)
        a.mov(RSI, sealed.start)
        a.mov(ECX, sealed.size)
        a.call(recover)
        a.j(C, refused)
        a.lea(RSI, kept.signed.address)
        *others, last = CHECKS
        for one in others:  # unrolled: six algorithms
            a.cmp(wanted, one)
            with a.if_(E):
                a.call(CHECKS[one])
                a.jmp(done)
        a.call(CHECKS[last])
        a.jmp(done)

        a.place(curve)
        a.xor(number_bytes, number_bytes)
        for kind, (_, size) in curves.items():  # unrolled: two curves
            a.cmp(signer.kind, kind)
            with a.if_(E):
                a.mov(number_bytes, size)
        a.test(number_bytes, number_bytes)
        a.jz(refused)
        a.call(x509_digest)
        a.mov(EBX, EAX)
        a.mov(RSI, sealed.start)
        a.mov(EDI, sealed.size)
        a.add(RDI, RSI)
        a.lea(RDX, kept.numbers.address)
        a.mov(ECX, number_bytes)
        a.call(ecdsa_signature_read)
        a.j(C, refused)
        a.mov(RDI, signer.value.start)
        a.inc(RDI)
        a.lea(RSI, kept.numbers.address)
        a.lea(RDX, kept.signed.address)
        a.mov(ECX, EBX)
        a.cmp(number_bytes, P256_BYTES)
        with a.if_(E):
            a.call(curves[KeyKind.P256][0])
            a.jmp(done)
        a.call(curves[KeyKind.P384][0])
        a.place(done)
        a.mov(EAX, 1)
        a.sbb(EAX, 0)
        a.ret()
        a.place(refused)
        a.xor(EAX, EAX)
        a.ret()

    body.__name__ = f"x509_verify_{level.value}"
    return routine(
        inputs=SIGNATURE_INPUTS,
        outputs=SIGNATURE_OUTPUTS,
        clobbers=CALLER_SAVED,
        reads=[PublicKey.kind, PublicKey.exponent, Slice.start, Slice.size],
        writes=[RsaKey],
        calls=[
            x509_digest,
            recover,
            *CHECKS.values(),
            ecdsa_signature_read,
            *(verify for verify, _ in curves.values()),
        ],
        saves=[RBX, RBP, R12, R13, R14],
        source="RFC 5758 3.2, RFC 8017 8, RFC 8446 4.2.3",
    )(body)


x509_verify_adx = _verify(Level.ADX)
x509_verify_base = _verify(Level.BASE)


@routine(
    inputs=SIGNATURE_INPUTS,
    outputs=SIGNATURE_OUTPUTS,
    clobbers=CALLER_SAVED,
    reads=[Variants.signatures],
    calls=[x509_verify_adx, x509_verify_base],
    source="firmware/layouts/variants.py",
)
def x509_verify(
    a: Asm,
    chain: Chain,
    key: PublicKey,
    algorithm: Reg32,
    message: Reg64,
    length: Reg32,
    signature: Slice,
) -> None:
    """Verify a signature with the variant that boot chose."""
    leave_to(a, VARIANTS.it.signatures, x509_verify_adx, x509_verify_base)


@routine(
    inputs=[
        In(RDI, Chain, "the chain, for its work space"),
        In(RSI, PublicKey, "the issuer's key, as `x509_chain_step` names it"),
        In(RDX, Certificate, "the certificate that it must have signed"),
    ],
    outputs=SIGNATURE_OUTPUTS,
    clobbers=CALLER_SAVED,
    reads=[Certificate.signature_algorithm, Slice.start, Slice.size],
    calls=[x509_verify],
    source="RFC 5280 6.1.3 a 1",
)
def x509_verify_signature(a: Asm, chain: Chain, key: PublicKey, certificate: Certificate) -> None:
    """Verify a certificate with its issuer's key."""
    a.mov(R8, certificate.tbs.start)
    a.mov(ECX, certificate.tbs.size)
    a.lea(R9, certificate.signature.start)
    a.mov(EDX, certificate.signature_algorithm)
    a.jmp(x509_verify)
