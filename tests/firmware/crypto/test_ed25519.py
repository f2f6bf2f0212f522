"""Ed25519 against RFC 8032 and OpenSSL, and its steps for any key.

One key and signatures of each variant run in lockstep, whose model makes each signature by the RFC a
second time; all other cases judge the result, in Unicorn and on the processor.
"""

import hashlib

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.constant_time import same_traces
from firmware.crypto.ed25519 import ED25519, ed25519_encode
from firmware.crypto.formula import encoded
from firmware.layouts.curves import ED25519_ORDER
from firmware.layouts.ed25519 import (
    ED25519_BASE,
    ED25519_COMB,
    ED25519_WORK,
    Ed25519Key,
    Ed25519Work,
    ed25519_added,
)
from firmware.layouts.field import Level
from tests.support.lab import Lab
from tests.support.processor import Processor

LAB = Lab(*(r for e in ED25519.values() for r in (e.key, e.sign)), semantics=False)
LEVELS = pytest.mark.parametrize("level", Level, ids=[level.value for level in Level])
P, L = 2**255 - 19, ED25519_ORDER.value
JUNK = b"\xa5"
"""What fresh memory of a lab holds."""
ABC = hashlib.sha512(b"abc").hexdigest()
# RFC 8032 7.1: seed, public key, message, signature.
RFC_8032 = [
    (
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555"
        "fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
    ),
    (
        "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da0"
        "85ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
    ),
    (
        "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac1"
        "8ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a",
    ),
    (
        "833fe62409237b9d62ec77587520911e9a759cec1d19755b7da901b96dca3d42",
        "ec172b93ad5e563bf4932c70e1245034c35467ef2efd4d64ebf819683467e2bf",
        ABC,
        "dc2a4459e7369633a52b1bf277839a00201009a3efbf3ecb69bea2186c26b5890"
        "9351fc9ac90b3ecfdfbc7c66431e0303dca179c138ac17ad9bef1177331a704",
    ),
]


def signed(seed, message):
    """Return what OpenSSL says is the public key, and the signature."""
    key = Ed25519PrivateKey.from_private_bytes(seed)
    return key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw), key.sign(message)


def expanded(seed):
    """Return the key of a seed (RFC 8032 5.1.5)."""
    digest = bytearray(hashlib.sha512(seed).digest())
    digest[0] &= 248
    digest[31] = digest[31] & 127 | 64
    return bytes(digest) + signed(seed, b"")[0]


def wiped():
    at = LAB.image.address(ED25519_WORK)
    return LAB.machine.read(at, Ed25519Work.SIZE) == bytes(Ed25519Work.SIZE)


def put_seed(seed, _public=None):
    return {"seed": LAB.put(seed), "out": LAB.machine.alloc(Ed25519Key.SIZE + 8)}


def put(key, message):
    """Lay the inputs of a signature down."""
    at = LAB.machine.alloc(Ed25519Key.SIZE)
    LAB.machine.write(at, key)
    text = LAB.put(message)
    return {"out": LAB.machine.alloc(72), "key": at, "message": text, "length": len(message)}


def made(level, seed, message, run):
    """Return the public key, and the signature, by a way of running routines."""
    LAB.reset()
    at = put_seed(seed)
    run(ED25519[level].key, **at)
    key = LAB.machine.read(at["out"], Ed25519Key.SIZE + 8)
    assert key == expanded(seed) + JUNK * 8
    assert wiped()
    at = put(key[:-8], message)
    run(ED25519[level].sign, **at)
    signature = LAB.machine.read(at["out"], 72)
    assert signature[64:] == JUNK * 8
    assert wiped()
    return key[64:96], signature[:64]


@LEVELS
@pytest.mark.parametrize(("seed", "public", "message", "signature"), RFC_8032, ids=range(1, 5))
def test_rfc_8032_in_lockstep(level, seed, public, message, signature):
    got = made(level, bytes.fromhex(seed), bytes.fromhex(message), LAB.call)
    assert (got[0].hex(), got[1].hex()) == (public, signature)


@LEVELS
@settings(max_examples=40)
@given(seed=st.binary(min_size=32, max_size=32), message=st.binary(max_size=400))
def test_any_key_and_message_as_openssl_signs_it(level, seed, message):
    assert made(level, seed, message, LAB.free) == signed(seed, message)


