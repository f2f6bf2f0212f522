"""ML-KEM-768 in the steps of FIPS 203, through the models of its parts."""

from emulator.effects import World, model
from emulator.models.crypto.keccak import hashed
from emulator.models.crypto.mlkem_encodings import (
    mlkem_decode,
    mlkem_decompress,
    mlkem_encode,
    mlkem_to_message,
)
from emulator.models.crypto.mlkem_encrypt import mlkem_encrypt
from emulator.models.crypto.mlkem_ntt import mlkem_inverse_ntt, mlkem_ntt
from emulator.models.crypto.mlkem_polynomials import mlkem_add, mlkem_dot, mlkem_subtract
from emulator.models.crypto.mlkem_samples import mlkem_sample_noise, mlkem_sample_ntt
from firmware.layouts.keccak import KECCAK, SHA3_256, SHA3_512, SHAKE256, Sponge
from firmware.layouts.mlkem import MLKEM_WORK, MlKemKey

_POLY = 512


def _halves(w: World, sponge: Sponge, *parts: tuple[int, int]) -> tuple[bytes, bytes]:
    at = hashed(w, sponge, *parts)
    return w.read(at, 32), w.read(at + 32, 32)


def _wipe(w: World) -> None:
    w.g(MLKEM_WORK).wipe()
    w.g(KECCAK).wipe()


@model
def mlkem_keygen(w: World, key: int, seed: int) -> None:
    """Algorithms 13 and 16."""
    made, work = w.view(MlKemKey, key), w.g(MLKEM_WORK)
    work.index = 3
    rho, sigma = _halves(w, SHA3_512, (seed, 32), (work.offset_of("index"), 1))
    work.rho[:] = rho
    work.seed[:] = sigma
    made.z[:] = w.read(seed + 32, 32)
    ek, s, a = (made.offset_of(name) for name in ("ek", "s", "a"))
    for i in range(3):
        for j in range(3):
            mlkem_sample_ntt(w, a + (3 * i + j) * _POLY, work.offset_of("rho"), j | i << 8)
    noise, total, seed_at = (work.offset_of(name) for name in ("noise", "sum", "seed"))
    for n in range(3):
        mlkem_sample_noise(w, s + n * _POLY, seed_at, n)
        mlkem_ntt(w, s + n * _POLY)
    for i in range(3):
        mlkem_sample_noise(w, noise, seed_at, 3 + i)
        mlkem_ntt(w, noise)
        mlkem_dot(w, total, a + 3 * i * _POLY, _POLY, s)
        mlkem_add(w, total, noise)
        mlkem_encode(w, ek + 384 * i, total, 12)
    made.ek[1152:] = bytes(work.rho)
    made.hash[:], _ = _halves(w, SHA3_256, (ek, 1184))
    _wipe(w)


def _decrypt(w: World, key: int, ciphertext: int) -> None:
    """Algorithm 15."""
    work, s = w.g(MLKEM_WORK), w.view(MlKemKey, key).offset_of("s")
    y, total, noise = (work.offset_of(name) for name in ("y", "sum", "noise"))
    for n in range(3):
        mlkem_decode(w, y + n * _POLY, ciphertext + 320 * n, 10)
        mlkem_decompress(w, y + n * _POLY, 10)
        mlkem_ntt(w, y + n * _POLY)
    mlkem_decode(w, noise, ciphertext + 960, 4)
    mlkem_decompress(w, noise, 4)
    mlkem_dot(w, total, s, _POLY, y)
    mlkem_inverse_ntt(w, total)
    mlkem_subtract(w, noise, total)
    mlkem_to_message(w, work.offset_of("message"), noise)


@model
def mlkem_decapsulate(w: World, out: int, key: int, ciphertext: int) -> None:
    """Algorithm 18."""
    made, work = w.view(MlKemKey, key), w.g(MLKEM_WORK)
    _decrypt(w, key, ciphertext)
    message, hash_ = (work.offset_of("message"), 32), (made.offset_of("hash"), 32)
    work.secret[:], work.seed[:] = _halves(w, SHA3_512, message, hash_)
    work.refused[:], _ = _halves(w, SHAKE256, (made.offset_of("z"), 32), (ciphertext, 1088))
    mlkem_encrypt(w, key)
    right = w.read(ciphertext, 1088) == work.ciphertext[:1088]
    w.write(out, bytes(work.secret if right else work.refused))
    _wipe(w)
