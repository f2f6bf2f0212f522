"""SHA-1 against FIPS 180-4 examples and the standard library."""

import hashlib

import pytest

from firmware.crypto.sha1 import sha1_digest
from tests.support.lab import Lab

LAB = Lab(sha1_digest)


def digest_of(message):
    LAB.reset()
    where, out = LAB.machine.alloc(128), LAB.machine.alloc(20)
    LAB.machine.write(where, message)
    LAB.call(sha1_digest, message=where, length=len(message), digest=out)
    return LAB.machine.read(out, 20)


@pytest.mark.parametrize(
    ("message", "digest"),
    [
        (b"abc", "a9993e364706816aba3e25717850c26c9cd0d89d"),
        (b"", "da39a3ee5e6b4b0d3255bfef95601890afd80709"),
        (
            b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
            "84983e441c3bd26ebaae4aa1f95129e5e54670f1",
        ),
        (
            b"dGhlIHNhbXBsZSBub25jZQ==258EAFA5-E914-47DA-95CA-C5AB0DC85B11",
            "b37a4f2cc0624f1690f64606cf385945b2bec4ea",
        ),
    ],
)
def test_sha1_digest_published_examples(message, digest):
    assert digest_of(message).hex() == digest


@pytest.mark.parametrize("length", [0, 1, 54, 55, 56, 57, 63, 64, 65, 118, 119])
def test_sha1_digest_padding_at_each_boundary(length):
    message = bytes(range(length))
    assert digest_of(message) == hashlib.sha1(message, usedforsecurity=False).digest()
