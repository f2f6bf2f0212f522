"""CertificateVerify, by RFC 8446 4.4.3."""

from emulator.effects import World, model
from emulator.models.tls.server_hello import number
from emulator.models.tls.transcript import arena_of, size_of
from emulator.models.x509.trust import x509_name_hash
from emulator.models.x509.verify import x509_verify
from firmware.layouts.shard import ShardContext
from firmware.layouts.tls import HandshakeType
from firmware.layouts.tls_sites import MESSAGE_FORM, SCHEME, SIGNATURE
from firmware.layouts.trust import TrustRecord
from firmware.layouts.x509 import KeyKind, SignatureAlgorithm

# RFC 8446 4.2.3: with ECDSA the curve belongs to the scheme; PSS salts are as long as the digest.
_SCHEMES = {
    0x0403: (KeyKind.P256, SignatureAlgorithm.ECDSA_SHA256),
    0x0503: (KeyKind.P384, SignatureAlgorithm.ECDSA_SHA384),
    0x0804: (KeyKind.RSA, SignatureAlgorithm.PSS_SHA256),
    0x0805: (KeyKind.RSA, SignatureAlgorithm.PSS_SHA384),
    0x0806: (KeyKind.RSA, SignatureAlgorithm.PSS_SHA512),
}


@model
def tls_on_verify(w: World, shard: int, body: int, length: int) -> int:
    """64 spaces, the context string, a zero, the transcript's digest: signed with the leaf's key."""
    arena, data = arena_of(w, shard), w.read(body, length) if length else b""
    if length < 4 or number(data[2:4]) != length - 4:
        return MESSAGE_FORM.code | HandshakeType.CERTIFICATE_VERIFY
    scheme = number(data[:2])
    arena.signature.start, arena.signature.size = body + 4, length - 4
    arena.scheme = scheme
    chain = arena.chain
    key = chain.certificates[0].key
    kind, algorithm = _SCHEMES.get(scheme, (None, 0))
    if kind != key.kind:
        return SCHEME.code | scheme
    size = size_of(w, shard)
    context = b" " * 64 + b"TLS 1.3, server CertificateVerify" + b"\0"
    signed = context + arena.digest[:size]
    arena.signed[: len(signed)] = signed
    at, sealed = arena.offset_of("signed"), arena.signature.address_
    good = x509_verify(w, chain.address_, key.address_, algorithm, at, len(signed), sealed)
    if not good:
        return SIGNATURE.code
    tls = w.view(ShardContext, shard).tls
    tls.key_kind = key.kind
    anchor = w.view(TrustRecord, chain.anchor)
    tls.anchor = x509_name_hash(w, anchor.address_ + TrustRecord.SIZE, anchor.subject_len)
    return 0
