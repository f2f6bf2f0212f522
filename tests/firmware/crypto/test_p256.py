"""Key agreement over P-256 against Wycheproof and OpenSSL, and its steps for any scalar.

One whole agreement and one public key of each variant run in lockstep; all other cases judge the
result, in Unicorn and on the processor.
"""

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from emulator.constant_time import same_traces
from firmware.crypto.formula import encoded
from firmware.crypto.p256 import (
    P256_AGREEMENT,
    p256_draw,
    p256_scalar_refused,
    p256_share_refused,
    p256_turned,
)
from firmware.layouts.crypto import DRBG, DRBG_POOL_BYTES
from firmware.layouts.curves import P256
from firmware.layouts.field import Level
from firmware.layouts.p256 import P256_WORK, P256Work
from tests.support.lab import Lab
from tests.support.processor import Processor
from tests.support.wycheproof import groups, needs

LAB = Lab(
    *(r for a in P256_AGREEMENT.values() for r in (a.public, a.agree)), p256_draw, semantics=False
)
LEVELS = pytest.mark.parametrize("level", Level, ids=[level.value for level in Level])
N, P = P256.order.value, P256.field.value
G = P256.base
KEYS = [
    1,
    2,
    15,
    16,
    N - 1,
    N - 2,
    N >> 1,
    0x0123456789ABCDEF << 180 | 0xFEDC << 30,
    2**255,
    2**224,
]


JUNK = b"\xa5"
"""What fresh memory of a lab holds."""


def point(x, y, first=4):
    return bytes([first]) + x.to_bytes(32, "big") + y.to_bytes(32, "big")


def public_of(key):
    """Return what OpenSSL says is the public key."""
    found = ec.derive_private_key(key, ec.SECP256R1()).public_key()
    return found.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


def put(key, share):
    """Lay the inputs down; return the routine's."""
    at, out = LAB.machine.alloc(32), LAB.machine.alloc(72)
    LAB.machine.write(at, key.to_bytes(32, "little"))
    return {"scalar": at, "out": out, **({} if share is None else {"share": LAB.put(share)})}


def wiped():
    at = LAB.image.address(P256_WORK)
    return LAB.machine.read(at, P256Work.SIZE) == bytes(P256Work.SIZE)


def shared(level, key, share):
    """Return what both give, or None for a refusal that left nothing."""
    LAB.reset()
    at = put(key, share)
    refused = LAB.free(P256_AGREEMENT[level].agree, **at)["flags"] & 1
    got = LAB.machine.read(at["out"], 72)
    assert wiped()
    assert got[32:] == JUNK * 40
    assert not refused or got == JUNK * 72
    return None if refused else got[:32]


@LEVELS
def test_an_agreement_in_lockstep(level):
    LAB.reset()
    share, key = public_of(KEYS[7]), N - 3
    at = put(key, share)
    assert LAB.call(P256_AGREEMENT[level].agree, **at).outputs["cf"] == 0
    ours = ec.derive_private_key(key, ec.SECP256R1())
    peer = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), share)
    assert LAB.machine.read(at["out"], 32) == ours.exchange(ec.ECDH(), peer)
    assert wiped()


@LEVELS
def test_a_public_key_in_lockstep(level):
    LAB.reset()
    at = put(KEYS[7], None)
    LAB.call(P256_AGREEMENT[level].public, **at)
    assert LAB.machine.read(at["out"], 65) == public_of(KEYS[7])
    assert wiped()


@LEVELS
@pytest.mark.parametrize("key", KEYS, ids=hex)
def test_public_keys(level, key):
    LAB.reset()
    at = put(key, None)
    LAB.free(P256_AGREEMENT[level].public, **at)
    assert LAB.machine.read(at["out"], 72) == public_of(key) + JUNK * 7
    assert wiped()


