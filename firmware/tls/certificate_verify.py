"""CertificateVerify: the server signs the handshake with the key of its certificate."""

from firmware.abi import CALLER_SAVED
from firmware.layouts.shard import ShardContext
from firmware.layouts.tls import MESSAGE_IN, HandshakeType, Scheme, TlsContext
from firmware.layouts.tls_arena import LEAF, TLS_VERIFY_CONTEXT, TlsArena
from firmware.layouts.tls_sites import MESSAGE_FORM, SCHEME, SIGNATURE
from firmware.layouts.trust import TrustRecord
from firmware.layouts.x509 import Certificate, KeyKind, PublicKey, SignatureAlgorithm, Slice
from firmware.layouts.x509_chain import Chain
from firmware.tls.hellos import MESSAGE_INPUTS, MESSAGE_OUTPUTS
from firmware.tls.refuse import Refusals
from firmware.tls.server_flight import word
from firmware.tls.transcript import hash_bytes
from firmware.x509.trust import x509_name_hash
from firmware.x509.verify import x509_verify
from toolchain.asm import (
    AX,
    EAX,
    ECX,
    EDX,
    NE,
    R8,
    R9,
    R9D,
    R12,
    RAX,
    RCX,
    RDI,
    RSI,
    Asm,
    B,
    E,
    Reg32,
    Reg64,
    Z,
    mem8,
    routine,
)

_S, _K, _A = Scheme, KeyKind, SignatureAlgorithm
SIGNING: dict[Scheme, tuple[KeyKind, SignatureAlgorithm]] = {
    _S.ECDSA_SECP256R1_SHA256: (_K.P256, _A.ECDSA_SHA256),
    _S.ECDSA_SECP384R1_SHA384: (_K.P384, _A.ECDSA_SHA384),
    _S.RSA_PSS_RSAE_SHA256: (_K.RSA, _A.PSS_SHA256),
    _S.RSA_PSS_RSAE_SHA384: (_K.RSA, _A.PSS_SHA384),
    _S.RSA_PSS_RSAE_SHA512: (_K.RSA, _A.PSS_SHA512),
}
"""Schemes of CertificateVerify; PKCS#1 serves within certificates alone (RFC 8446 4.2.3)."""


@routine(
    inputs=MESSAGE_INPUTS,
    outputs=MESSAGE_OUTPUTS,
    clobbers=CALLER_SAVED,
    reads=[
        TlsContext.arena_ptr,
        TlsContext.suite,
        TlsArena.digest,
        PublicKey.kind,
        Chain.anchor,
        TrustRecord.subject_len,
        MESSAGE_IN,
        TLS_VERIFY_CONTEXT,
    ],
    writes=[
        TlsArena.scheme,
        TlsArena.signed,
        Slice.start,
        Slice.size,
        TlsContext.anchor,
        TlsContext.key_kind,
    ],
    calls=[x509_verify, x509_name_hash],
    saves=[R12],
    source="RFC 8446 4.4.3",
)
def tls_on_verify(a: Asm, shard: ShardContext, body: Reg64, length: Reg32) -> None:
    """Verify the server's signature over the handshake so far, with the leaf's key."""
    bad = Refusals(a, (SCHEME,), {MESSAGE_FORM: HandshakeType.CERTIFICATE_VERIFY})
    out, known, arena = a.label("out"), a.label("known"), TlsArena.at(R12)
    leaf = Certificate.at(R12, LEAF)
    a.mov(R12, shard.tls.arena_ptr)
    a.sub(ECX, 4)
    a.j(B, bad[MESSAGE_FORM])
    word(a, RSI, 2)
    a.cmp(EAX, ECX)
    a.j(NE, bad[MESSAGE_FORM])
    a.mov(arena.signature.size, ECX)
    a.lea(RAX, mem8(RSI, 4, ref=MESSAGE_IN))
    a.mov(arena.signature.start, RAX)
    word(a, RSI)
    a.mov(arena.scheme, AX)
    for scheme, (kind, algorithm) in SIGNING.items():  # unrolled: five schemes
        a.cmp(EAX, scheme)
        with a.if_(E):
            a.mov(ECX, kind)
            a.mov(EDX, algorithm)
            a.jmp(known)
    a.jmp(bad[SCHEME])
    a.place(known)
    a.cmp(ECX, leaf.key.kind)
    a.j(NE, bad[SCHEME])

    a.lea(RDI, arena.signed.address)
    a.lea(RSI, TLS_VERIFY_CONTEXT.address)
    a.mov(ECX, TLS_VERIFY_CONTEXT.size)
    a.rep_movsb()
    a.lea(RSI, arena.digest.address)
    hash_bytes(a, ECX, shard)
    a.rep_movsb()
    a.lea(R8, arena.signed.address)
    a.mov(RCX, RDI)
    a.sub(RCX, R8)
    a.lea(RDI, arena.chain.now)
    a.lea(RSI, leaf.key.kind)
    a.lea(R9, arena.signature.start)
    a.call(x509_verify)
    a.test(EAX, EAX)
    a.j(Z, bad[SIGNATURE])

    # For whoever looks at the connection: whose it is, and who says so.
    a.mov(EAX, leaf.key.kind)
    a.mov(shard.tls.key_kind, EAX)
    a.mov(RSI, arena.chain.anchor)
    a.mov(ECX, TrustRecord.at(RSI).subject_len)
    a.add(RSI, TrustRecord.SIZE)
    a.call(x509_name_hash)
    a.mov(shard.tls.anchor, RAX)
    a.xor(R9D, R9D)
    a.jmp(out)
    bad.emit(out)
    a.place(out)
    a.ret()
