"""One signature of a certificate: hashed, read, and verified with the key that must have made it."""

from __future__ import annotations

from firmware.abi import CALLER_SAVED
from firmware.crypto.ecdsa import (
    ecdsa_p256_verify_adx,
    ecdsa_p256_verify_base,
    ecdsa_p384_verify_adx,
    ecdsa_p384_verify_base,
)
from firmware.crypto.sha256 import sha256_finish, sha256_start, sha256_update
from firmware.crypto.sha512 import sha384_finish, sha384_start, sha512_update
from firmware.layouts.crypto import SHA256_DIGEST_BYTES, SHA384_DIGEST_BYTES
from firmware.layouts.field import Level
from firmware.layouts.x509 import (
    P256_BYTES,
    P384_BYTES,
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
    R12,
    R13,
    R14,
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
    Routine,
    routine,
)

HASHES = {
    SignatureAlgorithm.ECDSA_SHA256: (
        sha256_start,
        sha256_update,
        sha256_finish,
        SHA256_DIGEST_BYTES,
    ),
    SignatureAlgorithm.ECDSA_SHA384: (
        sha384_start,
        sha512_update,
        sha384_finish,
        SHA384_DIGEST_BYTES,
    ),
}
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


def _verify(level: Level) -> Routine:
    curves = CURVES[level]

    def body(a: Asm, chain: Chain, key: PublicKey, certificate: Certificate) -> None:
        """Verify a certificate with its issuer's key; a pair that does not fit is refused."""
        kept, signer, signed = Chain.at(R12), PublicKey.at(R13), Certificate.at(R14)
        digest_bytes, number_bytes = EBP, EBX
        refused, hashed, done = a.label("refused"), a.label("hashed"), a.label("done")
        a.mov(R12, RDI)
        a.mov(R13, RSI)
        a.mov(R14, RDX)
        a.xor(number_bytes, number_bytes)
        for kind, (_, size) in curves.items():  # unrolled: two curves
            a.cmp(signer.kind, kind)
            with a.if_(E):
                a.mov(number_bytes, size)
        a.test(number_bytes, number_bytes)
        a.jz(refused)

        hashes = {algorithm: a.label(algorithm.name.lower()) for algorithm in HASHES}
        for algorithm, label in hashes.items():  # unrolled: two hashes
            a.cmp(signed.signature_algorithm, algorithm)
            a.je(label)
        a.place(refused)
        a.xor(EAX, EAX)
        a.ret()
        for algorithm, (start, update, finish, size) in HASHES.items():  # unrolled: two hashes
            a.place(hashes[algorithm])
            a.mov(digest_bytes, size)
            a.lea(RDI, kept.hash.state.address)
            a.call(start)
            a.lea(RDI, kept.hash.state.address)
            a.mov(RSI, signed.tbs.start)
            a.mov(ECX, signed.tbs.size)
            a.call(update)
            a.lea(RDI, kept.hash.state.address)
            a.lea(RSI, kept.signed.address)
            a.call(finish)
            a.jmp(hashed)

        a.place(hashed)
        a.mov(RSI, signed.signature.start)
        a.mov(EDI, signed.signature.size)
        a.add(RDI, RSI)
        a.lea(RDX, kept.numbers.address)
        a.mov(ECX, number_bytes)
        a.call(ecdsa_signature_read)
        a.j(C, refused)
        a.mov(RDI, signer.value.start)
        a.inc(RDI)
        a.lea(RSI, kept.numbers.address)
        a.lea(RDX, kept.signed.address)
        a.mov(ECX, digest_bytes)
        a.cmp(number_bytes, P256_BYTES)
        with a.if_(E):
            a.call(curves[KeyKind.P256][0])
            a.jmp(done)
        a.call(curves[KeyKind.P384][0])
        a.place(done)
        a.mov(EAX, 1)
        a.sbb(EAX, 0)
        a.ret()

    body.__name__ = f"x509_verify_signature_{level.value}"
    return routine(
        inputs=[
            In(RDI, Chain, "the chain, for its work space"),
            In(RSI, PublicKey, "the issuer's key, as `x509_chain_step` names it"),
            In(RDX, Certificate, "the certificate that it must have signed"),
        ],
        outputs=[Out(EAX, "1 = the signature is good; else 0")],
        clobbers=CALLER_SAVED,
        reads=[PublicKey.kind, Certificate.signature_algorithm, Slice.start, Slice.size],
        calls=[
            *(
                call
                for start, update, finish, _ in HASHES.values()
                for call in (start, update, finish)
            ),
            ecdsa_signature_read,
            *(verify for verify, _ in curves.values()),
        ],
        saves=[RBX, RBP, R12, R13, R14],
        source="RFC 5280 6.1.3 a 1, RFC 5758 3.2",
    )(body)


x509_verify_signature_adx = _verify(Level.ADX)
x509_verify_signature_base = _verify(Level.BASE)
