"""ML-KEM-768 by FIPS 203, on lists of numbers; nothing here knows how the node computes it."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

Q, K = 3329, 3
Poly = list[int]


def reversed_bits(number: int) -> int:
    """BitRev7."""
    return sum((number >> n & 1) << 6 - n for n in range(7))


ZETAS = [pow(17, reversed_bits(n), Q) for n in range(128)]
GAMMAS = [pow(17, 2 * reversed_bits(n) + 1, Q) for n in range(128)]


def ntt_layers(f: Poly) -> Iterator[Poly]:
    """Yield the polynomial after each layer of algorithm 9."""
    f, i, length = list(f), 1, 128
    while length >= 2:
        for start in range(0, 256, 2 * length):
            zeta, i = ZETAS[i], i + 1
            for j in range(start, start + length):
                t = zeta * f[j + length] % Q
                f[j + length] = (f[j] - t) % Q
                f[j] = (f[j] + t) % Q
        yield list(f)
        length //= 2


def inverse_layers(f: Poly) -> Iterator[Poly]:
    """Yield the polynomial after each layer of algorithm 10, and after its division by 128."""
    f, i, length = list(f), 127, 2
    while length <= 128:
        for start in range(0, 256, 2 * length):
            zeta, i = ZETAS[i], i - 1
            for j in range(start, start + length):
                t = f[j]
                f[j] = (t + f[j + length]) % Q
                f[j + length] = zeta * (f[j + length] - t) % Q
        yield list(f)
        length *= 2
    yield [x * 3303 % Q for x in f]


def ntt(f: Poly) -> Poly:
    """Algorithm 9."""
    *_, last = ntt_layers(f)
    return last


def inverse_ntt(f: Poly) -> Poly:
    """Algorithm 10."""
    *_, last = inverse_layers(f)
    return last


def multiply(f: Poly, g: Poly) -> Poly:
    """Algorithms 11 and 12."""
    h: Poly = []
    for i, gamma in enumerate(GAMMAS):
        a0, a1, b0, b1 = f[2 * i], f[2 * i + 1], g[2 * i], g[2 * i + 1]
        h += [(a0 * b0 + a1 * b1 * gamma) % Q, (a0 * b1 + a1 * b0) % Q]
    return h


def add(f: Poly, g: Poly) -> Poly:
    """The sum."""
    return [(x + y) % Q for x, y in zip(f, g, strict=True)]


def subtract(f: Poly, g: Poly) -> Poly:
    """The difference."""
    return [(x - y) % Q for x, y in zip(f, g, strict=True)]


def dot(f: list[Poly], g: list[Poly]) -> Poly:
    """The sum of products."""
    total = [0] * 256
    for x, y in zip(f, g, strict=True):
        total = add(total, multiply(x, y))
    return total


def encode(f: Poly, d: int) -> bytes:
    """Algorithm 5."""
    return sum(x << d * n for n, x in enumerate(f)).to_bytes(32 * d, "little")


def decode(coded: bytes, d: int) -> Poly:
    """Algorithm 6, without its reduction of twelve bits: what we decode so is our own."""
    whole = int.from_bytes(coded, "little")
    return [whole >> d * n & (1 << d) - 1 for n in range(256)]


def compress(f: Poly, d: int) -> Poly:
    """4.7: the nearest of 2^d parts."""
    return [(2 * 2**d * x + Q) // (2 * Q) % 2**d for x in f]


def decompress(f: Poly, d: int) -> Poly:
    """4.8."""
    return [(2 * Q * y + 2**d) // (2 * 2**d) for y in f]


def accepted(stream: Iterator[int]) -> Iterator[int]:
    """Yield the coefficients of algorithm 7: twelve bits at a time, without those from q on."""
    left = 256
    while left:
        first, second, third = next(stream), next(stream), next(stream)
        for number in (first | (second & 15) << 8, second >> 4 | third << 4):
            if number < Q and left:
                left -= 1
                yield number


def sample_ntt(stream: Iterator[int]) -> Poly:
    """Algorithm 7."""
    return list(accepted(stream))


def sample_cbd(stuff: bytes) -> Poly:
    """Algorithm 8 with eta = 2."""
    bits = [byte >> n & 1 for byte in stuff for n in range(8)]
    return [(bits[n] + bits[n + 1] - bits[n + 2] - bits[n + 3]) % Q for n in range(0, len(bits), 4)]


# -- the whole, for tests ---------------------------------------------------------------------------
def _matrix(rho: bytes) -> list[list[Poly]]:
    return [
        [sample_ntt(iter(hashlib.shake_128(rho + bytes([j, i])).digest(1680))) for j in range(K)]
        for i in range(K)
    ]


def noise(seed: bytes, n: int) -> Poly:
    """SamplePolyCBD of PRF."""
    return sample_cbd(hashlib.shake_256(seed + bytes([n])).digest(128))


def keygen(d: bytes) -> tuple[bytes, list[Poly], list[list[Poly]]]:
    """Algorithm 13; return the encapsulation key, s and A, both transformed."""
    both = hashlib.sha3_512(d + bytes([K])).digest()
    rho, sigma = both[:32], both[32:]
    a = _matrix(rho)
    s = [ntt(noise(sigma, n)) for n in range(K)]
    e = [ntt(noise(sigma, K + n)) for n in range(K)]
    t = [add(dot(a[i], s), e[i]) for i in range(K)]
    return b"".join(encode(x, 12) for x in t) + rho, s, a


def encrypt(ek: bytes, message: bytes, r: bytes) -> bytes:
    """Algorithm 14."""
    t = [decode(ek[384 * n : 384 * (n + 1)], 12) for n in range(K)]
    a = _matrix(ek[384 * K :])
    y = [ntt(noise(r, n)) for n in range(K)]
    u = [add(inverse_ntt(dot([a[j][i] for j in range(K)], y)), noise(r, K + i)) for i in range(K)]
    mu = decompress(decode(message, 1), 1)
    v = add(add(inverse_ntt(dot(t, y)), noise(r, 2 * K)), mu)
    return b"".join(encode(compress(x, 10), 10) for x in u) + encode(compress(v, 4), 4)


def encapsulate(ek: bytes, message: bytes) -> tuple[bytes, bytes]:
    """Algorithm 17; return the secret and the ciphertext."""
    both = hashlib.sha3_512(message + hashlib.sha3_256(ek).digest()).digest()
    return both[:32], encrypt(ek, message, both[32:])


def decapsulate(seed: bytes, ciphertext: bytes) -> bytes:
    """Algorithm 18 with the key of a seed."""
    ek, s, _ = keygen(seed[:32])
    u = [decompress(decode(ciphertext[320 * n : 320 * (n + 1)], 10), 10) for n in range(K)]
    v = decompress(decode(ciphertext[320 * K :], 4), 4)
    w = subtract(v, inverse_ntt(dot(s, [ntt(x) for x in u])))
    secret, again = encapsulate(ek, encode(compress(w, 1), 1))
    if again != ciphertext:
        return hashlib.shake_256(seed[32:] + ciphertext).digest(32)
    return secret
