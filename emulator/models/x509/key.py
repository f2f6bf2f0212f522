"""A public key."""

from emulator.effects import World, model
from emulator.models.x509.der import der_known, der_open, der_small, der_unsigned
from firmware.layouts.x509 import KeyKind, PublicKey

_BIT_STRING, _INTEGER, _SEQUENCE = 3, 2, 0x30
_POINTS = {KeyKind.P256: 1 + 2 * 32, KeyKind.P384: 1 + 2 * 48}


@model
def x509_key(w: World, info: int, end: int, key: int) -> int:
    """Exactly one algorithm and one BIT STRING of whole bytes; what is unknown stays UNSUPPORTED."""
    view = w.view(PublicKey, key)
    bad, _, inside, after = der_open(w, info, end, _SEQUENCE)
    if bad or after != end:
        return 1
    bad, _, name, after = der_open(w, inside, end, _SEQUENCE)
    if bad:
        return 1
    kind = der_known(w, name, after, w.address("x509_key_algorithms"))
    bad, _, bits, after = der_open(w, after, end, _BIT_STRING)
    if bad or after != end or bits == end or w.u8(bits):
        return 1
    bits += 1
    if kind == KeyKind.RSA:
        return _rsa(w, bits, end, key)
    if kind and end - bits == _POINTS[KeyKind(kind)] and w.u8(bits) == 4:
        view.kind, view.value.start, view.value.size = kind, bits, end - bits
    return 0


def _rsa(w: World, bits: int, end: int, address: int) -> int:
    """RSAPublicKey: a modulus of 256 to 512 full bytes, odd; an odd exponent from 3 on."""
    key = w.view(PublicKey, address)
    bad, _, inside, after = der_open(w, bits, end, _SEQUENCE)
    if bad or after != end:
        return 1
    bad, _, first, after = der_open(w, inside, end, _INTEGER)
    if bad:
        return 1
    bad, start, size = der_unsigned(w, first, after)
    if bad:
        return 1
    key.value.start, key.value.size = start, size
    bad, _, second, after = der_open(w, after, end, _INTEGER)
    if bad or after != end:
        return 1
    _, exponent = der_small(w, second, after)
    key.exponent = exponent
    if exponent >= 3 and exponent % 2 and 256 <= size <= 512:
        edges = w.u8(start), w.u8(start + size - 1)
        if edges[0] >= 128 and edges[1] % 2:
            key.kind = KeyKind.RSA
    return 0
