"""X25519 against RFC 7748 and Wycheproof, and its steps for any scalar.

One whole multiplication of each variant runs in lockstep with its model; the field's routines are
judged by themselves in `test_field25519.py`. All other cases judge the result: run freely in Unicorn
and on the processor, which costs a thousandth of the lockstep.
"""

import pytest

from emulator.constant_time import same_traces
from firmware.crypto.x25519 import x25519_adx, x25519_base
from firmware.layouts.x25519 import X25519, X25519_WORK
from tests.support.lab import Lab
from tests.support.processor import Processor
from tests.support.wycheproof import groups, needs

LAB = Lab(x25519_adx, x25519_base, semantics=False)
VARIANTS = pytest.mark.parametrize("routine", [x25519_adx, x25519_base], ids=["adx", "base"])
BASE_POINT = (9).to_bytes(32, "little")
# RFC 7748 5.2 and 6.1: scalar, u-coordinate, result.
RFC_7748 = [
    (
        "a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4",
        "e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c",
        "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552",
    ),
    (
        "4b66e9d4d1b4673c5ad22691957d6af5c11b6421e0ea01d42ca4169e7918ba0d",
        "e5210f12786811d3f4b7959d0538ae2c31dbe7106fc03c3efc4cd549c715a493",
        "95cbde9476e8907d7aade45cb4b873f88b595a68799fa152e6f8f7647aac7957",
    ),
    (
        "77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a",
        "0900000000000000000000000000000000000000000000000000000000000000",
        "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a",
    ),
    (
        "5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb",
        "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a",
        "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742",
    ),
]
# RFC 7748 5.2: after one, and after a thousand iterations that begin with the base point.
AFTER_1 = "422c8e7a6227d7bca1350b3e2bb7279f7897b87bb6854b783c60e80311ae3079"
AFTER_1000 = "684cf59ba83309552800ef566f2f4d3c1c3887c49360e3875f2eb94d99532c51"


def put(scalar, point):
    """Lay the inputs down; return the routine's."""
    at, out = LAB.machine.alloc(64), LAB.machine.alloc(32)
    LAB.machine.write(at, scalar + point)
    return {"scalar": at, "point": at + 32, "out": out}


def freely(routine, scalar, point):
    """Return the result, and whether it was told to be zero."""
    LAB.reset()
    at = put(scalar, point)
    after = LAB.machine.call(
        routine.name, {"rdi": at["out"], "rsi": at["scalar"], "rdx": at["point"]}
    )
    assert bytes(LAB.machine.read(LAB.image.address(X25519_WORK), X25519.SIZE)) == bytes(
        X25519.SIZE
    )
    return LAB.machine.read(at["out"], 32), after["flags"] & 1


@VARIANTS
@pytest.mark.parametrize(("scalar", "point", "result"), RFC_7748)
def test_x25519_rfc_7748(routine, scalar, point, result):
    got, zero = freely(routine, bytes.fromhex(scalar), bytes.fromhex(point))
    assert (got.hex(), zero) == (result, 0)


@VARIANTS
def test_x25519_whole_in_lockstep_in_place(routine):
    scalar, point, result = (bytes.fromhex(text) for text in RFC_7748[0])
    LAB.reset()
    at = put(scalar, point) | {"out": LAB.machine.alloc(64)}
    found = LAB.call(routine, **at)
    assert LAB.machine.read(at["out"], 32) == result
    assert found.outputs["cf"] == 0
    assert bytes(LAB.g(X25519_WORK).t) == bytes(32), "the work space is wiped"


@VARIANTS
def test_x25519_a_thousand_iterations_on_the_processor(routine):
    LAB.reset()
    # Each result is the next scalar, and the scalar before is the next point.
    base = LAB.machine.alloc(32 * 1002)
    processor = Processor(LAB)
    results = processor.run(
        [
            processor.call(
                routine,
                ((base, BASE_POINT * 2),) if n == 2 else (),
                ((base + 32 * n, 32),),
                scalar=base + 32 * (n - 1),
                point=base + 32 * (n - 2),
                out=base + 32 * n,
            )
            for n in range(2, 1002)
        ]
    )
    (first,), (last,) = results[0].memory.values(), results[-1].memory.values()
    assert (first.hex(), last.hex()) == (AFTER_1, AFTER_1000)


@VARIANTS
@pytest.mark.parametrize("point", [0, 1, 2**255 - 20, 2**255 - 19, 2**255 - 18, 2**256 - 1 - 18])
def test_x25519_points_of_small_order_are_told(routine, point):
    got, zero = freely(routine, b"\x77" * 32, point.to_bytes(32, "little"))
    assert (got, zero) == (bytes(32), 1)


@pytest.mark.vectors
@needs("x25519_test.json")
@VARIANTS
def test_x25519_wycheproof(routine):
    cases = [case for group in groups("x25519_test.json") for case in group["tests"]]
    inputs = [(bytes.fromhex(c["private"]), bytes.fromhex(c["public"])) for c in cases]
    LAB.reset()
    at = put(bytes(32), bytes(32))
    processor = Processor(LAB)
    native = processor.run(
        [
            processor.call(routine, ((at["scalar"], k + u),), ((at["out"], 32),), **at)
            for k, u in inputs
        ]
    )
    refused = 0
    for case, (scalar, point), other in zip(cases, inputs, native, strict=True):
        got, zero = freely(routine, scalar, point)
        assert got.hex() == case["shared"], case["tcId"]
        assert (other.memory[at["out"]], other.flags & 1) == (got, zero), case["tcId"]
        assert zero == ("ZeroSharedSecret" in case["flags"]), case["tcId"]
        refused += zero
    assert {case["result"] for case in cases} == {"valid", "acceptable"}
    assert (len(cases), refused) == (259, 15)


@VARIANTS
def test_x25519_takes_the_same_steps_whatever_the_scalar(routine):
    secrets = [bytes(32), b"\xff" * 32, b"\x55" * 32, bytes(range(32)), b"\x80" + bytes(31)]
    publics = [bytes.fromhex(RFC_7748[0][1]), bytes(32)]
    minimum = 200_000
    same_traces(LAB.machine, routine, put, secrets=secrets, publics=publics, minimum=minimum)
