"""RSA verification: arithmetic and checks in lockstep, signatures by result.

One whole operation of 2048 bits a level runs in lockstep, with the exponent 65537; larger ones take
up to a million instructions and are judged by result, in Unicorn and on the processor.
"""

import hashlib
import itertools

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from firmware.crypto.rsa import rsa_recover_adx, rsa_recover_base
from firmware.crypto.rsa_encodings import RSA_PKCS1, RSA_PSS
from firmware.crypto.rsa_numbers import ENTER, MULTIPLY
from firmware.layouts.field import Level
from firmware.layouts.rsa import RSA, RSA_HASHES, RsaKey
from tests.support.lab import Lab
from tests.support.processor import Processor
from tests.support.wycheproof import groups, needs

RECOVER = {Level.ADX: rsa_recover_adx, Level.BASE: rsa_recover_base}
LAB = Lab(
    *RECOVER.values(), *MULTIPLY.values(), *ENTER.values(), *RSA_PKCS1.values(), *RSA_PSS.values(),
    semantics=False,
)  # fmt: skip
LEVELS = pytest.mark.parametrize("level", Level, ids=[level.value for level in Level])
HASHES = pytest.mark.parametrize("h", RSA_HASHES, ids=[h.name for h in RSA_HASHES])
# Any odd number is a modulus for the arithmetic: so no key has to be made.
N = {k: (int.from_bytes(hashlib.shake_128(b"n").digest(k), "big") | 1) | 1 << 8 * k - 1
     for k in (256, 264, 320, 384, 512)}  # fmt: skip


def key(modulus, exponent=65537, size=None):
    """Lay a key down; return its address."""
    k = (modulus.bit_length() + 7) // 8 if size is None else size
    at, n = LAB.machine.alloc(RsaKey.SIZE), LAB.machine.alloc(k)
    LAB.machine.write(n, modulus.to_bytes(k, "big"))
    view = LAB.view(RsaKey, at)
    view.modulus, view.size, view.exponent = n, k, exponent
    return at


def put(modulus, signature, exponent=65537):
    at = LAB.machine.alloc(max(len(signature), 1))
    LAB.machine.write(at, signature)
    return {"key": key(modulus, exponent), "signature": at, "size": len(signature)}


def recovered(level, modulus, signature, exponent=65537):
    """Return the encoded message of a run in Unicorn alone; None when refused."""
    at = put(modulus, signature, exponent)
    registers = {"rdi": at["key"], "rsi": at["signature"], "rcx": at["size"]}
    if LAB.machine.call(RECOVER[level].name, registers)["flags"] & 1:
        return None
    return bytes(LAB.g(RSA).em)[: len(signature)]


@LEVELS
def test_the_whole_operation_in_lockstep(level):
    n, k = N[256], 256
    s = n - 12345
    LAB.reset()
    assert LAB.call(RECOVER[level], **put(n, s.to_bytes(k, "big"))).outputs["cf"] == 0
    assert bytes(LAB.g(RSA).em)[:k] == pow(s, 65537, n).to_bytes(k, "big")


