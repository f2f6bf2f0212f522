"""ECDSA over P-256 and P-384: steps in lockstep, signatures by result.

A whole verification of full scalars takes half a million instructions and more. The lockstep runs
one whole one with scalars that are small numbers, and by themselves the steps in which cases differ:
sums of points (`test_points.py`) and the last comparison. Everything else is judged by result, in
Unicorn and on the processor.
"""

import hashlib
from dataclasses import dataclass

import pytest

import firmware.crypto.ecdsa as routines
from emulator.constant_time import same_traces
from firmware.crypto.inverse import INVERSES
from firmware.layouts.curves import CURVES, P256, P384
from firmware.layouts.ecdsa import ECDSA
from firmware.layouts.field import Level
from firmware.x509.signature import ecdsa_signature_read
from tests.support.lab import Lab
from tests.support.processor import Processor
from tests.support.wycheproof import groups, needs

VERIFIERS = {
    (curve.name, level): getattr(routines, f"ecdsa_{curve.name}_verify_{level.value}")
    for curve in CURVES
    for level in Level
}
JUDGES = {
    (c.name, level): next(r for r in VERIFIERS[c.name, level].contract.calls if "judge" in r.name)
    for c in CURVES
    for level in Level
}
LAB = Lab(*VERIFIERS.values(), *INVERSES.values(), semantics=False)
VARIANTS = pytest.mark.parametrize(
    ("curve", "level"), [(c, level) for c in CURVES for level in Level],
    ids=[f"{c.name}-{level.value}" for c in CURVES for level in Level],
)  # fmt: skip


def times(curve, k, point=None):
    """Return a multiple of a point, of the base point by default."""
    total, power = None, curve.base if point is None else point
    while k:
        if k & 1:
            total = curve.added(total, power)
        power = curve.added(power, power)
        k >>= 1
    return total


@dataclass
class Signed:
    """A key, a signature and a hash."""

    key: tuple[int, int]
    r: int
    s: int
    hash: bytes

    def words(self, curve):
        size = curve.field.size
        return [n.to_bytes(size, "big") for n in (*self.key, self.r, self.s)]


def made(curve, u1, u2, *, private=0xC0FFEE):
    """Return what verifies with these scalars."""
    n, size = curve.order.value, curve.field.size
    key = times(curve, private)
    point = curve.added(times(curve, u1), times(curve, u2, key))
    r = point[0] % n
    s = r * pow(u2, -1, n) % n
    return Signed(key, r, s, (u1 * s % n).to_bytes(size, "big"))


def put(curve, signed):
    words = signed.words(curve)
    key, signature = LAB.machine.alloc(128), LAB.machine.alloc(128)
    LAB.machine.write(key, b"".join(words[:2]))
    LAB.machine.write(signature, b"".join(words[2:]))
    return {
        "key": key, "signature": signature,
        "hash_": LAB.put(signed.hash), "length": len(signed.hash),
    }  # fmt: skip


def refused(curve, level, signed):
    """Return the verdict of the lockstep."""
    LAB.reset()
    return LAB.call(VERIFIERS[curve.name, level], **put(curve, signed)).outputs["cf"]


def freely(curve, level, signed):
    """Return the verdict of a run in Unicorn alone."""
    LAB.reset()
    at = put(curve, signed)
    found = LAB.machine.call(
        VERIFIERS[curve.name, level].name,
        {"rdi": at["key"], "rsi": at["signature"], "rdx": at["hash_"], "rcx": at["length"]},
    )
    return found["flags"] & 1


@VARIANTS
def test_a_whole_verification_in_lockstep(curve, level):
    good = made(curve, 127, 35)
    signed = Signed(good.key, good.r, good.s, good.hash + b"behind the leftmost bits"[:16])
    assert refused(curve, level, signed) == 0


def judged(curve, level, r, z, x):
    """Return the verdict about a sum with this z and x, in lockstep."""
    LAB.reset()
    work, f = LAB.g(ECDSA), curve.field
    work.x1[:] = f.form(x * z * z % f.value).ljust(48, b"\0")
    work.z1[:] = f.form(z).ljust(48, b"\0")
    work.r[:] = f.words(r).ljust(48, b"\0")
    return LAB.call(JUDGES[curve.name, level]).outputs["cf"]


@VARIANTS
def test_the_last_comparison_in_lockstep(curve, level):
    n, p = curve.order.value, curve.field.value
    # r + n is another coordinate, none at all, or does not even fit.
    for r, x, verdict in (
        (5, 5, 0),
        (5, n + 5, 0),
        (5, 6, 1),
        (p - n - 1, p - 1, 0),
        (p - n, 0, 1),
        (p - n + 5, 5, 1),
        (n - 1, 1, 1),
        (n - 1, n - 1, 0),
    ):
        assert judged(curve, level, r, 0x1234_5678, x) == verdict, (r, x)
    assert judged(curve, level, 5, 0, 5) == 1, "infinity has no x"


@VARIANTS
def test_what_is_out_of_range_is_refused_in_lockstep(curve, level):
    good = made(curve, 3, 1)
    n, p = curve.order.value, curve.field.value
    top = 2 ** (8 * curve.field.size) - 1
    x, y = good.key
    for key, r, s in (
        (good.key, 0, good.s),
        (good.key, good.r, 0),
        (good.key, n, good.s),
        (good.key, good.r, n),
        (good.key, top, good.s),
        (good.key, good.r, top),
        ((p, y), good.r, good.s),
        ((x, p), good.r, good.s),
        ((x, y ^ 1), good.r, good.s),
        ((0, 0), good.r, good.s),
    ):
        assert refused(curve, level, Signed(key, r, s, good.hash)) == 1


