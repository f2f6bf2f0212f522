"""HMAC-SHA-256 against RFC 4231, Wycheproof and the standard library; tags that differ anywhere."""

import hashlib
import hmac

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.constant_time import same_traces
from firmware.crypto.hmac import hmac_sha256, tag_differs
from tests.support.lab import Lab
from tests.support.wycheproof import groups, needs

LAB = Lab(hmac_sha256, tag_differs)
# RFC 4231, section 4: key, data, HMAC-SHA-256 (test case 5 is cut to 128 bits there).
CASES = [
    (b"\x0b" * 20, b"Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"),
    (
        b"Jefe",
        b"what do ya want for nothing?",
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
    ),
    (
        b"\xaa" * 20,
        b"\xdd" * 50,
        "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe",
    ),
    (
        bytes(range(1, 26)),
        b"\xcd" * 50,
        "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b",
    ),
    (b"\x0c" * 20, b"Test With Truncation", "a3b6167473100ee06e0c796c2955552b"),
    (
        b"\xaa" * 131,
        b"Test Using Larger Than Block-Size Key - Hash Key First",
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
    ),
    (
        b"\xaa" * 131,
        b"This is a test using a larger than block-size key and a larger than block-size data. "
        b"The key needs to be hashed before being used by the HMAC algorithm.",
        "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2",
    ),
]


def block_of(key):
    """Return the key as the routine takes it; RFC 2104 hashes one longer than a block first."""
    return (hashlib.sha256(key).digest() if len(key) > 64 else key).ljust(64, b"\0")


def tag_of(key, message):
    LAB.reset()
    at, out = LAB.machine.alloc(64), LAB.machine.alloc(32)
    LAB.machine.write(at, block_of(key))
    LAB.call(hmac_sha256, key=at, message=LAB.put(message), length=len(message), tag=out)
    return LAB.machine.read(out, 32)


@pytest.mark.parametrize(("key", "message", "tag"), CASES)
def test_hmac_rfc_4231(key, message, tag):
    assert tag_of(key, message).hex().startswith(tag)


@settings(max_examples=40)
@given(key=st.binary(max_size=80), message=st.binary(max_size=200))
def test_hmac_any_key_and_message_is_that_of_the_standard_library(key, message):
    assert tag_of(key, message) == hmac.digest(key, message, "sha256")


def test_hmac_of_the_largest_datagram():
    message = bytes(n & 0xFF for n in range(1400))
    assert tag_of(b"k" * 64, message) == hmac.digest(b"k" * 64, message, "sha256")


@pytest.mark.vectors
@needs("hmac_sha256_test.json")
def test_hmac_wycheproof():
    tried = set()
    for group in groups("hmac_sha256_test.json"):
        for case in group["tests"]:
            made = tag_of(bytes.fromhex(case["key"]), bytes.fromhex(case["msg"]))
            same = made.hex()[: group["tagSize"] // 4] == case["tag"]
            assert same == (case["result"] == "valid"), case["tcId"]
            tried.add(case["result"])
    assert tried == {"valid", "invalid"}


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
