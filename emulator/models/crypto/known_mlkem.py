"""ML-KEM-768's known answers."""

from emulator.effects import World, model
from emulator.models.crypto.mlkem import mlkem_decapsulate, mlkem_keygen
from emulator.models.crypto.mlkem_encrypt import mlkem_encrypt
from firmware.layouts.known_answers import (
    KNOWN_MLKEM_HASH,
    KNOWN_MLKEM_MESSAGE,
    KNOWN_MLKEM_RANDOM,
    KNOWN_MLKEM_REFUSED,
    KNOWN_MLKEM_SECRET,
    KNOWN_MLKEM_SEED,
    KNOWN_WORK,
)
from firmware.layouts.mlkem import MLKEM_WORK


@model
def known_mlkem(w: World) -> int:
    """Wycheproof's case, then implicit rejection."""
    work = w.g(KNOWN_WORK)
    key, out, text = work.kem.address_, work.offset_of("out"), work.offset_of("ciphertext")
    mlkem_keygen(w, key, w.address(KNOWN_MLKEM_SEED))
    wrong = bytes(work.kem.hash) != w.read(w.address(KNOWN_MLKEM_HASH), 32)
    made = w.g(MLKEM_WORK)
    made.message[:] = w.read(w.address(KNOWN_MLKEM_MESSAGE), 32)
    made.seed[:] = w.read(w.address(KNOWN_MLKEM_RANDOM), 32)
    mlkem_encrypt(w, key)
    w.write(text, made.ciphertext[:1088])
    for secret in (KNOWN_MLKEM_SECRET, KNOWN_MLKEM_REFUSED):
        mlkem_decapsulate(w, out, key, text)
        wrong |= w.read(out, 32) != w.read(w.address(secret), 32)
        w.write(text, bytes([w.u8(text) ^ 1]))
    return int(wrong)
