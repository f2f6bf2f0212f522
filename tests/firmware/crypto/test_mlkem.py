"""ML-KEM-768 whole: Wycheproof, another library, and FIPS 203 by itself.

One key pair, one ciphertext that is right and one that is not run in lockstep; all other cases judge
the result, in Unicorn and on the processor.
"""

import hashlib
import struct

import pytest
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey

from emulator.constant_time import same_traces
from emulator.models.crypto import mlkem_arithmetic as m
from firmware.crypto.mlkem import mlkem_decapsulate, mlkem_keygen
from firmware.layouts.keccak import KECCAK, Keccak
from firmware.layouts.mlkem import (
    CIPHERTEXT_BYTES,
    CODED_SLACK,
    EK_BYTES,
    MLKEM_WORK,
    MlKemKey,
    MlKemWork,
)
from tests.support.lab import Lab
from tests.support.processor import Processor
from tests.support.wycheproof import groups, needs

LAB = Lab(mlkem_keygen, mlkem_decapsulate, slots=0, semantics=False)
SEED = hashlib.shake_128(b"seed").digest(64)
SLACK = b"\xff" * CODED_SLACK


@pytest.fixture(autouse=True)
def _fresh():
    LAB.reset()


def places():
    """Return where a key pair and a secret go."""
    return LAB.machine.alloc(MlKemKey.SIZE), LAB.machine.alloc(32)


def wiped():
    for what, struct_ in ((MLKEM_WORK, MlKemWork), (KECCAK, Keccak)):
        at = LAB.image.address(what)
        assert LAB.machine.read(at, struct_.SIZE) == bytes(struct_.SIZE)


def freely(seed, *ciphertexts):
    """Return the encapsulation key of a seed and the secrets of ciphertexts, of a free run."""
    LAB.reset()
    key, out = places()
    LAB.free(mlkem_keygen, key=key, seed=LAB.put(seed))
    wiped()
    ek, secrets = LAB.machine.read(key, EK_BYTES), []
    for ciphertext in ciphertexts:
        LAB.free(mlkem_decapsulate, out=out, key=key, ciphertext=LAB.put(ciphertext + SLACK))
        wiped()
        secrets.append(LAB.machine.read(out, 32))
    return ek, secrets


def natively(cases):
    """Return the same for many seeds, of the processor."""
    key, out = places()
    text = LAB.machine.alloc(CIPHERTEXT_BYTES + CODED_SLACK)
    seed_at = LAB.machine.alloc(64)
    processor = Processor(LAB)
    calls = []
    for seed, ciphertext in cases:
        calls.append(
            processor.call(
                mlkem_keygen, ((seed_at, seed),), ((key, EK_BYTES),), key=key, seed=seed_at
            )
        )
        calls.append(
            processor.call(
                mlkem_decapsulate,
                ((text, ciphertext + SLACK),),
                ((out, 32),),
                out=out,
                key=key,
                ciphertext=text,
            )
        )
    results = processor.run(calls)
    return [
        (one.memory[key], other.memory[out])
        for one, other in zip(results[::2], results[1::2], strict=True)
    ]


def theirs(seed):
    return MLKEM768PrivateKey.from_seed_bytes(seed)


def test_keygen_and_a_right_ciphertext_in_lockstep():
    key, out = places()
    LAB.call(mlkem_keygen, key=key, seed=LAB.put(SEED))
    ek, s, a = m.keygen(SEED[:32])
    assert LAB.machine.read(key, EK_BYTES) == ek == theirs(SEED).public_key().public_bytes_raw()
    made = LAB.view(MlKemKey, key)
    assert bytes(made.hash) == hashlib.sha3_256(ek).digest()
    assert bytes(made.z) == SEED[32:]
    assert bytes(made.s) == b"".join(struct.pack("<256H", *poly) for poly in s)
    assert bytes(made.a) == b"".join(struct.pack("<256H", *poly) for row in a for poly in row)
    secret, ciphertext = theirs(SEED).public_key().encapsulate()
    LAB.call(mlkem_decapsulate, out=out, key=key, ciphertext=LAB.put(ciphertext + SLACK))
    assert LAB.machine.read(out, 32) == secret
    wiped()


def test_a_wrong_ciphertext_in_lockstep_gives_what_nobody_else_knows():
    key, out = places()
    LAB.free(mlkem_keygen, key=key, seed=LAB.put(SEED))
    ciphertext = bytes(range(256)) * 4 + bytes(64)
    LAB.call(mlkem_decapsulate, out=out, key=key, ciphertext=LAB.put(ciphertext + SLACK))
    found = LAB.machine.read(out, 32)
    assert found == hashlib.shake_256(SEED[32:] + ciphertext).digest(32)
    assert found == theirs(SEED).decapsulate(ciphertext)


