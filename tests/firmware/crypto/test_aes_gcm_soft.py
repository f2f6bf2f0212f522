"""AES-GCM without AES-NI against another library, Wycheproof, and the circuit of its S-box."""

from collections import Counter

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.constant_time import same_traces
from emulator.models.crypto.aes import s_box
from emulator.models.crypto.aes_slices import blocks_of, planes
from emulator.models.crypto.ghash_soft import factors
from firmware.crypto.aes_gcm_soft import aes_gcm_decrypt_soft, aes_gcm_open_soft, aes_gcm_seal_soft
from firmware.crypto.aes_key_soft import aes_gcm_key_soft, aes_word_soft
from firmware.crypto.aes_slices import PLANES, S_BOX, aes_eight_soft, aes_sub_soft
from firmware.crypto.circuit import emit_circuit, parse
from firmware.crypto.ghash_soft import ghash_soft
from firmware.layouts.aead import AesGcm, AesGcmSoft
from tests.support.aead import Aead
from tests.support.lab import Lab
from tests.support.wycheproof import needs
from toolchain.asm import XMM0, XMM1, XMM2, Asm, AsmError

ROUTINES = (aes_gcm_key_soft, aes_gcm_seal_soft, aes_gcm_open_soft, aes_gcm_decrypt_soft)
PARTS = (aes_word_soft, aes_sub_soft, aes_eight_soft, ghash_soft)
LAB = Lab(*ROUTINES, *PARTS)
GCM = Aead(LAB, AesGcmSoft, *ROUTINES)
KEYS = {16: bytes(range(16)), 32: bytes(range(32))}
NONCE, HEADER = bytes(range(50, 62)), bytes.fromhex("1703030123")
VECTOR = st.integers(0, 2**128 - 1)
SECRETS = [bytes(32), b"\xff" * 32, b"\x55" * 32, bytes(range(32)), b"\1" + bytes(31)]


