"""The random generator: ChaCha20 by its RFC, fast key erasure, what is mixed in."""

from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.constant_time import same_traces
from emulator.models.crypto.chacha20 import key_stream
from firmware.crypto.chacha20 import chacha20_block
from firmware.crypto.drbg import drbg_bytes, drbg_mix, drbg_u64
from firmware.layouts.crypto import DRBG, DRBG_POOL_BYTES
from firmware.layouts.entropy import SAMPLE_BYTES
from tests.support.lab import Lab

LAB = Lab(drbg_mix, drbg_u64, drbg_bytes, chacha20_block)
SEED = bytes(range(SAMPLE_BYTES))


def seed(sample=SEED):
    """Start the generator anew and mix a sample in."""
    LAB.reset()
    drbg = LAB.g(DRBG)
    drbg.seed[:] = bytes(sample)
    LAB.call(drbg_mix)
    return drbg


# RFC 8439 2.3.2: key 00..1f, nonce 00:00:00:09:00:00:00:4a:00:00:00:00, counter 1.
RFC_MATRIX = (
    b"expand 32-byte k" + bytes(range(32)) + bytes.fromhex("01000000 000000090000004a00000000")
)
RFC_BLOCK = bytes.fromhex(
    "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
    "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e"
)


def test_chacha20_block_rfc_8439_vector():
    matrix, out = LAB.machine.alloc(64), LAB.machine.alloc(64)
    LAB.machine.write(matrix, RFC_MATRIX)
    LAB.call(chacha20_block, matrix=matrix, out=out)
    assert LAB.machine.read(out, 64) == RFC_BLOCK
    assert key_stream(RFC_MATRIX) == RFC_BLOCK


@settings(max_examples=30, deadline=None)
@given(st.binary(min_size=64, max_size=64))
def test_chacha20_block_any_matrix_matches_model(matrix):
    LAB.reset()
    where, out = LAB.machine.alloc(64, align=1) + 1, LAB.machine.alloc(80) + 3
    LAB.machine.write(where, matrix)
    LAB.call(chacha20_block, matrix=where, out=out)


def test_drbg_mix_uses_every_half_and_forgets_it():
    keys = {bytes(seed().key)}
    for n in range(0, SAMPLE_BYTES, 8):
        changed = bytearray(SEED)
        changed[n] ^= 0x10
        keys.add(bytes(seed(changed).key))
    assert len(keys) == 1 + SAMPLE_BYTES // 8
    assert bytes(seed().seed) == bytes(SAMPLE_BYTES), "what was gathered must not stay in memory"


def test_drbg_mix_twice_the_same_is_not_undone():
    drbg = seed(bytes(SAMPLE_BYTES // 2) * 2)
    idle = bytes(drbg.key)
    drbg = seed(b"\x5a" * SAMPLE_BYTES)
    assert bytes(drbg.key) != idle, "halves that are equal must not cancel out"


def test_drbg_mix_only_adds_to_earlier_state():
    first = bytes(seed().key)
    assert bytes(seed().key) == first, "the same inputs give the same key"
    LAB.g(DRBG).seed[:] = SEED
    LAB.call(drbg_mix)
    assert bytes(LAB.g(DRBG).key) != first


def test_drbg_u64_serves_each_bit_once_and_forgets_it():
    drbg = seed()
    drbg.available = 0
    served = [LAB.call(drbg_u64).outputs["rax"] for _ in range(60)]
    assert len(set(served)) == 60
    start = DRBG_POOL_BYTES - drbg.available
    assert bytes(drbg.pool[:start]) == bytes(start)
    assert drbg.refills == 5  # two by seeding, then 28 numbers in a pool


def test_drbg_refill_replaces_the_key_by_unserved_bytes():
    drbg = seed()
    before = bytes(drbg.key)
    drbg.available = 0
    got = LAB.call(drbg_u64).outputs["rax"]
    stream = key_stream(b"expand 32-byte k" + before + bytes(16))
    assert bytes(drbg.key) == stream[:32]
    assert got == int.from_bytes(stream[32:40], "little")
    assert bytes(drbg.pool[:40]) == bytes(40)


@settings(max_examples=25, deadline=None)
@given(
    available=st.integers(0, DRBG_POOL_BYTES - 32),
    length=st.one_of(st.sampled_from([0, 1, 7, 8, 223, 224, 225, 500]), st.integers(0, 600)),
)
def test_drbg_bytes_any_length_any_pool(available, length):
    drbg = seed()
    drbg.available = available
    out = LAB.machine.alloc(600)
    LAB.call(drbg_bytes, out=out, length=length)
    LAB.call(drbg_u64)


def test_drbg_bytes_are_the_same_stream_as_numbers():
    seed()
    out = LAB.machine.alloc(16)
    LAB.call(drbg_bytes, out=out, length=16)
    got = LAB.machine.read(out, 16)
    seed()
    numbers = [LAB.call(drbg_u64).outputs["rax"] for _ in range(2)]
    assert got == b"".join(n.to_bytes(8, "little") for n in numbers)


KEYS = [bytes(32), b"\xff" * 32, b"\x55" * 32, bytes(range(32)), b"\1" * 32]


def steps(routine, publics, minimum, **inputs):
    """Compare the traces of a generator with each key; a public input is what the pool holds."""

    def prepare(key, available):
        drbg = LAB.g(DRBG)
        drbg.key[:] = key
        drbg.seed[:] = key[::-1] * (SAMPLE_BYTES // 32)
        drbg.pool[:] = key * (DRBG_POOL_BYTES // 32)
        drbg.available = available
        return {name: LAB.machine.alloc(value) if name == "out" else value
                for name, value in inputs.items()}  # fmt: skip

    same_traces(LAB.machine, routine, prepare, secrets=KEYS, publics=publics, minimum=minimum)


def test_numbers_and_bytes_take_the_same_steps_whatever_the_key():
    steps(drbg_u64, [0, 8, 224], 10)
    steps(drbg_bytes, [0, 1, 100], 100, out=300, length=300)
    steps(drbg_mix, [0], 1_000)


def test_chacha20_block_takes_the_same_steps_whatever_the_key():
    def prepare(key, counter):
        matrix, out = LAB.machine.alloc(64), LAB.machine.alloc(64)
        LAB.machine.write(matrix, b"expand 32-byte k" + key + bytes([counter]).ljust(16, b"\0"))
        return {"matrix": matrix, "out": out}

    same_traces(
        LAB.machine, chacha20_block, prepare, secrets=KEYS, publics=[0, 1, 255], minimum=570
    )
