"""HMAC against RFC 4231, Wycheproof and the standard library; tags that differ anywhere."""

import hmac
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.constant_time import same_traces
from firmware.crypto.hmac import (
    hmac_sha256,
    hmac_sha256_finish,
    hmac_sha256_start,
    hmac_sha384_finish,
    hmac_sha384_start,
    tag_differs,
)
from firmware.crypto.sha256 import sha256_update
from firmware.crypto.sha512 import sha512_update
from firmware.layouts.crypto import HMAC, Hmac
from tests.support.lab import Lab
from tests.support.wycheproof import judged, needs

PARTS = (
    hmac_sha256, hmac_sha256_start, hmac_sha256_finish, hmac_sha384_start, hmac_sha384_finish,
    sha256_update, sha512_update, tag_differs,
)  # fmt: skip
LAB = Lab(*PARTS)
ROUTINES = {
    "sha256": (hmac_sha256_start, sha256_update, hmac_sha256_finish, 32),
    "sha384": (hmac_sha384_start, sha512_update, hmac_sha384_finish, 48),
}
# RFC 4231, section 4: key, data, HMAC-SHA-256, HMAC-SHA-384 (test case 5 is cut to 128 bits there).
CASES = [
    (
        b"\x0b" * 20,
        b"Hi There",
        "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
        "afd03944d84895626b0825f4ab46907f15f9dadbe4101ec682aa034c7cebc59cfaea9ea9076ede7f4af152e8b2fa9cb6",
    ),
    (
        b"Jefe",
        b"what do ya want for nothing?",
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
        "af45d2e376484031617f78d2b58a6b1b9c7ef464f5a01b47e42ec3736322445e8e2240ca5e69e2c78b3239ecfab21649",
    ),
    (
        b"\xaa" * 20,
        b"\xdd" * 50,
        "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe",
        "88062608d3e6ad8a0aa2ace014c8a86f0aa635d947ac9febe83ef4e55966144b2a5ab39dc13814b94e3ab6e101a34f27",
    ),
    (
        bytes(range(1, 26)),
        b"\xcd" * 50,
        "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b",
        "3e8a69b7783c25851933ab6290af6ca77a9981480850009cc5577c6e1f573b4e6801dd23c4a7d679ccf8a386c674cffb",
    ),
    (
        b"\x0c" * 20,
        b"Test With Truncation",
        "a3b6167473100ee06e0c796c2955552b",
        "3abf34c3503b2a23a46efc619baef897",
    ),
    (
        b"\xaa" * 131,
        b"Test Using Larger Than Block-Size Key - Hash Key First",
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
        "4ece084485813e9088d2c63a041bc5b44f9ef1012a2b588f3cd11f05033ac4c60c2ef6ab4030fe8296248df163f44952",
    ),
    (
        b"\xaa" * 131,
        b"This is a test using a larger than block-size key and a larger than block-size data. "
        b"The key needs to be hashed before being used by the HMAC algorithm.",
        "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2",
        "6617178e941f020d351e2f254e8fd32c602420feb0b8fb9adccebb82461e99c5a678cc31e799176d3860e6110c46523e",
    ),
]


def tag_of(name, key, *parts, call=LAB.call):
    start, update, finish, size = ROUTINES[name]
    LAB.reset()
    work, out = LAB.g(HMAC), LAB.machine.alloc(size)
    call(start, key=LAB.put(key), length=len(key))
    for part in parts:
        at = LAB.put(part)
        call(update, work=work.offset_of("hash"), message=at, length=len(part))
    call(finish, tag=out)
    assert LAB.machine.read(work.address_, Hmac.SIZE) == bytes(Hmac.SIZE), "nothing stays"
    return LAB.machine.read(out, size)


@pytest.mark.parametrize(("key", "message", "short", "long"), CASES)
def test_hmac_rfc_4231(key, message, short, long):
    assert tag_of("sha256", key, message).hex().startswith(short)
    assert tag_of("sha384", key, message).hex().startswith(long)