def text_of(length):
    return bytes(n * 7 + n // 256 & 0xFF for n in range(length))


def named(blocks):
    return {f"b{n}": value for n, value in enumerate(blocks)}


def made_key(size, lab=LAB):
    key, raw = lab.machine.alloc(AesGcmSoft.SIZE), lab.machine.alloc(32)
    lab.machine.write(raw, KEYS[size])
    lab.free(aes_gcm_key_soft, key=key, raw=raw, size=size)
    return key


def test_either_kind_of_key_fits_the_same_place():
    assert AesGcmSoft.SIZE == AesGcm.SIZE
    assert AesGcmSoft.ALIGN == AesGcm.ALIGN


def test_the_circuit_is_the_s_box_for_all_bytes():
    for byte in range(256):
        wires = {f"x{n}": byte >> 7 - n & 1 for n in range(8)}
        for gate in S_BOX:
            one, other = wires[gate.one], wires[gate.other]
            wires[gate.wire] = one & other if gate.operation == "&" else one ^ other
        assert sum(wires[f"s{n}"] << 7 - n for n in range(8)) ^ 0x63 == s_box()[byte]
    assert len(S_BOX) == 115


def test_a_circuit_that_needs_more_memory_says_so():
    gates = parse("d = a ^ b; e = a & c; f = b ^ c; g = d ^ e; h = f ^ g")
    registers, a = (XMM0, XMM1, XMM2), Asm("small", 64, (), 48)
    inputs = dict(zip("abc", registers, strict=True))
    with pytest.raises(AsmError, match=r"no local left for wire c; give emit_circuit more slots"):
        emit_circuit(a, gates, inputs, {"h": XMM0}, registers, 0)
    emit_circuit(a, gates, inputs, {"h": XMM0}, registers, 3)


@settings(max_examples=10)
@given(sliced=st.tuples(*[VECTOR] * 8))
def test_aes_sub_soft_any_planes(sliced):
    assert planes(blocks_of(sliced)) == sliced
    LAB.call(aes_sub_soft, **named(sliced))


@pytest.mark.parametrize("half", [0, 1])
def test_aes_sub_soft_every_byte(half):
    blocks = [bytes(range(128 * half + 16 * n, 128 * half + 16 * n + 16)) for n in range(8)]
    told = LAB.call(aes_sub_soft, **named(planes(blocks))).outputs
    images = blocks_of(tuple(told[plane.name] for plane in PLANES))
    assert images == [bytes(s_box()[x] ^ 0x63 for x in block) for block in blocks]


def test_aes_word_soft_any_word():
    for word in (0, 0xFFFF_FFFF, 0x0102_0304):
        told = LAB.call(aes_word_soft, word=word).outputs["eax"]
        assert told == int.from_bytes(bytes(s_box()[x] for x in word.to_bytes(4, "big")), "big")


@settings(max_examples=5)
@given(blocks=st.tuples(*[VECTOR] * 8), size=st.sampled_from([16, 32]))
def test_aes_eight_soft_any_blocks(blocks, size):
    LAB.reset()
    LAB.call(aes_eight_soft, key=made_key(size), **named(blocks))


@settings(max_examples=20)
@given(high=st.integers(0, 2**64 - 1), low=st.integers(0, 2**64 - 1))
def test_ghash_soft_any_block(high, low):
    LAB.reset()
    LAB.call(ghash_soft, key=made_key(16), high=high, low=low)


def test_ghash_soft_of_full_columns():
    """All ones make the longest carries; a single bit makes none."""
    LAB.reset()
    key, ones = made_key(32), 2**64 - 1
    for high, low in ((ones, ones), (ones, 0), (0, ones), (1 << 63, 0), (0, 1)):
        LAB.call(ghash_soft, key=key, high=high, low=low)
    LAB.view(AesGcmSoft, key).factors[:] = factors(2**128 - 1)
    LAB.call(ghash_soft, key=key, high=ones, low=ones)


@pytest.mark.parametrize("size", KEYS)
@pytest.mark.parametrize("length", [0, 1, 16, 111, 112, 113, 130, 240, 241, 256])
def test_aes_gcm_soft_of_each_shape_of_text(size, length):
    judged = length in (1, 113, 130)
    call = LAB.call if judged and size == 16 else LAB.free
    text = text_of(length)
    made = GCM.sealed(KEYS[size], NONCE, HEADER, text, call)
    assert made == AESGCM(KEYS[size]).encrypt(NONCE, text, HEADER)
    assert GCM.opened(KEYS[size], NONCE, HEADER, made, call) == text


def test_aes_gcm_soft_key_of_32_bytes_is_that_of_the_model():
    GCM.sealed(KEYS[32], NONCE, HEADER, b"", LAB.call)


@pytest.mark.parametrize("length", [0, 1, 8, 9, 15, 16, 17, 40])
def test_aes_gcm_soft_of_each_shape_of_additional_data(length):
    aad, call = text_of(length), LAB.call if length in (16, 17) else LAB.free
    made = GCM.sealed(KEYS[16], NONCE, aad, b"hello", call)
    assert made == AESGCM(KEYS[16]).encrypt(NONCE, b"hello", aad)


@settings(max_examples=60)
@given(
    key=st.one_of(st.binary(min_size=16, max_size=16), st.binary(min_size=32, max_size=32)),
    nonce=st.binary(min_size=12, max_size=12),
    aad=st.binary(max_size=40),
    text=st.binary(max_size=600),
)
def test_aes_gcm_soft_any_text_is_that_of_the_other_library(key, nonce, aad, text):
    made = GCM.sealed(key, nonce, aad, text, LAB.free)
    assert made == AESGCM(key).encrypt(nonce, text, aad)
    assert GCM.opened(key, nonce, aad, made, LAB.free) == text


def test_aes_gcm_soft_refuses_and_wipes_what_was_changed():
    made = GCM.sealed(KEYS[16], NONCE, HEADER, text_of(20), LAB.free)
    for bit in range(0, 8 * len(made), 3):
        changed = bytearray(made)
        changed[bit // 8] ^= 1 << bit % 8
        assert GCM.opened(KEYS[16], NONCE, HEADER, bytes(changed), LAB.free) is None, bit
    last = bytes([*made[:-1], made[-1] ^ 0x80])
    assert GCM.opened(KEYS[16], NONCE, HEADER, last) is None


def test_aes_gcm_soft_decrypt_tells_and_leaves_the_wiping_to_open():
    text, aad = text_of(40), text_of(17)
    made = GCM.sealed(KEYS[16], NONCE, aad, text, LAB.free)
    assert GCM.decrypted(KEYS[16], NONCE, aad, made) == (True, text)
    assert GCM.decrypted(KEYS[16], NONCE, aad, made[:-1] + b"?") == (False, text)
    whole = GCM.sealed(KEYS[16], NONCE, aad[:16], text[:32], LAB.free)
    assert GCM.decrypted(KEYS[16], NONCE, aad[:16], whole) == (True, text[:32])


@pytest.mark.vectors
@needs("aes_gcm_test.json")
def test_aes_gcm_soft_wycheproof():
    counts = GCM.judged("aes_gcm_test.json", key_bits=(128, 256))
    wanted = {
        ("valid", True): 40,
        ("invalid", False): 27,
        ("valid", None): 74,
        ("invalid", None): 17,
    }
    assert counts == Counter(wanted)


def test_aes_gcm_soft_takes_the_same_steps_whatever_key_and_text():
    GCM.compare_traces(SECRETS, [(16, 5, 20), (32, 20, 129)], key_minimum=4_000, minimum=3_000)


def test_the_parts_take_the_same_steps_whatever_the_secret():
    def word(secret, _):
        return {"word": int.from_bytes(secret[:4], "big")}

    def sub(secret, _):
        return named([int.from_bytes(secret[n : n + 16], "little") for n in range(8)])

    def eight(secret, size):
        key = LAB.machine.alloc(AesGcmSoft.SIZE)
        LAB.view(AesGcmSoft, key).keys[:] = (8 * secret)[: AesGcmSoft.keys.size]
        LAB.view(AesGcmSoft, key).rounds = size // 4 + 6
        return {"key": key, **sub(secret, size)}

    def block(secret, _):
        key = LAB.machine.alloc(AesGcmSoft.SIZE)
        LAB.view(AesGcmSoft, key).factors[:] = (6 * secret)[: AesGcmSoft.factors.size]
        high, low = (int.from_bytes(secret[at : at + 8], "big") for at in (0, 8))
        return {"key": key, "high": high, "low": low}

    for routine, prepare, publics, minimum in (
        (aes_word_soft, word, [0], 200),
        (aes_sub_soft, sub, [0], 200),
        (aes_eight_soft, eight, [16, 32], 3_900),
        (ghash_soft, block, [0], 600),
    ):
        same_traces(
            LAB.machine, routine, prepare, secrets=SECRETS, publics=publics, minimum=minimum
        )
