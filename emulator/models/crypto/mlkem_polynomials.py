"""Sums and products."""

from emulator.effects import World, model
from emulator.models.crypto import mlkem_arithmetic as m
from emulator.models.crypto.mlkem_ntt import get, put


@model
def mlkem_dot(w: World, out: int, first: int, stride: int, second: int) -> None:
    """Three products, summed."""
    ours = [get(w, first + n * stride) for n in range(3)]
    put(w, out, m.dot(ours, [get(w, second + n * 512) for n in range(3)]))


@model
def mlkem_add(w: World, poly: int, other: int) -> None:
    """The sum."""
    put(w, poly, m.add(get(w, poly), get(w, other)))


@model
def mlkem_subtract(w: World, poly: int, other: int) -> None:
    """The difference."""
    put(w, poly, m.subtract(get(w, poly), get(w, other)))
