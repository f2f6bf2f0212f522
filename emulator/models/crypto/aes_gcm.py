"""AES-GCM: what a key is made into, seal, open."""

from collections.abc import Callable

from emulator.effects import World, model
from emulator.models.crypto import gcm
from emulator.models.crypto.aead import store
from emulator.models.crypto.aes import encrypted, round_keys
from firmware.layouts.aead import AesGcm


def _cipher(w: World, key: int) -> Callable[[bytes], bytes]:
    """Return the block cipher of a made key; AES-128 has its last round key where AES-256 has it."""
    made = w.view(AesGcm, key)
    w.read(key, AesGcm.SIZE)
    keys = [bytes(made.keys[16 * n : 16 * n + 16]) for n in (*range(made.rounds), 14)]
    return lambda block: encrypted(keys, block)


def _divided(y: int) -> int:
    """Return y / x in the field of GCM."""
    top = y >> 127
    return (y << 1 & (1 << 128) - 1) ^ (0xC2 << 120 | 1 if top else 0)


@model
def aes_gcm_key_aesni(w: World, key: int, raw: int, size: int) -> None:
    """Round keys, and H^n / x as little-endian numbers with the sum of their halves."""
    made, keys = w.view(AesGcm, key), round_keys(w.read(raw, size))
    made.rounds = len(keys) - 1
    for n, words in enumerate(keys):
        at = n if n < made.rounds else 14
        made.keys[16 * at : 16 * at + 16] = words
    h = power = int.from_bytes(encrypted(keys, bytes(16)), "big")
    for n in range(9):
        value = _divided(power)
        half = (value ^ value >> 64) & (1 << 64) - 1
        made.powers[16 * n : 16 * n + 16] = value.to_bytes(16, "little")
        made.halves[16 * n : 16 * n + 16] = (half << 64 | half).to_bytes(16, "little")
        power = gcm.product(power, h)


@model
def aes_gcm_seal_aesni(
    w: World, key: int, text: int, length: int, nonce: int, aad: int, aad_length: int
) -> None:
    """Ciphertext in place, tag behind it."""
    cipher, iv, data = _cipher(w, key), w.read(nonce, 12), w.read(aad, aad_length)
    made = gcm.ciphered(cipher, iv, w.read(text, length))
    store(w, text, made)
    w.write(text + length, gcm.tag(cipher, iv, data, made))


@model
def aes_gcm_decrypt_aesni(
    w: World, key: int, text: int, length: int, nonce: int, aad: int, aad_length: int
) -> int:
    """Plaintext in place; whether the tag is wrong."""
    cipher, iv, data = _cipher(w, key), w.read(nonce, 12), w.read(aad, aad_length)
    given, told = w.read(text, length), w.read(text + length, 16)
    store(w, text, gcm.ciphered(cipher, iv, given))
    return int(gcm.tag(cipher, iv, data, given) != told)


@model
def aes_gcm_open_aesni(
    w: World, key: int, text: int, length: int, nonce: int, aad: int, aad_length: int
) -> int:
    """Plaintext, or zeros."""
    wrong = aes_gcm_decrypt_aesni(w, key, text, length, nonce, aad, aad_length)
    if wrong:
        w.write(text, bytes(length))
    return wrong
