"""AES-GCM against another library, Wycheproof and texts that were changed anywhere."""

from collections import Counter

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.models.crypto.aes import encrypted, round_keys
from firmware.crypto.aes_gcm import (
    aes_gcm_decrypt_aesni,
    aes_gcm_key_aesni,
    aes_gcm_open_aesni,
    aes_gcm_seal_aesni,
)
from firmware.layouts.aead import AesGcm
from tests.support.aead import Aead
from tests.support.lab import Lab
from tests.support.wycheproof import needs

LAB = Lab(aes_gcm_key_aesni, aes_gcm_seal_aesni, aes_gcm_open_aesni, aes_gcm_decrypt_aesni)
GCM = Aead(
    LAB, AesGcm, aes_gcm_key_aesni, aes_gcm_seal_aesni, aes_gcm_open_aesni, aes_gcm_decrypt_aesni
)
KEYS = {16: bytes(range(16)), 32: bytes(range(32))}
NONCE, HEADER = bytes(range(50, 62)), bytes.fromhex("1703030123")


def text_of(length):
    return bytes(n * 7 + n // 256 & 0xFF for n in range(length))


def test_the_model_of_aes_has_the_numbers_of_fips_197():
    """FIPS 197, appendix C."""
    text = bytes.fromhex("00112233445566778899aabbccddeeff")
    wanted = {
        16: "69c4e0d86a7b0430d8cdb78070b4c55a",
        32: "8ea2b7ca516745bfeafc49904b496089",
    }
    for size, block in wanted.items():
        assert encrypted(round_keys(KEYS[size]), text).hex() == block


@pytest.mark.parametrize("size", KEYS)
@pytest.mark.parametrize(
    "length", [0, 1, 15, 16, 17, 112, 113, 127, 128, 129, 255, 256, 257, 300, 384, 1400]
)
def test_aes_gcm_of_each_shape_of_text(size, length):
    other, text = AESGCM(KEYS[size]), text_of(length)
    made = GCM.sealed(KEYS[size], NONCE, HEADER, text, LAB.call)
    assert made == other.encrypt(NONCE, text, HEADER)
    assert GCM.opened(KEYS[size], NONCE, HEADER, made) == text


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 15, 16, 17, 32, 40])
def test_aes_gcm_of_each_shape_of_additional_data(length):
    aad = text_of(length)
    made = GCM.sealed(KEYS[16], NONCE, aad, b"hello")
    assert made == AESGCM(KEYS[16]).encrypt(NONCE, b"hello", aad)
    assert GCM.opened(KEYS[16], NONCE, aad, made) == b"hello"


@settings(max_examples=40)
@given(
    key=st.one_of(st.binary(min_size=16, max_size=16), st.binary(min_size=32, max_size=32)),
    nonce=st.binary(min_size=12, max_size=12),
    aad=st.binary(max_size=40),
    text=st.binary(max_size=300),
)
def test_aes_gcm_any_text_is_that_of_the_other_library(key, nonce, aad, text):
    made = GCM.sealed(key, nonce, aad, text)
    assert made == AESGCM(key).encrypt(nonce, text, aad)
    assert GCM.opened(key, nonce, aad, made) == text


@pytest.mark.parametrize("size", KEYS)
def test_aes_gcm_of_a_largest_record(size):
    text = text_of(16 * 1024 - 16 - 5)
    made = GCM.sealed(KEYS[size], NONCE, HEADER, text, LAB.free)
    assert made == AESGCM(KEYS[size]).encrypt(NONCE, text, HEADER)
    assert GCM.opened(KEYS[size], NONCE, HEADER, made, LAB.free) == text


@pytest.mark.parametrize("length", [0, 20, 200])
def test_aes_gcm_refuses_and_wipes_what_was_changed(length):
    key = KEYS[16]
    made = GCM.sealed(key, NONCE, HEADER, text_of(length), LAB.free)
    changes = range(0, 8 * len(made), 11 if length < 100 else 67)
    for bit in (*changes, *range(8 * length, 8 * len(made), 3)):
        changed = bytearray(made)
        changed[bit // 8] ^= 1 << bit % 8
        assert GCM.opened(key, NONCE, HEADER, bytes(changed), LAB.free) is None, bit
    last = bytes([*made[:-1], made[-1] ^ 0x80])
    assert GCM.opened(key, NONCE, HEADER, last) is None
    assert GCM.opened(key, NONCE, HEADER[:4] + b"\0", made) is None
    assert GCM.opened(key, bytes(12), HEADER, made) is None
    assert GCM.opened(KEYS[32], NONCE, HEADER, made) is None
    assert GCM.opened(key, NONCE, HEADER, made) is not None


def test_aes_gcm_decrypt_tells_and_leaves_the_wiping_to_open():
    text, aad = text_of(40), text_of(17)
    made = GCM.sealed(KEYS[16], NONCE, aad, text, LAB.free)
    assert GCM.decrypted(KEYS[16], NONCE, aad, made) == (True, text)
    assert GCM.decrypted(KEYS[16], NONCE, aad, made[:-1] + b"?") == (False, text)


@pytest.mark.vectors
@needs("aes_gcm_test.json")
def test_aes_gcm_wycheproof():
    counts = GCM.judged("aes_gcm_test.json", key_bits=(128, 256))
    wanted = {
        ("valid", True): 40,
        ("invalid", False): 27,
        ("valid", None): 74,
        ("invalid", None): 17,
    }
    assert counts == Counter(wanted)


def test_aes_gcm_takes_the_same_steps_whatever_key_and_text():
    keys = [bytes(32), b"\xff" * 32, b"\x55" * 32, bytes(range(32)), b"\1" + bytes(31)]
    lengths = [(16, 5, 0), (16, 5, 300), (32, 20, 129)]
    GCM.compare_traces(keys, lengths, key_minimum=250, minimum=100)
