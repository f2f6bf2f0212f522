"""ECDSA signatures in DER."""

from emulator.effects import World, model
from emulator.models.x509.der import der_open, der_unsigned

_SEQUENCE, _INTEGER = 0x30, 0x02


@model
def ecdsa_signature_read(w: World, signature: int, end: int, out: int, size: int) -> int:
    """SEQUENCE { r INTEGER, s INTEGER } and nothing else; both right-aligned."""
    bad, _, at, last = der_open(w, signature, end, _SEQUENCE)
    if bad or last != end:
        return 1
    for n in range(2):
        bad, _, at, last = der_open(w, at, end, _INTEGER)
        if bad:
            return 1
        bad, first, count = der_unsigned(w, at, last)
        if bad or count > size:
            return 1
        w.write(out + n * size, w.read(first, count).rjust(size, b"\0"))
        at = last
    return int(at != end)
