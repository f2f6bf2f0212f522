"""Both transforms, layer by layer."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from emulator.effects import World, model
from emulator.models.crypto.mlkem_arithmetic import Poly, inverse_layers, ntt_layers

if TYPE_CHECKING:
    from collections.abc import Iterable


def get(w: World, address: int) -> Poly:
    """Read a polynomial."""
    return list(struct.unpack("<256H", w.read(address, 512)))


def put(w: World, address: int, f: Iterable[int]) -> None:
    """Write a polynomial."""
    w.write(address, struct.pack("<256H", *f))


@model
def mlkem_ntt(w: World, poly: int) -> None:
    """Algorithm 9."""
    for layer in ntt_layers(get(w, poly)):
        put(w, poly, layer)


@model
def mlkem_inverse_ntt(w: World, poly: int) -> None:
    """Algorithm 10."""
    for layer in inverse_layers(get(w, poly)):
        put(w, poly, layer)