@settings(max_examples=30)
@given(
    name=st.sampled_from(sorted(ROUTINES)),
    key=st.binary(max_size=140),
    parts=st.lists(st.binary(max_size=150), max_size=3),
)
def test_hmac_any_key_and_message_is_that_of_the_standard_library(name, key, parts):
    assert tag_of(name, key, *parts) == hmac.digest(key, b"".join(parts), name)


@pytest.mark.parametrize("length", [0, 1, 200, 1400])
def test_hmac_of_a_datagram_in_one_piece(length):
    message = bytes(n & 0xFF for n in range(length))
    LAB.reset()
    key, out = LAB.machine.alloc(64), LAB.machine.alloc(32)
    LAB.machine.write(key, b"k" * 40 + bytes(24))
    LAB.call(hmac_sha256, key=key, message=LAB.put(message), length=length, tag=out)
    assert LAB.machine.read(out, 32) == hmac.digest(b"k" * 40, message, "sha256")


@pytest.mark.vectors
@needs("hmac_sha256_test.json", "hmac_sha384_test.json")
@pytest.mark.parametrize("name", ROUTINES)
def test_hmac_wycheproof(name):
    def verdict(group, case):
        made = tag_of(name, bytes.fromhex(case["key"]), bytes.fromhex(case["msg"]), call=LAB.free)
        return made.hex()[: group["tagSize"] // 4] == case["tag"]

    counts = judged(f"hmac_{name}_test.json", verdict)
    assert counts == Counter({("valid", True): 33, ("invalid", False): 54})


def differ(left, right):
    LAB.reset()
    at = LAB.machine.alloc(64)
    LAB.machine.write(at, left + right)
    return LAB.call(tag_differs, left=at, right=at + 32)


@pytest.mark.parametrize("bit", range(0, 256, 5))
def test_tags_that_differ_in_one_bit_differ(bit):
    tag = bytes(range(32))
    other = (int.from_bytes(tag, "little") ^ 1 << bit).to_bytes(32, "little")
    assert differ(tag, other).outputs["cf"] == 1
    assert differ(tag, tag).outputs["cf"] == 0


SECRETS = [bytes(64), b"\xff" * 64, b"\x55" * 64, bytes(range(64)), b"\0" * 63 + b"\1"]


def test_tags_are_compared_in_the_same_steps_wherever_they_differ():
    same = bytes(range(32))
    others = [same, *(same[:n] + bytes([same[n] ^ 1]) + same[n + 1 :] for n in range(32))]

    def prepare(other, tag):
        at = LAB.machine.alloc(64)
        LAB.machine.write(at, tag + other)
        return {"left": at, "right": at + 32}

    same_traces(
        LAB.machine, tag_differs, prepare, secrets=others, publics=[same, bytes(32)], minimum=13
    )


def test_hmac_takes_the_same_steps_whatever_the_key():
    def prepare(key, message):
        at, out = LAB.machine.alloc(64), LAB.machine.alloc(32)
        LAB.machine.write(at, key)
        where = LAB.put(message)
        return {"key": at, "message": where, "length": len(message), "tag": out}

    publics = [b"", b"what do ya want for nothing?", bytes(range(100))]
    same_traces(LAB.machine, hmac_sha256, prepare, secrets=SECRETS, publics=publics, minimum=10_000)


@pytest.mark.parametrize("name", ROUTINES)
def test_hmac_start_and_finish_take_the_same_steps_whatever_the_key(name):
    start, _, finish, size = ROUTINES[name]

    def key(secret, length):
        return {"key": LAB.put((3 * secret)[-length:]), "length": length}

    def begun(secret, _):
        work = LAB.g(HMAC)
        LAB.machine.write(work.address_, (Hmac.SIZE // 16 * secret)[: Hmac.SIZE])
        work.hash.length = 300
        return {"tag": LAB.machine.alloc(size)}

    for routine, prepare, publics in ((start, key, (1, 64, 65, 150)), (finish, begun, (0,))):
        same_traces(LAB.machine, routine, prepare, secrets=SECRETS, publics=publics, minimum=2_000)
