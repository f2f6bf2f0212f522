"""Bits and lossy forms of polynomials."""

from emulator.effects import World, model
from emulator.models.crypto import mlkem_arithmetic as m
from emulator.models.crypto.mlkem_ntt import get, put


@model
def mlkem_encode(w: World, out: int, poly: int, bits: int) -> None:
    """Four coefficients at a time, each time eight bytes; of the last ones zeros stay behind."""
    coded = m.encode(get(w, poly), bits)
    size = bits // 2
    for at in range(0, len(coded), size):
        w.write(out + at, coded[at : at + size].ljust(8, b"\0"))


@model
def mlkem_decode(w: World, poly: int, coded: int, bits: int) -> None:
    """Coefficients of d bits; the bytes behind the last ones are read and mean nothing."""
    size = bits // 2
    put(w, poly, m.decode(w.read(coded, 64 * size + 8 - size)[: 64 * size], bits))


@model
def mlkem_compress(w: World, poly: int, bits: int) -> None:
    """Compress."""
    put(w, poly, m.compress(get(w, poly), bits))


@model
def mlkem_decompress(w: World, poly: int, bits: int) -> None:
    """Decompress."""
    put(w, poly, m.decompress(get(w, poly), bits))


@model
def mlkem_to_message(w: World, out: int, poly: int) -> None:
    """Compress and encode with one bit."""
    w.write(out, m.encode(m.compress(get(w, poly), 1), 1))


@model
def mlkem_from_message(w: World, poly: int, message: int) -> None:
    """Decode and decompress with one bit."""
    put(w, poly, m.decompress(m.decode(w.read(message, 32), 1), 1))
