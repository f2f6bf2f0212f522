"""ChaCha20-Poly1305 against RFC 8439, another library, Wycheproof and texts that were changed."""

from collections import Counter

import pytest
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.constant_time import same_traces
from emulator.models.crypto import poly1305
from firmware.crypto.chacha20_four import chacha20_four
from firmware.crypto.chacha20_poly1305 import (
    chacha20_poly1305_decrypt,
    chacha20_poly1305_key,
    chacha20_poly1305_open,
    chacha20_poly1305_seal,
)
from firmware.layouts.aead import ChaChaPoly
from tests.support.aead import Aead
from tests.support.lab import Lab
from tests.support.wycheproof import needs

ROUTINES = (
    chacha20_poly1305_key,
    chacha20_poly1305_seal,
    chacha20_poly1305_open,
    chacha20_poly1305_decrypt,
)
LAB = Lab(*ROUTINES, chacha20_four)
CIPHER = Aead(LAB, ChaChaPoly, *ROUTINES)
KEY, NONCE, HEADER = bytes(range(32)), bytes(range(50, 62)), bytes.fromhex("1703030123")
KEYS = [bytes(32), b"\xff" * 32, b"\x55" * 32, KEY, b"\1" + bytes(31)]


def text_of(length):
    return bytes(n * 7 + n // 256 & 0xFF for n in range(length))


def test_the_model_of_poly1305_has_the_numbers_of_rfc_8439():
    """RFC 8439 2.5.2, and A.3 cases 7 and 8: sums that reach the modulus."""
    key = bytes.fromhex("85d6be7857556d337f4452fe42d506a80103808afb0db2fd4abff6af4149f51b")
    tag = poly1305.tag(key, b"Cryptographic Forum Research Group")
    assert tag.hex() == "a8061dc1305136c6c22b8baf0c0127a9"
    text = bytes.fromhex("ff" * 16 + "f0" + "ff" * 15 + "11" + "00" * 15)
    assert poly1305.tag(b"\1" + bytes(31), text).hex() == "05" + "00" * 15
    text = bytes.fromhex("ff" * 16 + "fb" + "fe" * 15 + "01" * 16)
    assert poly1305.tag(b"\1" + bytes(31), text) == bytes(16)


def test_chacha20_poly1305_rfc_8439():
    """RFC 8439 2.8.2."""
    text = (
        b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the "
        b"future, sunscreen would be it."
    )
    key, nonce = bytes(range(0x80, 0xA0)), bytes.fromhex("070000004041424344454647")
    aad = bytes.fromhex("50515253c0c1c2c3c4c5c6c7")
    made = CIPHER.sealed(key, nonce, aad, text, LAB.call)
    assert made[:16].hex() == "d31a8d34648e60db7b86afbc53ef7ec2"
    assert made[-16:].hex() == "1ae10b594f09e26a7e902ecbd0600691"
    assert CIPHER.opened(key, nonce, aad, made) == text


@pytest.mark.parametrize("counter", [0, 5, 2**32 - 4, 2**32 - 2])
def test_chacha20_four_counts_on(counter):
    LAB.reset()
    key = LAB.machine.alloc(ChaChaPoly.SIZE)
    LAB.view(ChaChaPoly, key).matrix[48:52] = counter.to_bytes(4, "little")
    LAB.call(chacha20_four, key=key)


@pytest.mark.parametrize(
    "length",
    [0, 1, 15, 16, 17, 176, 191, 192, 193, 208, 447, 448, 449, 464, 703, 704, 705, 1400],
)
def test_chacha20_poly1305_of_each_shape_of_text(length):
    text = text_of(length)
    made = CIPHER.sealed(KEY, NONCE, HEADER, text)
    assert made == ChaCha20Poly1305(KEY).encrypt(NONCE, text, HEADER)
    assert CIPHER.opened(KEY, NONCE, HEADER, made) == text


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 15, 16, 17, 32, 40])
def test_chacha20_poly1305_of_each_shape_of_additional_data(length):
    aad = text_of(length)
    made = CIPHER.sealed(KEY, NONCE, aad, b"hello")
    assert made == ChaCha20Poly1305(KEY).encrypt(NONCE, b"hello", aad)
    assert CIPHER.opened(KEY, NONCE, aad, made) == b"hello"