REFUSED = {
    "hybrid": point(*G, first=6),
    "compressed": point(*G, first=2),
    "infinity": bytes(65),
    "off the curve": point(G[0], G[1] ^ 1),
    "other x": point(G[0] ^ 1 << 200, G[1]),
    "zeros": point(0, 0),
    "x of the prime": point(P, pow(P256.b, (P + 1) // 4, P)),
    "x too large": point(5 + P, 0),
    "y of the prime": point(G[0], P),
    "all ones": b"\x04" + b"\xff" * 64,
}


@LEVELS
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_point_is_refused_in_lockstep(level, name):
    LAB.reset()
    at = put(7, REFUSED[name])
    assert LAB.call(P256_AGREEMENT[level].agree, **at).outputs["cf"] == 1
    assert LAB.machine.read(at["out"], 72) == JUNK * 72
    assert wiped()


@LEVELS
def test_a_coordinate_of_zero_is_one(level):
    y = pow(P256.b, (P + 1) // 4, P)
    for share in (point(0, y), point(0, P - y)):
        got = shared(level, 1, share)
        assert got == bytes(32)
    # The same coordinate, written as the prime: another encoding of the same point.
    assert shared(level, 1, point(P, y)) is None


@pytest.mark.vectors
@needs("ecdh_secp256r1_ecpoint_test.json")
@LEVELS
def test_p256_wycheproof(level):
    """A compressed point has no place in a key share, whose bytes tls_take_share counts."""
    cases = [c for g in groups("ecdh_secp256r1_ecpoint_test.json") for c in g["tests"]]
    whole = [c for c in cases if len(c["public"]) == 130]
    assert all(c["result"] == "invalid" for c in cases if c not in whole)
    LAB.reset()
    at = put(1, bytes(65))
    processor = Processor(LAB)
    inputs = [(int(c["private"], 16), bytes.fromhex(c["public"])) for c in whole]
    native = processor.run(
        [
            processor.call(
                P256_AGREEMENT[level].agree,
                (
                    (at["scalar"], k.to_bytes(32, "little")),
                    (at["share"], q),
                    (at["out"], bytes(32)),
                ),
                ((at["out"], 32),),
                **at,
            )
            for k, q in inputs
        ]
    )
    accepted = 0
    for case, (key, share), other in zip(whole, inputs, native, strict=True):
        got = shared(level, key, share)
        assert got == (bytes.fromhex(case["shared"]) if case["result"] == "valid" else None)
        assert other.memory[at["out"]] == (got or bytes(32)), case["tcId"]
        assert other.flags & 1 == (got is None), case["tcId"]
        accepted += got is not None
    assert (len(cases), len(whole), accepted) == (178, 174, 166)


@LEVELS
def test_agreement_takes_the_same_steps_whatever_the_key(level):
    agreement, shares = P256_AGREEMENT[level], [public_of(KEYS[7])]
    secrets = [1, N - 1, N >> 1, int("5" * 64, 16), 2**255]
    same_traces(LAB.machine, agreement.agree, put, secrets=secrets, publics=shares, minimum=500_000)
    same_traces(
        LAB.machine, agreement.public, put, secrets=secrets, publics=[None], minimum=500_000
    )


# -- private keys ---------------------------------------------------------------------------------
def serve(*numbers):
    """Let the generator serve these numbers next."""
    drbg, served = LAB.g(DRBG), b"".join(n.to_bytes(32, "little") for n in numbers)
    drbg.seeded, drbg.available = 1, len(served)
    drbg.pool[DRBG_POOL_BYTES - len(served) :] = served


@pytest.mark.parametrize("refused", [[], [0], [N], [2**256 - 1, N + 1, 0]])
@pytest.mark.parametrize("key", [1, N - 1, 1 << 200])
def test_candidates_are_drawn_until_one_fits(refused, key):
    LAB.reset()
    serve(*refused, key)
    out = LAB.machine.alloc(40)
    LAB.call(p256_draw, out=out)
    assert LAB.machine.read(out, 40) == key.to_bytes(32, "little") + JUNK * 8
    assert LAB.g(DRBG).available == 0


@pytest.mark.parametrize("limb", range(4))
def test_every_limb_decides_whether_a_number_fits(limb):
    for number in (N - 1, N, N + 1, N ^ 1 << 64 * limb, (N - 1) ^ 1 << 64 * limb, 1 << 64 * limb):
        LAB.reset()
        at = LAB.put(number.to_bytes(32, "little"))
        got = LAB.call(p256_scalar_refused, number=at).outputs["cf"]
        assert got == (not 0 < number < N)


def test_the_steps_are_the_same_for_all_keys():
    def prepare(key, _public):
        return {"number": LAB.put(key.to_bytes(32, "little"))}

    def draw(key, _public):
        serve(key)
        return {"out": LAB.machine.alloc(32)}

    keys = [1, 2, N - 1, N >> 1, 2**255]
    same_traces(LAB.machine, p256_draw, draw, secrets=keys, publics=[0], minimum=40)
    secrets = [0, *keys, N, 2**256 - 1]
    same_traces(LAB.machine, p256_scalar_refused, prepare, secrets=secrets, publics=[0], minimum=10)


# -- parts ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("count", [1, 2, 8])
def test_bytes_are_turned_round(count):
    LAB.reset()
    text, out = bytes(range(8 * count)), LAB.machine.alloc(72)
    LAB.call(p256_turned, out=out, source=LAB.put(text), count=count)
    assert LAB.machine.read(out, 72) == text[::-1] + JUNK * (72 - 8 * count)


@pytest.mark.parametrize("at", range(96))
def test_every_byte_of_a_point_is_judged(at):
    LAB.reset()
    work = LAB.g(P256_WORK)
    x, y = G
    for name, value in (
        ("x", x), ("y", y), ("t1", x), ("t0", y), ("left", y * y % P), ("t2", y * y % P),
    ):  # fmt: skip
        getattr(work, name)[:] = value.to_bytes(32, "little")
    assert LAB.call(p256_share_refused).outputs["cf"] == 0
    # What was taken is another point now, and the model looks at that.
    start = work.offset_of("t0") + at
    LAB.machine.write(start, bytes([LAB.machine.read(start, 1)[0] ^ 1]))
    assert LAB.free(p256_share_refused)["flags"] & 1


def test_a_formula_is_four_bytes_an_operation():
    text = """
x1 = y1 * z1
x1 = x1 ^ 2^128
t0 = t1 + t2
t0 = t1 - t2
x = y
"""
    wanted = "013c4044 023c3c80 0324282c 0424282c 051c1818 00".replace(" ", "")
    assert encoded(text, P256Work).hex() == wanted


@LEVELS
def test_programs_of_every_operation(level):
    """A copy, of which the formulas of points have few, and squarings in place and elsewhere."""
    lines = "t0 = x1\nt1 = x1 ^ 2^1\nt1 = t1 ^ 2^3\nt2 = t0 * t1\nt3 = t2 - y1\nt3 = t3 + t3"
    LAB.reset()
    work = LAB.g(P256_WORK)
    work.x1[:], work.y1[:] = P256.field.form(3), P256.field.form(5)
    LAB.call(P256_AGREEMENT[level].formula, program=LAB.put(encoded(lines, P256Work)))
    assert bytes(work.t3) == P256.field.form(2 * (3**17 - 5))