@pytest.mark.parametrize("n", range(12))
def test_another_library_agrees(n):
    seed = hashlib.shake_128(b"seed %d" % n).digest(64)
    public = theirs(seed).public_key()
    right = [public.encapsulate() for _ in range(3)]
    secret, ciphertext = right[0]
    # One bit of each part is another: u, the first and last byte of v.
    wrong = [
        ciphertext[:at] + bytes([ciphertext[at] ^ 1 << n % 8]) + ciphertext[at + 1 :]
        for at in (0, n * 80, 959, 960, 1087)
    ]
    ek, secrets = freely(seed, *(text for _, text in right), *wrong)
    assert ek == public.public_bytes_raw()
    assert secrets[:3] == [shared for shared, _ in right]
    assert secrets[3:] == [theirs(seed).decapsulate(text) for text in wrong]
    assert secret not in secrets[3:]


def test_many_keys_on_the_processor():
    cases = []
    for n in range(300):
        seed = hashlib.shake_128(b"many %d" % n).digest(64)
        secret, ciphertext = theirs(seed).public_key().encapsulate()
        cases.append((seed, ciphertext, secret))
    found = natively([(seed, ciphertext) for seed, ciphertext, _ in cases])
    for (seed, _, secret), (ek, ours) in zip(cases, found, strict=True):
        assert ek == theirs(seed).public_key().public_bytes_raw()
        assert ours == secret


@pytest.mark.vectors
@needs("mlkem_768_test.json")
def test_mlkem_wycheproof():
    """A ciphertext of another length is the caller's to refuse: our contract takes 1088 bytes."""
    cases = [case for group in groups("mlkem_768_test.json") for case in group["tests"]]
    inputs = [(case, *(bytes.fromhex(case[name]) for name in ("seed", "c", "K"))) for case in cases]
    fitting = [row for row in inputs if len(row[2]) == CIPHERTEXT_BYTES and len(row[1]) == 64]
    native = natively([(seed, c) for _, seed, c, _ in fitting])
    for (case, seed, ciphertext, secret), other in zip(fitting, native, strict=True):
        assert case["result"] == "valid", case["tcId"]
        ek, (ours,) = freely(seed, ciphertext)
        assert (ek.hex(), ours) == (case["ek"], secret), case["tcId"]
        assert other == (ek, ours), case["tcId"]
    for case, seed, ciphertext, _ in (row for row in inputs if row not in fitting):
        assert case["result"] == "invalid", case["tcId"]
        assert len(ciphertext) != CIPHERTEXT_BYTES or len(seed) != 64
    assert (len(cases), len(fitting)) == (97, 77)


def test_keygen_takes_the_same_steps_whatever_sigma_and_z_are():
    """Rho is public, and G gives it together with sigma: so d stays, and z is all that changes."""

    def prepare(z, d):
        key, _ = places()
        return {"key": key, "seed": LAB.put(d + z)}

    same_traces(
        LAB.machine,
        mlkem_keygen,
        prepare,
        secrets=[bytes([n]) * 32 for n in range(5)],
        publics=[b"d" * 32],
        minimum=100_000,
    )


def test_decapsulation_takes_the_same_steps_whatever_key_and_ciphertext():
    """Right, wrong in one bit, and of nobody; with secret vectors of other seeds."""
    key, _ = places()
    LAB.free(mlkem_keygen, key=key, seed=LAB.put(SEED))
    made = LAB.machine.read(key, MlKemKey.SIZE)
    _, right = theirs(SEED).public_key().encapsulate()
    bent = bytes([right[0] ^ 1]) + right[1:]
    other = bytes([n * 5 & 0xFF for n in range(1536)])
    small = b"".join(struct.pack("<H", n % 3329) for n in range(768))
    secrets = [
        (made, right),
        (made, bent),
        (made, bytes(CIPHERTEXT_BYTES)),
        (made[:0x4E0] + small + made[0xAE0:], right),
        (made[:0x4C0] + other[:32] + made[0x4E0:], bent),
    ]

    def prepare(secret, _public):
        key, out = places()
        LAB.machine.write(key, secret[0])
        return {"out": out, "key": key, "ciphertext": LAB.put(secret[1] + SLACK)}

    same_traces(
        LAB.machine, mlkem_decapsulate, prepare, secrets=secrets, publics=[0], minimum=100_000
    )
