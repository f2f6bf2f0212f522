"""Routines without a variant in their name leave to the one that boot chose.

The lockstep compares who is called with what; models choose by the same field.
"""

import pytest

from firmware.crypto.chosen import (
    aes_gcm_key,
    aes_gcm_open,
    aes_gcm_seal,
    p256_agree,
    p256_public,
    x25519,
)
from firmware.layouts.aead import AesGcm
from firmware.layouts.known_answers import (
    KNOWN_P256_SCALAR,
    KNOWN_X25519,
    KNOWN_X25519_POINT,
    KNOWN_X25519_SCALAR,
)
from firmware.layouts.variants import VARIANTS, Variant
from tests.support.aead import Aead
from tests.support.lab import Lab

ROUTINES = (aes_gcm_key, aes_gcm_open, aes_gcm_seal, p256_agree, p256_public, x25519)
LAB = Lab(*ROUTINES, slots=0, semantics=False)
EACH = pytest.mark.parametrize("which", [Variant.BASE, Variant.FAST], ids=lambda v: v.name.lower())


def choose(**families):
    """Choose for some families, and the other variant for all others."""
    chosen = LAB.g(VARIANTS)
    (which,) = set(families.values())
    for name in ("aes_gcm", "x25519", "p256", "signatures"):
        setattr(chosen, name, families.get(name, Variant(1 - which)))


def put(contents):
    at = LAB.machine.alloc(len(contents))
    LAB.machine.write(at, contents)
    return at


@EACH
def test_x25519(which):
    LAB.reset()
    choose(x25519=which)
    at = {"scalar": put(KNOWN_X25519_SCALAR.init), "point": put(KNOWN_X25519_POINT.init)}
    at["out"] = put(bytes(32))
    assert LAB.call(x25519, **at).outputs["cf"] == 0
    assert LAB.machine.read(at["out"], 32) == KNOWN_X25519.init


@EACH
def test_a_public_key_of_p256(which):
    LAB.reset()
    choose(p256=which)
    at = {"scalar": put(KNOWN_P256_SCALAR.init), "out": put(bytes(65))}
    LAB.call(p256_public, **at)
    # RFC 5903 8.1: gix.
    wanted = "dad0b65394221cf9b051e1feca5787d098dfe637fc90b9ef945d0c3772581180"
    assert LAB.machine.read(at["out"], 33).hex() == "04" + wanted


@EACH
def test_a_share_of_p256_that_is_refused(which):
    LAB.reset()
    choose(p256=which)
    at = {"scalar": put(KNOWN_P256_SCALAR.init), "out": put(bytes(65)), "share": put(bytes(65))}
    assert LAB.call(p256_agree, **at).outputs["cf"] == 1


class Chosen(Aead):
    """AES-GCM with a variant."""

    def __init__(self, which):
        super().__init__(LAB, AesGcm, aes_gcm_key, aes_gcm_seal, aes_gcm_open, None)
        self.which = which

    def _laid(self, *inputs):
        choose(aes_gcm=self.which)
        return super()._laid(*inputs)


@EACH
@pytest.mark.parametrize("size", [16, 32])
def test_aes_gcm(which, size):
    cipher, other = Chosen(which), Chosen(Variant(1 - which))
    key, nonce, text = bytes(range(size)), bytes(12), b"a text" * 30
    sealed = cipher.sealed(key, nonce, b"header", text, LAB.call)
    assert cipher.opened(key, nonce, b"header", sealed, LAB.call) == text
    assert cipher.opened(key, nonce, b"hEader", sealed, LAB.call) is None
    assert other.sealed(key, nonce, b"header", text, LAB.call) == sealed
