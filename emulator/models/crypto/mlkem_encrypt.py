"""Encryption by FIPS 203, through the models of its parts."""

from emulator.effects import World, model
from emulator.models.crypto.mlkem_encodings import (
    mlkem_compress,
    mlkem_decode,
    mlkem_encode,
    mlkem_from_message,
)
from emulator.models.crypto.mlkem_ntt import mlkem_inverse_ntt, mlkem_ntt
from emulator.models.crypto.mlkem_polynomials import mlkem_add, mlkem_dot
from emulator.models.crypto.mlkem_samples import mlkem_sample_noise
from firmware.layouts.mlkem import MLKEM_WORK, MlKemKey

_POLY = 512


@model
def mlkem_encrypt(w: World, key: int) -> None:
    """Algorithm 14, of the message and the seed in the work space."""
    made, work = w.view(MlKemKey, key), w.g(MLKEM_WORK)
    y, t, total, noise, r = (work.offset_of(n) for n in ("y", "t", "sum", "noise", "seed"))
    out = work.offset_of("ciphertext")

    def coded(at: int, bits: int) -> None:
        mlkem_compress(w, total, bits)
        mlkem_encode(w, at, total, bits)

    for n in range(3):
        mlkem_sample_noise(w, y + n * _POLY, r, n)
        mlkem_ntt(w, y + n * _POLY)
        mlkem_decode(w, t + n * _POLY, made.offset_of("ek") + 384 * n, 12)
    for i in range(3):
        mlkem_dot(w, total, made.offset_of("a") + i * _POLY, 3 * _POLY, y)
        mlkem_inverse_ntt(w, total)
        mlkem_sample_noise(w, noise, r, 3 + i)
        mlkem_add(w, total, noise)
        coded(out + 320 * i, 10)
    mlkem_dot(w, total, t, _POLY, y)
    mlkem_inverse_ntt(w, total)
    mlkem_sample_noise(w, noise, r, 6)
    mlkem_add(w, total, noise)
    mlkem_from_message(w, noise, work.offset_of("message"))
    mlkem_add(w, total, noise)
    coded(out + 960, 4)