@LEVELS
def test_any_key_and_message_on_the_processor(level):
    """Each signature's first half is the next seed."""
    LAB.reset()
    seed, key, out, message = (LAB.machine.alloc(size) for size in (32, 96, 64, 1024))
    seeds, calls = [hashlib.sha256(b"first").digest()], []
    texts = [hashlib.shake_256(bytes([n])).digest(5 * n) for n in range(200)]
    processor = Processor(LAB)
    for text in texts:
        wanted = signed(seeds[-1], text)
        calls += [
            processor.call(
                ED25519[level].key, ((seed, seeds[-1]),), ((key + 64, 32),), out=key, seed=seed
            ),
            processor.call(
                ED25519[level].sign, ((message, text),) if text else (), ((out, 64),),
                out=out, key=key, message=message, length=len(text),
            ),
        ]  # fmt: skip
        seeds.append(wanted[1][:32])
    results = processor.run(calls)
    for n, text in enumerate(texts):
        public, signature = (r.memory for r in results[2 * n : 2 * n + 2])
        assert (public[key + 64], signature[out]) == signed(seeds[n], text)


@LEVELS
def test_the_steps_are_the_same_for_all_keys(level):
    routines = ED25519[level]
    seeds = [bytes(32), b"\xff" * 32, b"\x55" * 32, bytes(range(32)), b"\x80" + bytes(31)]
    same_traces(LAB.machine, routines.key, put_seed, secrets=seeds, publics=[None], minimum=100_000)
    same_traces(
        LAB.machine, routines.sign, put, secrets=[expanded(seed) for seed in seeds],
        publics=[b"", b"message"], minimum=100_000,
    )  # fmt: skip


# -- parts ----------------------------------------------------------------------------------------
def times(k):
    total, power = (0, 1), ED25519_BASE
    while k:
        if k & 1:
            total = ed25519_added(total, power)
        power = ed25519_added(power, power)
        k >>= 1
    return total


def test_the_base_point_has_the_order_that_the_rfc_says():
    x = 15112221349535400772501151409588531511454012693041857206046113283949847762202
    assert (x, 4 * pow(5, -1, P) % P) == ED25519_BASE
    assert times(L) == (0, 1)


def test_the_comb_has_the_sums_of_its_teeth():
    rows = ED25519_COMB.init
    assert rows is not None
    assert len(rows) == 32 * 96
    for n in (0, 1, 2, 5, 31):
        k = sum((n >> tooth & 1) << 51 * tooth for tooth in range(5))
        plus, minus, _ = (
            int.from_bytes(rows[96 * n + at : 96 * n + at + 32], "little") for at in (0, 32, 64)
        )
        half = pow(2, -1, P)
        assert ((plus - minus) * half % P, (plus + minus) * half % P) == times(k)


@LEVELS
@pytest.mark.parametrize(
    "k", [0, 1, 8, L - 1, L, L + 1, 2**254, 2**255 - 1, 2**255 - 8, 1 << 51, 31 << 204]
)
def test_multiples_of_the_base_point_in_lockstep(level, k):
    """The model knows the group law."""
    LAB.reset()
    LAB.g(ED25519_WORK).by[:] = k.to_bytes(32, "little")
    LAB.g(ED25519_WORK).one[:] = (1).to_bytes(32, "little")
    LAB.call(ED25519[level].multiply)


@pytest.mark.parametrize("x", [0, 1, P - 1, P, P + 1, 2**255 - 1, 2**256 - 1])
@pytest.mark.parametrize("y", [0, 5, P - 1, P, 2**256 - 1])
def test_points_are_written_by_their_least_residues(x, y):
    LAB.reset()
    work = LAB.g(ED25519_WORK)
    work.x[:], work.y[:] = (n.to_bytes(32, "little") for n in (x, y))
    out = LAB.machine.alloc(40)
    LAB.call(ed25519_encode, out=out)
    wanted = y % P | (x % P & 1) << 255
    assert LAB.machine.read(out, 40) == wanted.to_bytes(32, "little") + JUNK * 8


@LEVELS
@pytest.mark.parametrize("digest", [0, 1, L - 1, L, L << 256, 2**256 - 1, 2**512 - 1, L * L])
def test_digests_are_reduced_by_the_order(level, digest):
    lines = "by = low * square\nhigh = high * cube\nby = by + high\nby = by * one"
    LAB.reset()
    work = LAB.g(ED25519_WORK)
    raw = digest.to_bytes(64, "little")
    work.low[:], work.high[:] = raw[:32], raw[32:]
    for name, value in (("square", 2**512), ("cube", 2**768), ("one", 1)):
        getattr(work, name)[:] = (value % L).to_bytes(32, "little")
    LAB.call(ED25519[level].scalars, program=LAB.put(encoded(lines, Ed25519Work)))
    assert int.from_bytes(bytes(work.by), "little") == digest % L


@LEVELS
def test_elements_and_scalars_are_copied(level):
    for routine in (ED25519[level].formula, ED25519[level].scalars):
        LAB.reset()
        work = LAB.g(ED25519_WORK)
        work.x[:] = bytes(range(32))
        LAB.call(routine, program=LAB.put(encoded("t = x", Ed25519Work)))
        assert bytes(work.t) == bytes(range(32))
