"""HKDF against RFC 5869, the secrets of RFC 8448 and Wycheproof."""

import hmac
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.constant_time import same_traces
from firmware.crypto.hkdf import (
    hkdf_sha256_expand,
    hkdf_sha256_expand_label,
    hkdf_sha256_extract,
    hkdf_sha384_expand,
    hkdf_sha384_expand_label,
    hkdf_sha384_extract,
)
from firmware.layouts.crypto import HKDF, HKDF_CONTEXT_MAX, HKDF_LABEL_MAX
from tests.support.lab import Lab
from tests.support.wycheproof import judged, needs

ROUTINES = {
    "sha256": (hkdf_sha256_extract, hkdf_sha256_expand, hkdf_sha256_expand_label, 32),
    "sha384": (hkdf_sha384_extract, hkdf_sha384_expand, hkdf_sha384_expand_label, 48),
}
LAB = Lab(*(routine for row in ROUTINES.values() for routine in row[:3]))


def extracted(name, salt, ikm, call=LAB.call):
    extract, _, _, size = ROUTINES[name]
    LAB.reset()
    prk, at = LAB.machine.alloc(size), LAB.machine.alloc(len(salt) + 1)
    LAB.machine.write(at, salt)
    call(extract, salt=at, salt_bytes=len(salt), ikm=LAB.put(ikm), ikm_bytes=len(ikm), prk=prk)
    return LAB.machine.read(prk, size)


def expanded(name, prk, info, length, call=LAB.call):
    _, expand, _, size = ROUTINES[name]
    LAB.reset()
    key, out = LAB.machine.alloc(size), LAB.machine.alloc(length)
    LAB.machine.write(key, prk)
    call(expand, prk=key, info=LAB.put(info), info_bytes=len(info), out=out, out_bytes=length)
    assert bytes(LAB.g(HKDF).block) == bytes(64), "the last block is wiped"
    return LAB.machine.read(out, length)


def labelled(name, secret, label, context, length):
    _, _, expand_label, size = ROUTINES[name]
    LAB.reset()
    key, out, at = (LAB.machine.alloc(n) for n in (size, length, 64))
    LAB.machine.write(key, secret)
    LAB.machine.write(at, bytes([6 + len(label)]) + b"tls13 " + label)
    LAB.call(
        expand_label, secret=key, label=at, context=LAB.put(context), size=len(context), out=out,
        out_bytes=length,
    )  # fmt: skip
    return LAB.machine.read(out, length)