@LEVELS
@pytest.mark.parametrize("size", N)
@pytest.mark.parametrize("exponent", [3, 5, 43147, 65537, 2**32 - 1])
def test_every_size_and_exponent(level, size, exponent):
    n = N[size]
    for s in (0, 1, n - 1, n // 3):
        LAB.reset()
        wanted = pow(s, exponent, n).to_bytes(size, "big")
        assert recovered(level, n, s.to_bytes(size, "big"), exponent) == wanted


@LEVELS
def test_an_exponent_without_bits_between_in_lockstep(level):
    LAB.reset()
    n, s = N[256], 2**2047 // 7
    assert LAB.call(RECOVER[level], **put(n, s.to_bytes(256, "big"), 3)).outputs["cf"] == 0


@LEVELS
def test_what_is_no_key_or_no_signature_is_refused_in_lockstep(level):
    n, k = N[256], 256
    top = 1 << 8 * k - 1
    good = bytes(k - 1) + b"\2"
    for modulus, signature, exponent in (
        (n, good[1:], 65537),  # shorter than the modulus
        (n, b"\0" + good, 65537),
        (n, n.to_bytes(k, "big"), 65537),
        (n, (2 * top - 1).to_bytes(k, "big"), 65537),
        (n - 1, good, 65537),  # even
        (n - top, good, 65537),  # without its top bit
        (n, good, 1),
        (n, good, 0),
        (n, good, 65536),
    ):
        LAB.reset()
        at = put(n, signature, exponent) | {"key": key(modulus, exponent, k)}
        assert LAB.call(RECOVER[level], **at).outputs["cf"] == 1
    for size in (0, 255, 513, 2**32 - 1):
        LAB.reset()
        at = put(n, good)
        LAB.view(RsaKey, at["key"]).size = size
        assert LAB.call(RECOVER[level], **(at | {"size": size})).outputs["cf"] == 1


def numbers(n, size):
    """Return residues at which carries and the last subtraction differ."""
    bits = 8 * size
    runs = [2**64 - 1, (1 << bits - 64) - 1, (2**64 - 1) << 64, (1 << bits) % n]
    return [0, 1, n - 1, n - 2, n >> 1, (n >> 1) + 1, *(x % n for x in runs)]


def hold(modulus, size, **places):
    """Lay down a modulus and numbers in the work space; return its addresses by name."""
    LAB.reset()
    work = LAB.g(RSA)
    work.limbs, work.size = (size + 63) // 64 * 8, size
    work.inverse = -pow(modulus, -1, 2**64)
    for name, value in {"modulus": modulus, **places}.items():
        getattr(work, name)[:] = value.to_bytes(512, "little")
    return work.offset_of


@pytest.mark.parametrize("size", [256, 264])
def test_numbers_that_carry_in_lockstep(size):
    n = N[size]
    for modulus in (n, (1 << 8 * size) - 1) if size == 256 else (n,):
        found = numbers(modulus, size)
        for x, y in itertools.product(found[::5], found[::4]):
            at = hold(modulus, size, base=x, power=y)
            for level in Level:
                LAB.call(MULTIPLY[level], out=at("em"), x=at("base"), y=at("power"))


def too_much(modulus, size, x):
    """Return by how much each limb of the quotient x * radix / modulus is guessed too large."""
    highest, found = modulus >> 8 * (size - 8), []
    for _ in range((size + 63) // 64 * 8):
        guess = min((x >> 8 * (size - 16)) // highest, 2**64 - 1)
        limb, x = divmod(x << 64, modulus)
        found.append(guess - limb)
    return found


@LEVELS
@pytest.mark.parametrize("size", [256, 261])
def test_numbers_enter_montgomerys_form_in_lockstep(level, size):
    """Also where a limb of the quotient is guessed one or two too large, or as large as can be."""
    top, highest = 1 << 8 * size - 1, 1 << 8 * (size - 8)
    wrong = set()
    for modulus in (top + highest - 1, top + 1, 2 * top - 1):
        for x in (0, 1, top - highest, top, modulus - highest, modulus - 1):
            at = hold(modulus, size, base=x)
            LAB.call(ENTER[level], out=at("em"), x=at("base"))
            wrong.update(too_much(modulus, size, x))
    assert wrong == {0, 1, 2}


# -- encodings ------------------------------------------------------------------------------------
def judged(routine, message, digest):
    """Return the verdict about an encoded message, in lockstep."""
    LAB.reset()
    work = LAB.g(RSA)
    work.size = len(message)
    work.em[:] = message.ljust(512, b"\xa5")
    at = LAB.machine.alloc(len(digest))
    LAB.machine.write(at, digest)
    return LAB.call(routine, digest=at).outputs["cf"]


def digest_of(h, message=b"shard"):
    return hashlib.new(h.name, message).digest()


@HASHES
@pytest.mark.parametrize("size", [256, 261, 512])
def test_pkcs1_has_one_encoding_alone(h, size):
    digest = digest_of(h)
    good = b"\0\1" + b"\xff" * (size - 22 - h.size) + b"\0" + h.prefix + digest
    assert len(good) == size
    assert judged(RSA_PKCS1[h.name], good, digest) == 0
    for at in (0, 1, 2, size - h.size - 21, size - h.size - 20, size - h.size - 1, size - 1):
        bad = good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :]
        assert judged(RSA_PKCS1[h.name], bad, digest) == 1


def pss(h, digest, salt, size, *, zero=b"\0", one=b"\1", trailer=b"\xbc"):
    """Return the encoding of RFC 8017 9.1.1, or one that is wrong."""
    inner = hashlib.new(h.name, bytes(8) + digest + salt).digest()
    length = size - h.size - 1
    db = zero * (length - len(salt) - 1) + one + salt
    mask = b"".join(
        hashlib.new(h.name, inner + n.to_bytes(4, "big")).digest()
        for n in range(-(-length // h.size))
    )
    masked = bytearray(a ^ b for a, b in zip(db, mask, strict=False))
    masked[0] &= 0x7F
    return bytes(masked) + inner + trailer


@HASHES
@pytest.mark.parametrize("size", [256, 300])
def test_pss_is_checked_to_the_last_byte(h, size):
    digest, salt, check = digest_of(h), digest_of(h, b"salt"), RSA_PSS[h.name]
    good = pss(h, digest, salt, size)
    assert len(good) == size
    assert judged(check, good, digest) == 0
    assert judged(check, good, digest_of(h, b"other")) == 1
    for bad in (
        pss(h, digest, salt[1:], size),
        pss(h, digest, salt + b"\0", size),
        pss(h, digest, b"", size),
        pss(h, digest, salt, size, trailer=b"\xcc"),
        pss(h, digest, salt, size, one=b"\2"),
        pss(h, digest, salt, size, zero=b"\4"),
        bytes([good[0] | 0x80]) + good[1:],
        good[:-2] + bytes([good[-2] ^ 1]) + good[-1:],
        good[: -h.size - 2] + bytes([good[-h.size - 2] ^ 1]) + good[-h.size - 1 :],
    ):
        assert judged(check, bad, digest) == 1


@LEVELS
@pytest.mark.parametrize("bits", [2048, 3072])
def test_signatures_of_another_library(level, bits):
    private = rsa.generate_private_key(65537, bits)
    n = private.public_key().public_numbers().n
    h = RSA_HASHES[0]
    scheme = padding.PSS(padding.MGF1(hashes.SHA256()), h.size)
    for pad, checks in ((padding.PKCS1v15(), RSA_PKCS1), (scheme, RSA_PSS)):
        LAB.reset()
        message = recovered(level, n, private.sign(b"shard", pad, hashes.SHA256()))
        assert message is not None
        assert judged(checks[h.name], message, digest_of(h)) == 0


# -- vectors --------------------------------------------------------------------------------------
PKCS1_FILES = [
    f"rsa_signature_{bits}_{h}_test.json"
    for bits, h in [
        *itertools.product((2048, 4096), ("sha256", "sha384", "sha512")),
        (3072, "sha256"),
        (3072, "sha384"),
    ]
]
PSS_FILES = [
    f"rsa_pss_{bits}_{h}_mgf1_{size}_test.json"
    for bits, h, size in [
        (2048, "sha256", 32),
        (2048, "sha384", 48),
        (3072, "sha256", 32),
        (4096, "sha256", 32),
        (4096, "sha384", 48),
        (4096, "sha512", 64),
    ]
]


COUNTS = {
    "rsa_signature_2048_sha256_test.json": (130, 5),
    "rsa_signature_2048_sha384_test.json": (129, 4),
    "rsa_signature_2048_sha512_test.json": (130, 5),
    "rsa_signature_4096_sha256_test.json": (129, 4),
    "rsa_signature_4096_sha384_test.json": (130, 4),
    "rsa_signature_4096_sha512_test.json": (130, 4),
    "rsa_signature_3072_sha256_test.json": (130, 5),
    "rsa_signature_3072_sha384_test.json": (130, 4),
    "rsa_pss_2048_sha256_mgf1_32_test.json": (54, 32),
    "rsa_pss_2048_sha384_mgf1_48_test.json": (71, 48),
    "rsa_pss_3072_sha256_mgf1_32_test.json": (54, 32),
    "rsa_pss_4096_sha256_mgf1_32_test.json": (54, 32),
    "rsa_pss_4096_sha384_mgf1_48_test.json": (71, 48),
    "rsa_pss_4096_sha512_mgf1_64_test.json": (90, 66),
}
"""Cases of each file, and how many of them are valid."""


def cases_of(name):
    """Yield each case: itself, the hash, modulus, exponent, signature, digest."""
    for group in groups(name):
        h = group["sha"].replace("-", "").lower()
        n, e = (int(group["publicKey"][part], 16) for part in ("modulus", "publicExponent"))
        for case in group["tests"]:
            signature, message = (bytes.fromhex(case[part]) for part in ("sig", "msg"))
            yield case, h, n, e, signature, hashlib.new(h, message).digest()


def in_unicorn(level, checks, h, n, e, signature, digest):
    """Return whether a signature is refused."""
    LAB.reset()
    if recovered(level, n, signature, e) is None:
        return True
    at = LAB.machine.alloc(len(digest))
    LAB.machine.write(at, digest)
    return bool(LAB.machine.call(checks[h].name, {"rsi": at})["flags"] & 1)


def on_the_processor(level, checks, cases):
    """Return for each case whether it is refused."""
    LAB.reset()
    at, n_at, s_at, digest_at = (LAB.machine.alloc(size) for size in (RsaKey.SIZE, 512, 1024, 64))
    processor, calls = Processor(LAB), []
    for _, h, n, e, signature, digest in cases:
        k = (n.bit_length() + 7) // 8
        words = n_at.to_bytes(8, "little") + k.to_bytes(4, "little") + e.to_bytes(4, "little")
        memory = ((at, words), (n_at, n.to_bytes(k, "big")), (s_at, signature + b"\0"))
        inputs = {"key": at, "signature": s_at, "size": len(signature)}
        calls.append(processor.call(RECOVER[level], memory, ((at, 1),), **inputs))
        check = checks[h]
        calls.append(processor.call(check, ((digest_at, digest),), ((at, 1),), digest=digest_at))
    flags = [result.flags & 1 for result in processor.run(calls)]
    return [bool(one | other) for one, other in zip(flags[::2], flags[1::2], strict=True)]


def wycheproof(name, checks):
    """Return how many cases there are, and how many were accepted; each as it must be.

    All run on the processor at both levels, and in Unicorn at one and the other in turn.
    """
    cases = list(cases_of(name))
    wanted = [case["result"] != "valid" for case, *_ in cases]
    for level in Level:
        assert on_the_processor(level, checks, cases) == wanted
    levels = itertools.cycle(Level)
    assert [in_unicorn(next(levels), checks, *rest) for _, *rest in cases] == wanted
    return len(cases), wanted.count(False)


def of_file(name, checks):
    return pytest.param(name, checks, marks=needs(name), id=name)


@pytest.mark.vectors
@pytest.mark.parametrize(
    ("name", "checks"),
    [
        *(of_file(name, RSA_PKCS1) for name in PKCS1_FILES),
        *(of_file(name, RSA_PSS) for name in PSS_FILES),
    ],
)
def test_rsa_wycheproof(name, checks):
    assert wycheproof(name, checks) == COUNTS[name]
