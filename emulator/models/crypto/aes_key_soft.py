"""The key of AES-GCM without AES-NI: round keys by rows, and the factors of H."""

from typing import Any

from emulator.effects import World, model
from emulator.models.crypto.aes import by_rows
from emulator.models.crypto.aes_slices import aes_eight_soft, aes_sub_soft
from emulator.models.crypto.ghash_soft import factors
from firmware.layouts.aead import AesGcmSoft


@model
def aes_word_soft(w: World, word: int) -> int:
    """SubWord of FIPS 197 5.2; bit 0 of each byte of plane b is bit b of the word's byte."""
    images = aes_sub_soft(w, *(word >> bit for bit in range(8)))
    found = sum((image & 0x0101_0101) << bit for bit, image in enumerate(images))
    return found ^ 0x6363_6363


def _expanded(w: World, made: Any, raw: bytes) -> list[bytes]:  # noqa: ANN401 - a view by field
    """Return the round keys of 5.2, with a call for each SubWord; words are little-endian."""
    words = [int.from_bytes(raw[at : at + 4], "little") for at in range(0, len(raw), 4)]
    size, constant = len(words), 1
    for n in range(size, 4 * (size + 7)):
        last = words[-1]
        if n % size == 0:
            last = aes_word_soft(w, last >> 8 | (last & 0xFF) << 24) ^ constant
            constant = constant << 1 ^ (0x11B if constant == 0x80 else 0)
        elif size == 8 and n % size == 4:
            last = aes_word_soft(w, last)
        words.append(words[n - size] ^ last)
        made.keys[4 * n : 4 * n + 4] = words[-1].to_bytes(4, "little")
    return [bytes(made.keys[4 * at : 4 * at + 16]) for at in range(0, len(words), 4)]


@model
def aes_gcm_key_soft(w: World, key: int, raw: int, size: int) -> None:
    """Round keys as they come, then by rows with the S-box's constant; the factors of H."""
    made = w.view(AesGcmSoft, key)
    made.rounds = size // 4 + 6
    secret = w.read(raw, size)
    made.keys[:size] = secret
    for n, words in enumerate(_expanded(w, made, secret)):
        made.keys[16 * n : 16 * n + 16] = bytes(x ^ (0x63 if n else 0) for x in by_rows(words))
    h = aes_eight_soft(w, key, 0, 0, 0, 0, 0, 0, 0, 0)[0]
    made.factors[:] = factors(int.from_bytes(h.to_bytes(16, "little"), "big"))