@pytest.mark.parametrize(
    ("ikm", "salt", "info", "prk", "okm"),
    [
        # RFC 5869, A.1 to A.3.
        (
            b"\x0b" * 22,
            bytes(range(13)),
            bytes(range(0xF0, 0xFA)),
            "077709362c2e32df0ddc3f0dc47bba6390b6c73bb50f9c3122ec844ad7c2b3e5",
            "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865",
        ),
        (
            bytes(range(0x50)),
            bytes(range(0x60, 0xB0)),
            bytes(range(0xB0, 0x100)),
            "06a6b88c5853361a06104c9ceb35b45cef760014904671014a193f40c15fc244",
            "b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c"
            "59045a99cac7827271cb41c65e590e09da3275600c2f09b8367793a9aca3db71"
            "cc30c58179ec3e87c14c01d5c1f3434f1d87",
        ),
        (
            b"\x0b" * 22,
            b"",
            b"",
            "19ef24a32c717b167f33a91d6f648bdf96596776afdb6377ac434c1c293ccb04",
            "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8",
        ),
    ],
)
def test_hkdf_rfc_5869(ikm, salt, info, prk, okm):
    assert extracted("sha256", salt, ikm).hex() == prk
    assert expanded("sha256", bytes.fromhex(prk), info, len(okm) // 2).hex() == okm


def test_hkdf_the_secrets_of_rfc_8448():
    """RFC 8448, section 3: a simple 1-RTT handshake."""
    early = extracted("sha256", bytes(32), bytes(32))
    assert early.hex() == "33ad0a1c607ec03b09e6cd9893680ce210adf300aa1f2660e1b22e10f170f92a"
    empty = bytes.fromhex("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
    derived = labelled("sha256", early, b"derived", empty, 32)
    assert derived.hex() == "6f2615a108c702c5678f54fc9dbab69716c076189c48250cebeac3576c3611ba"
    shared = bytes.fromhex("8bd4054fb55b9d63fdfbacf9f04b9f0d35e6d63f537563efd46272900f89492d")
    handshake = extracted("sha256", derived, shared)
    assert handshake.hex() == "1dc826e93606aa6fdc0aadc12f741b01046aa6b99f691ed221a9f0ca043fbeac"
    hellos = bytes.fromhex("860c06edc07858ee8e78f0e7428c58edd6b43f2ca3e6e95f02ed063cf0e1cad8")
    client = labelled("sha256", handshake, b"c hs traffic", hellos, 32)
    assert client.hex() == "b3eddb126e067f35a780b3abf45e2d8f3b1a950738f52e9600746a0e27a55a21"
    server = labelled("sha256", handshake, b"s hs traffic", hellos, 32)
    assert server.hex() == "b67b7d690cc16c4e75e54213cb2d37b4e9c912bcded9105d42befd59d391ad38"
    assert labelled("sha256", server, b"key", b"", 16).hex() == "3fce516009c21727d0f2e4e86ee403bc"
    assert labelled("sha256", server, b"iv", b"", 12).hex() == "5d313eb2671276ee13000b30"


@pytest.mark.parametrize("name", ROUTINES)
@pytest.mark.parametrize("salt", [b"", b"s" * 48, b"s" * 200])
def test_hkdf_extract_is_hmac_with_the_salt_as_key(name, salt):
    assert extracted(name, salt, b"shared secret") == hmac.digest(salt, b"shared secret", name)


@pytest.mark.parametrize("name", ROUTINES)
def test_hkdf_expand_without_a_label(name):
    size = ROUTINES[name][3]
    made = expanded(name, b"k" * size, b"info", size + 5)
    assert made == reference(name, b"k" * size, b"info", size + 5)


def reference(name, prk, info, length):
    out, block = b"", b""
    while len(out) < length:
        count = len(out) // ROUTINES[name][3] + 1
        block = hmac.digest(prk, block + info + bytes([count]), name)
        out += block
    return out[:length]


@settings(max_examples=15)
@given(
    name=st.sampled_from(sorted(ROUTINES)),
    secret=st.binary(min_size=48, max_size=48),
    label=st.binary(max_size=HKDF_LABEL_MAX - 6),
    context=st.binary(max_size=HKDF_CONTEXT_MAX),
    length=st.integers(1, 100),
)
def test_hkdf_any_label_is_that_of_the_standard_library(name, secret, label, context, length):
    secret = secret[: ROUTINES[name][3]]
    info = length.to_bytes(2, "big") + bytes([6 + len(label)]) + b"tls13 " + label
    info += bytes([len(context)]) + context
    made = labelled(name, secret, label, context, length)
    assert made == reference(name, secret, info, length)


@pytest.mark.parametrize("name", ROUTINES)
def test_hkdf_at_its_longest(name):
    size = ROUTINES[name][3]
    made = expanded(name, b"k" * size, b"i", 255 * size, LAB.free)
    assert made == reference(name, b"k" * size, b"i", 255 * size)


@pytest.mark.vectors
@needs("hkdf_sha256_test.json", "hkdf_sha384_test.json")
@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("sha256", {("valid", True): 42, ("invalid", None): 1}),
        ("sha384", {("valid", True): 41, ("invalid", None): 1}),
    ],
)
def test_hkdf_wycheproof(name, counts):
    def verdict(_group, case):
        if case["size"] > 255 * ROUTINES[name][3]:
            return None  # the contract leaves longer outputs out
        ikm, salt, info = (bytes.fromhex(case[key]) for key in ("ikm", "salt", "info"))
        prk = extracted(name, salt, ikm, LAB.free)
        return expanded(name, prk, info, case["size"], LAB.free).hex() == case["okm"]

    assert judged(f"hkdf_{name}_test.json", verdict) == Counter(counts)


SECRETS = [bytes(64), b"\xff" * 64, b"\x55" * 64, bytes(range(64)), b"\1" + bytes(63)]


@pytest.mark.parametrize("name", ROUTINES)
def test_hkdf_takes_the_same_steps_whatever_the_secret(name):
    _, expand, _, size = ROUTINES[name]

    def prepare(secret, length):
        key, info, out = (LAB.machine.alloc(n) for n in (size, 10, length))
        LAB.machine.write(key, secret[:size])
        LAB.machine.write(info, b"0123456789")
        return {"prk": key, "info": info, "info_bytes": 10, "out": out, "out_bytes": length}

    publics = [1, size, size + 1]
    same_traces(LAB.machine, expand, prepare, secrets=SECRETS, publics=publics, minimum=10_000)