@settings(max_examples=25)
@given(
    key=st.binary(min_size=32, max_size=32),
    nonce=st.binary(min_size=12, max_size=12),
    aad=st.binary(max_size=40),
    text=st.binary(max_size=800),
)
def test_chacha20_poly1305_any_text_is_that_of_the_other_library(key, nonce, aad, text):
    made = CIPHER.sealed(key, nonce, aad, text)
    assert made == ChaCha20Poly1305(key).encrypt(nonce, text, aad)
    assert CIPHER.opened(key, nonce, aad, made) == text


def test_chacha20_poly1305_of_a_largest_record():
    text = text_of(16 * 1024 - 16 - 5)
    made = CIPHER.sealed(KEY, NONCE, HEADER, text, LAB.free)
    assert made == ChaCha20Poly1305(KEY).encrypt(NONCE, text, HEADER)
    assert CIPHER.opened(KEY, NONCE, HEADER, made, LAB.free) == text


@pytest.mark.parametrize("length", [0, 20, 500])
def test_chacha20_poly1305_refuses_and_wipes_what_was_changed(length):
    made = CIPHER.sealed(KEY, NONCE, HEADER, text_of(length), LAB.free)
    changes = range(0, 8 * len(made), 11 if length < 100 else 67)
    for bit in (*changes, *range(8 * length, 8 * len(made), 3)):
        changed = bytearray(made)
        changed[bit // 8] ^= 1 << bit % 8
        assert CIPHER.opened(KEY, NONCE, HEADER, bytes(changed), LAB.free) is None, bit
    last = bytes([*made[:-1], made[-1] ^ 0x80])
    assert CIPHER.opened(KEY, NONCE, HEADER, last) is None
    assert CIPHER.opened(KEY, NONCE, HEADER[:4] + b"\0", made) is None
    assert CIPHER.opened(KEY, bytes(12), HEADER, made) is None
    assert CIPHER.opened(bytes(32), NONCE, HEADER, made) is None
    assert CIPHER.opened(KEY, NONCE, HEADER, made) is not None


def test_chacha20_poly1305_decrypt_tells_and_leaves_the_wiping_to_open():
    text, aad = text_of(40), text_of(17)
    made = CIPHER.sealed(KEY, NONCE, aad, text, LAB.free)
    assert CIPHER.decrypted(KEY, NONCE, aad, made) == (True, text)
    assert CIPHER.decrypted(KEY, NONCE, aad, made[:-1] + b"?") == (False, text)


@pytest.mark.vectors
@needs("chacha20_poly1305_test.json")
def test_chacha20_poly1305_wycheproof():
    counts = CIPHER.judged("chacha20_poly1305_test.json", key_bits=(256,))
    wanted = {("valid", True): 128, ("invalid", False): 30, ("invalid", None): 5}
    assert counts == Counter(wanted)


def test_chacha20_poly1305_takes_the_same_steps_whatever_key_and_text():
    CIPHER.compare_traces(KEYS, [(32, 5, 0), (32, 20, 715)], key_minimum=7, minimum=2_000)


def test_chacha20_four_takes_the_same_steps_whatever_the_key():
    def prepare(secret, counter):
        key = LAB.machine.alloc(ChaChaPoly.SIZE)
        LAB.machine.write(key, bytes(16) + secret + bytes([counter]).ljust(16, b"\0"))
        return {"key": key}

    same_traces(LAB.machine, chacha20_four, prepare, secrets=KEYS, publics=[0, 255], minimum=1_800)
