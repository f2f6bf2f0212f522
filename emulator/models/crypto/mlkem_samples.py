"""Polynomials from seeds."""

from collections.abc import Iterator

from emulator.effects import World, model
from emulator.models.crypto import mlkem_arithmetic as m
from emulator.models.crypto.keccak import hashed, keccak_f1600
from emulator.models.crypto.mlkem_ntt import put
from firmware.layouts.keccak import KECCAK, SHAKE128, SHAKE256
from firmware.layouts.mlkem import MLKEM_WORK


def _blocks(w: World, at: int) -> Iterator[int]:
    """Yield SHAKE128's bytes; each further block is a permutation."""
    while True:
        yield from w.read(at, 169)[:168]
        keccak_f1600(w)


@model
def mlkem_sample_ntt(w: World, out: int, seed: int, index: int) -> None:
    """Algorithm 7, of XOF(rho, j, i)."""
    work = w.g(MLKEM_WORK)
    work.index = index
    at = hashed(w, SHAKE128, (seed, 32), (work.offset_of("index"), 2))
    for n, number in enumerate(m.accepted(_blocks(w, at))):
        w.write(out + 2 * n, number.to_bytes(2, "little"))


@model
def mlkem_sample_noise(w: World, out: int, seed: int, index: int) -> None:
    """Algorithm 8, of PRF(seed, N)."""
    work = w.g(MLKEM_WORK)
    work.index = index
    hashed(w, SHAKE256, (seed, 32), (work.offset_of("index"), 1))
    put(w, out, m.sample_cbd(w.g(KECCAK).state[:128]))
