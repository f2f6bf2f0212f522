"""The parts of ML-KEM-768 for any polynomial, each in lockstep with FIPS 203's definition."""

import hashlib
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.constant_time import same_traces
from emulator.models.crypto import mlkem_arithmetic as m
from firmware.crypto.mlkem_encodings import (
    mlkem_compress,
    mlkem_decode,
    mlkem_decompress,
    mlkem_encode,
    mlkem_from_message,
    mlkem_to_message,
)
from firmware.crypto.mlkem_ntt import mlkem_inverse_ntt, mlkem_ntt
from firmware.crypto.mlkem_polynomials import mlkem_add, mlkem_dot, mlkem_subtract
from firmware.crypto.mlkem_samples import mlkem_sample_noise, mlkem_sample_ntt
from firmware.layouts.mlkem import CODED_SLACK, K, N, Q
from tests.support.lab import Lab

LAB = Lab(
    mlkem_ntt, mlkem_inverse_ntt, mlkem_dot, mlkem_add, mlkem_subtract, mlkem_encode, mlkem_decode,
    mlkem_compress, mlkem_decompress, mlkem_to_message, mlkem_from_message, mlkem_sample_ntt,
    mlkem_sample_noise,
    slots=0,
)  # fmt: skip
EDGES = [0, 1, Q // 4, Q // 4 + 1, Q // 2, Q // 2 + 1, 3 * Q // 4, 3 * Q // 4 + 1, Q - 2, Q - 1]


def spread(seed):
    """Return any polynomial of a seed."""
    stuff = hashlib.shake_128(seed).digest(4 * N)
    return [x % Q for x in struct.unpack(f"<{N}I", stuff)]


POLYS = [
    pytest.param([0] * N, id="zeros"),
    pytest.param([Q - 1] * N, id="largest"),
    pytest.param([Q - 1, 0] * (N // 2), id="even"),
    pytest.param([0, Q - 1] * (N // 2), id="odd"),
    pytest.param((EDGES * N)[:N], id="edges"),
    *(pytest.param([0] * n + [1] + [0] * (N - 1 - n), id=f"x^{n}") for n in (0, 1, 2, 7, 128, 255)),
    *(pytest.param(spread(bytes([n])), id=f"any-{n}") for n in range(4)),
]
EACH = pytest.mark.parametrize("f", POLYS)
EVERY = [list(range(first, first + N)) for first in range(0, Q - N, N)] + [list(range(Q - N, Q))]


@pytest.fixture(autouse=True)
def _fresh():
    LAB.reset()


def words(f):
    return struct.pack(f"<{len(f)}H", *f)


def lay(*polys):
    """Lay polynomials down in a row; return where."""
    at = LAB.machine.alloc(2 * N * len(polys))
    LAB.machine.write(at, b"".join(map(words, polys)))
    return at


def poly_at(at):
    return list(struct.unpack(f"<{N}H", LAB.machine.read(at, 2 * N)))


@EACH
def test_both_transforms_undo_each_other(f):
    at = LAB.put(words(f))
    LAB.call(mlkem_ntt, poly=at)
    assert poly_at(at) == m.ntt(f)
    LAB.call(mlkem_inverse_ntt, poly=at)
    assert poly_at(at) == f


@EACH
def test_the_inverse_of_what_is_no_transform(f):
    at = LAB.put(words(f), first=True)
    LAB.call(mlkem_inverse_ntt, poly=at)
    assert poly_at(at) == m.inverse_ntt(f)


def test_the_product_is_that_of_the_ring():
    """X^256 is -1: of transforms that are multiplied, and of the polynomials themselves."""
    f, g = spread(b"f"), spread(b"g")
    wanted = [0] * N
    for i, x in enumerate(f):
        for j, y in enumerate(g):
            wanted[(i + j) % N] += x * y if i + j < N else -x * y
    first, second, out = lay(f, [0] * N, [0] * N), lay(g, f, g), lay([0] * N)
    for at in (first, second):
        LAB.call(mlkem_ntt, poly=at)
    LAB.call(mlkem_dot, out=out, first=first, stride=2 * N, second=second)
    LAB.call(mlkem_inverse_ntt, poly=out)
    assert poly_at(out) == [x % Q for x in wanted]


@EACH
@pytest.mark.parametrize("stride", [2 * N, 2 * N * K])
def test_sums_of_products_row_and_column(f, stride):
    matrix = [f, spread(b"a"), [Q - 1] * N, spread(b"b"), f[::-1], [Q - 1] * N, f, f, f]
    second = lay(f, [Q - 1] * N, spread(b"c"))
    LAB.call(
        mlkem_dot,
        out=lay([7] * N),
        first=lay(*matrix[: 2 * stride // (2 * N) + 1]),
        stride=stride,
        second=second,
    )


@EACH
def test_sums_and_differences(f):
    for g in ([0] * N, [Q - 1] * N, f, f[::-1], spread(b"g")):
        LAB.call(mlkem_add, poly=LAB.put(words(f)), other=lay(g))
        LAB.call(mlkem_subtract, poly=LAB.put(words(f), first=True), other=lay(g))


@pytest.mark.parametrize("d", [4, 10, 12])
@settings(max_examples=15)
@given(data=st.data())
def test_bits_and_back(d, data):
    f = data.draw(st.lists(st.integers(0, 2**d - 1), min_size=N, max_size=N))
    LAB.reset()
    coded = LAB.machine.alloc(32 * d + CODED_SLACK)
    LAB.call(mlkem_encode, out=coded, poly=LAB.put(words(f)), bits=d)
    stuff = LAB.machine.read(coded, 32 * d)
    assert stuff == m.encode(f, d)
    out = lay([0] * N)
    # What lies behind is anything.
    LAB.call(mlkem_decode, poly=out, coded=LAB.put(stuff + b"\xff" * (8 - d // 2)), bits=d)
    assert poly_at(out) == f


@pytest.mark.parametrize("d", [4, 10])
@pytest.mark.parametrize("f", EVERY, ids=lambda f: f"from-{f[0]}")
def test_every_coefficient_is_compressed_as_defined(d, f):
    at = LAB.put(words(f))
    LAB.call(mlkem_compress, poly=at, bits=d)
    assert poly_at(at) == [((x << d) * 2 + Q) // (2 * Q) % (1 << d) for x in f]
    LAB.call(mlkem_decompress, poly=at, bits=d)
    # FIPS 203 4.2.1: what comes back is near.
    for x, y in zip(f, poly_at(at), strict=True):
        assert min((x - y) % Q, (y - x) % Q) <= (Q + (1 << d)) // (2 << d)


@pytest.mark.parametrize("d", [4, 10])
def test_every_compressed_coefficient_comes_back(d):
    for first in range(0, 1 << d, N):
        at = LAB.put(words([n % (1 << d) for n in range(first, first + N)]))
        LAB.call(mlkem_decompress, poly=at, bits=d)
        LAB.call(mlkem_compress, poly=at, bits=d)
        assert poly_at(at) == [n % (1 << d) for n in range(first, first + N)]


@pytest.mark.parametrize("f", EVERY, ids=lambda f: f"from-{f[0]}")
def test_every_coefficient_gives_its_bit(f):
    out = LAB.machine.alloc(32)
    LAB.call(mlkem_to_message, out=out, poly=LAB.put(words(f)))
    bits = int.from_bytes(LAB.machine.read(out, 32), "little")
    assert [bits >> n & 1 for n in range(N)] == [int(833 <= x <= 2496) for x in f]


@pytest.mark.parametrize("seed", [b"\0" * 32, b"\xff" * 32, bytes(range(32))])
def test_a_message_comes_back(seed):
    poly, out = lay([0] * N), LAB.machine.alloc(32)
    LAB.call(mlkem_from_message, poly=poly, message=LAB.put(seed))
    assert set(poly_at(poly)) <= {0, 1665}
    LAB.call(mlkem_to_message, out=out, poly=poly)
    assert LAB.machine.read(out, 32) == seed


@settings(max_examples=12)
@given(seed=st.binary(min_size=32, max_size=32), index=st.integers(0, 0x202))
def test_matrix_elements_are_sampled_as_defined(seed, index):
    LAB.reset()
    at = lay([0] * N)
    LAB.call(mlkem_sample_ntt, out=at, seed=LAB.put(seed), index=index)
    stream = hashlib.shake_128(seed + index.to_bytes(2, "little")).digest(3360)
    assert poly_at(at) == m.sample_ntt(iter(stream))


def _long():
    """Yield seeds whose first three blocks are too few, and one for which they are just enough."""
    for n in range(100_000):
        seed = n.to_bytes(32, "little")
        stream = hashlib.shake_128(seed + b"\0\0").digest(504)
        good = sum(
            x < Q
            for a, b, c in zip(stream[::3], stream[1::3], stream[2::3], strict=True)
            for x in (a | (b & 15) << 8, b >> 4 | c << 4)
        )
        if good < N or good == N:
            yield good < N, seed


def test_a_matrix_element_that_needs_a_fourth_block():
    found: dict[bool, bytes] = {}
    for short, seed in _long():
        found.setdefault(short, seed)
        if len(found) == 2:
            break
    for seed in found.values():
        LAB.reset()
        LAB.call(mlkem_sample_ntt, out=lay([0] * N), seed=LAB.put(seed), index=0)


@settings(max_examples=12)
@given(seed=st.binary(min_size=32, max_size=32), index=st.integers(0, 6))
def test_noise_is_sampled_as_defined(seed, index):
    LAB.reset()
    at = lay([0] * N)
    LAB.call(mlkem_sample_noise, out=at, seed=LAB.put(seed), index=index)
    assert poly_at(at) == m.noise(seed, index)
    assert set(poly_at(at)) <= {0, 1, 2, Q - 2, Q - 1}


@pytest.mark.parametrize(
    ("routine", "inputs"),
    [
        (mlkem_ntt, {}),
        (mlkem_inverse_ntt, {}),
        (mlkem_add, {"other": 1}),
        (mlkem_subtract, {"other": 1}),
        (mlkem_compress, {"bits": 4}),
        (mlkem_compress, {"bits": 10}),
        (mlkem_decompress, {"bits": 10}),
        (mlkem_encode, {"bits": 12, "out": 0}),
        (mlkem_to_message, {"out": 0}),
        (mlkem_dot, {"out": 0, "first": 1, "stride": 512}),
    ],
    ids=lambda x: getattr(x, "name", ""),
)
def test_the_same_steps_whatever_the_polynomial(routine, inputs):
    def prepare(seed, _public):
        f = [x % 16 for x in spread(seed)] if "decompress" in routine.name else spread(seed)
        at = lay(f, spread(b"1" + seed), spread(b"2" + seed))
        given_ = {
            name: lay(f, f, f) if name in ("other", "first") else value
            for name, value in inputs.items()
        }
        if "out" in inputs:
            given_["out"] = LAB.machine.alloc(1024)
        return {"second" if routine is mlkem_dot else "poly": at, **given_}

    secrets = [bytes([n]) for n in range(5)]
    same_traces(LAB.machine, routine, prepare, secrets=secrets, publics=[0], minimum=300)


def test_the_same_steps_whatever_is_coded():
    def prepare(seed, public):
        routine, size = public
        at = LAB.put(hashlib.shake_128(seed).digest(size))
        out = lay([0] * N)
        if routine is mlkem_decode:
            return {"poly": out, "coded": at, "bits": 10}
        if routine is mlkem_from_message:
            return {"poly": out, "message": at}
        return {"out": out, "seed": at, "index": 3}

    secrets = [bytes([n]) for n in range(5)]
    for routine, size in ((mlkem_decode, 326), (mlkem_from_message, 32), (mlkem_sample_noise, 32)):
        publics = [(routine, size)]
        same_traces(LAB.machine, routine, prepare, secrets=secrets, publics=publics, minimum=300)