@VARIANTS
@pytest.mark.parametrize("length", [1, 20, 32, 48, 64])
def test_a_hash_of_any_size(curve, level, length):
    digest, n = hashlib.sha512(b"x").digest()[:length], curve.order.value
    e = int.from_bytes(digest[: curve.field.size], "big")
    private, nonce = 0xC0FFEE, 0xDECADE
    r = times(curve, nonce)[0] % n
    s = pow(nonce, -1, n) * (e + r * private) % n
    signed = Signed(times(curve, private), r, s, digest)
    assert freely(curve, level, signed) == 0
    signed.hash = bytes([digest[0] ^ 1]) + digest[1:]
    assert freely(curve, level, signed) == 1


@VARIANTS
def test_every_inverse_in_lockstep(curve, level):
    for m in (curve.field, curve.order):
        for x in (0, 0x1234_5678_9ABC_DEF0 << 64):
            LAB.reset()
            at, out = LAB.machine.alloc(m.size), LAB.machine.alloc(m.size)
            LAB.machine.write(at, m.form(x))
            LAB.call(INVERSES[m.name, level], x=at, out=out)
            wanted = m.form(pow(x, -1, m.value)) if x else bytes(m.size)
            assert LAB.machine.read(out, m.size) == wanted


@VARIANTS
def test_inverses_take_the_same_steps_whatever_is_inverted(curve, level):
    for m in (curve.field, curve.order):

        def prepare(x, _public, m=m):
            at, out = LAB.machine.alloc(m.size), LAB.machine.alloc(m.size)
            LAB.machine.write(at, m.form(x))
            return {"x": at, "out": out}

        secrets = [0, 1, m.value - 1, m.value >> 1, 0x1234_5678 << 90]
        inverse = INVERSES[m.name, level]
        same_traces(LAB.machine, inverse, prepare, secrets=secrets, publics=[0], minimum=20_000)


DER_LAB = Lab(ecdsa_signature_read, slots=0)


def der_numbers(signature, size):
    """Return r and s as the verification takes them, or None when the DER is refused."""
    DER_LAB.reset()
    out, at = DER_LAB.machine.alloc(2 * size), DER_LAB.put(signature)
    end = at + len(signature)
    found = DER_LAB.call(ecdsa_signature_read, signature=at, end=end, out=out, size=size)
    return None if found.outputs["cf"] else DER_LAB.machine.read(out, 2 * size)


# Signatures in each file, those whose DER is read, and how many of them are valid.
VECTORS = [
    (P256, "ecdsa_secp256r1_sha256_test.json", 242, 130, 90),
    (P256, "ecdsa_secp256r1_sha512_test.json", 277, 166, 124),
    (P384, "ecdsa_secp384r1_sha256_test.json", 236, 124, 84),
    (P384, "ecdsa_secp384r1_sha384_test.json", 252, 140, 100),
    (P384, "ecdsa_secp384r1_sha512_test.json", 271, 158, 117),
]


def wycheproof(name):
    """Return what a file's cases ask: key, DER signature, message; and their results."""
    for group in groups(name):
        point = bytes.fromhex(group["publicKey"]["uncompressed"])
        for case in group["tests"]:
            yield case, point, getattr(hashlib, group["sha"].replace("-", "").lower())


@pytest.mark.vectors
@pytest.mark.parametrize(
    ("curve", "name", "total", "count", "valid"), VECTORS, ids=[v[1] for v in VECTORS]
)
@needs(*(v[1] for v in VECTORS))
def test_ecdsa_wycheproof(curve, name, total, count, valid):
    """Every signature that DER can say is judged by the routines; the others by the DER reader."""
    size, cases, seen = curve.field.size, [], 0
    for case, point, digest in wycheproof(name):
        seen += 1
        numbers = der_numbers(bytes.fromhex(case["sig"]), size)
        if numbers is None:
            assert case["result"] == "invalid", case["tcId"]
            continue
        assert len(point) == 1 + 2 * size
        cases.append((case, point[1:], numbers, digest(bytes.fromhex(case["msg"])).digest()))
    accepted = sum(case["result"] == "valid" for case, *_ in cases)
    assert (seen, len(cases), accepted) == (total, count, valid)
    for level in Level:
        routine = VERIFIERS[curve.name, level]
        LAB.reset()
        key, signature, hash_ = (LAB.machine.alloc(128) for _ in range(3))
        processor = Processor(LAB)
        native = processor.run(
            [
                processor.call(
                    routine,
                    ((key, q), (signature, rs), (hash_, h)),
                    ((hash_, 1),),
                    key=key,
                    signature=signature,
                    hash_=hash_,
                    length=len(h),
                )
                for _, q, rs, h in cases
            ]
        )
        verdicts = [result.flags & 1 for result in native]
        for (case, q, rs, h), verdict in zip(cases, verdicts, strict=True):
            assert verdict == (case["result"] != "valid"), case["tcId"]
            LAB.machine.write(key, q)
            LAB.machine.write(signature, rs)
            LAB.machine.write(hash_, h)
            registers = {"rdi": key, "rsi": signature, "rdx": hash_, "rcx": len(h)}
            assert LAB.machine.call(routine.name, registers)["flags"] & 1 == verdict, case["tcId"]
