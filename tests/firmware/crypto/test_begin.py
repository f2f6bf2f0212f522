"""Which variants boot chooses: by CPUID and by their answers, each family by itself."""

import itertools

import iced_x86 as ix
import pytest

from emulator.environment import Environment
from emulator.models.crypto.known_answers import KNOWN_MODELS
from emulator.models.crypto.variants import variant
from firmware.crypto.begin import (
    AES_BITS,
    FAMILIES,
    FIELD_BITS,
    SHA_BIT,
    SHUFFLE_BIT,
    TURN_BIT,
    crypto_begin,
)
from firmware.crypto.known_answers import KNOWN
from firmware.layouts.log import LOG, LOG_RING
from firmware.layouts.variants import VARIANTS, Family, Variant
from tests.support.lab import Lab
from toolchain.asm import CF, EAX, RAX, Asm, Out, routine
from toolchain.layout import Data

VERDICTS = Data("verdicts", 4 * 32, doc="by check: 1 = it gives a wrong answer")
NUMBERS = {
    check.name: n
    for n, check in enumerate(c for variants in KNOWN.values() for c in variants.values())
}
NAMES = {row.family: row.family.name.lower() for row in FAMILIES if row.chosen is not None}


def told(name):
    """Return a check that finds what the test says."""

    def body(a: Asm) -> None:
        """Say what the test wants."""
        a.mov(EAX, VERDICTS.m32(4 * NUMBERS[name]))
        a.neg(EAX)
        a.ret()

    body.__name__ = name
    return routine(
        outputs=[Out(CF, "1 = wrong")], clobbers=[RAX], reads=[VERDICTS], source="this test"
    )(body)


LAB = Lab(crypto_begin, slots=0, replaced=tuple(map(told, NUMBERS)))
REAL = Lab(crypto_begin, slots=0, semantics=False)
REAL.machine.hook_special()


@pytest.fixture(autouse=True)
def _checks(monkeypatch):
    """Let the models of the checks say it too."""
    for family, variants in KNOWN.items():
        for which, check in variants.items():

            def known(w, n=NUMBERS[check.name]):
                return int(w.u32(w.address(VERDICTS) + 4 * n) != 0)

            # A model takes what its signature says, which is nothing.
            told_ = variant(check.name, lambda w, known=known: known(w))
            monkeypatch.setitem(KNOWN_MODELS[family], which, told_)


FEATURES, EXTENDED = AES_BITS, FIELD_BITS | SHA_BIT


def processor(features=FEATURES, extended=EXTENDED, highest=7):
    """Return what CPUID says; a leaf beyond the highest gives junk, as Intel's do."""
    leaves = {0: (highest, 0, 0, 0), 1: (0, 0, features, 0), 7: (0, extended, 0, 0)}
    return Environment(on_cpuid=lambda leaf, _: leaves[leaf])


def begun(environment, *wrong):
    """Run in lockstep; return what was chosen and whether it is of use, and the log."""
    LAB.reset()
    at = LAB.image.address(VERDICTS)
    LAB.machine.write(at, bytes(VERDICTS.size))
    for check in wrong:
        LAB.machine.write(at + 4 * NUMBERS[check.name], b"\1\0\0\0")
    view = LAB.g(LOG)
    view.wipe()
    LAB.call(crypto_begin, environment)
    return chosen(LAB)


def chosen(lab):
    found = lab.g(VARIANTS)
    return {family: getattr(found, name) for family, name in NAMES.items()}, found.usable


def logged(lab):
    raw = lab.machine.read(lab.image.address(LOG_RING), lab.g(LOG).head).decode()
    return [line.split(" code=", 1)[1] for line in raw.splitlines()]


ALL_FAST = dict.fromkeys(NAMES, Variant.FAST)
ALL_BASE = dict.fromkeys(NAMES, Variant.BASE)
BY_FIELD = (Family.X25519, Family.P256, Family.SIGNATURES, Family.ED25519)


def test_a_processor_that_has_everything():
    assert begun(processor()) == (ALL_FAST, 1)
    assert logged(LAB) == [
        "crypto.hashes sha256=fast sha512=fast",
        "crypto.chosen aes_gcm=fast x25519=fast p256=fast signatures=fast",
    ]


def test_a_processor_that_has_nothing():
    assert begun(processor(0, 0)) == (ALL_BASE, 1)
    assert logged(LAB) == [
        "crypto.hashes sha256=base sha512=base",
        "crypto.chosen aes_gcm=base x25519=base p256=base signatures=base",
    ]


def test_families_are_chosen_by_their_own_bits():
    aes = {**ALL_BASE, Family.AES_GCM: Variant.FAST}
    assert begun(processor(extended=0)) == (aes, 1)
    turns = {Family.SHA256: Variant.MEDIUM, Family.SHA512: Variant.FAST}
    assert begun(processor(0, TURN_BIT)) == ({**ALL_BASE, **turns}, 1)
    both = {**turns, **dict.fromkeys(BY_FIELD, Variant.FAST)}
    assert begun(processor(0, FIELD_BITS)) == ({**ALL_BASE, **both}, 1)
    sha = {**ALL_BASE, Family.SHA256: Variant.FAST}
    assert begun(processor(SHUFFLE_BIT, SHA_BIT)) == (sha, 1)


@pytest.mark.parametrize("bit", [bit for bit in range(32) if FEATURES >> bit & 1])
def test_every_bit_of_leaf_1_counts(bit):
    got, usable = begun(processor(features=~(1 << bit) & 0xFFFF_FFFF))
    wanted = {**ALL_FAST, Family.AES_GCM: Variant.BASE}
    if 1 << bit == SHUFFLE_BIT:
        wanted[Family.SHA256] = Variant.MEDIUM
    assert (got, usable) == (wanted, 1)


@pytest.mark.parametrize("bit", [bit for bit in range(32) if EXTENDED >> bit & 1])
def test_every_bit_of_leaf_7_counts(bit):
    got, usable = begun(processor(extended=~(1 << bit) & 0xFFFF_FFFF))
    wanted = {**ALL_FAST, **dict.fromkeys(BY_FIELD, Variant.BASE)}
    if 1 << bit == SHA_BIT:
        wanted = {**ALL_FAST, Family.SHA256: Variant.MEDIUM}
    elif 1 << bit == TURN_BIT:
        wanted[Family.SHA512] = Variant.BASE
    assert (got, usable) == (wanted, 1)


def test_a_leaf_that_is_not_there_is_not_asked():
    got, usable = begun(processor(highest=6))
    assert (got, usable) == ({**ALL_BASE, Family.AES_GCM: Variant.FAST}, 1)


def first_right(family, has, wrong):
    """Return the variant that must be used, and those before it."""
    runs = [*(KNOWN[family] if has else ()), Variant.BASE]
    tried = list(itertools.takewhile(lambda v: v in wrong and v is not Variant.BASE, runs))
    return runs[len(tried)], tried


WRONGS = [
    (family, wrong)
    for family, checks in KNOWN.items()
    for count in range(len(checks) + 1)
    for wrong in itertools.combinations(checks, count)
]


@pytest.mark.parametrize(
    ("family", "wrong"),
    WRONGS,
    ids=["-".join((f.name, *(v.name for v in wrong))).lower() for f, wrong in WRONGS],
)
@pytest.mark.parametrize("has", [False, True])
def test_a_wrong_answer_costs_its_own_family(family, wrong, has):
    bits = (FEATURES, EXTENDED) if has else (0, 0)
    got, usable = begun(processor(*bits), *(KNOWN[family][v] for v in wrong))
    wanted = dict(ALL_FAST if has else ALL_BASE)
    used, tried = first_right(family, has, wrong)
    if family in NAMES:
        wanted[family] = used
    broken = used in wrong
    assert (got, usable) == (wanted, int(not broken))
    name = family.name.lower()
    lines = [line for line in logged(LAB) if line.split()[0][7:] in ("variantWrong", "broken")]
    said = [f"crypto.variantWrong family={name} variant={v.name.lower()}" for v in tried]
    assert lines == [*said, *[f"crypto.broken family={name}"] * broken]


def test_a_second_boot_forgets_what_the_first_chose():
    begun(processor())
    LAB.call(crypto_begin, processor(0, 0))
    assert chosen(LAB) == (ALL_BASE, 1)


@pytest.mark.parametrize("has", [True, False])
def test_with_the_real_answers(has):
    REAL.reset()
    REAL.g(LOG).wipe()
    REAL.machine.environment = processor() if has else processor(0, 0)
    REAL.free(crypto_begin)
    assert chosen(REAL) == (ALL_FAST if has else ALL_BASE, 1)


@pytest.mark.parametrize("which", KNOWN[Family.X25519])
def test_a_variant_that_computes_nothing_is_found(which):
    """Its place is taken by a routine that only returns."""
    original = next(r for r in KNOWN[Family.X25519][which].contract.calls)

    def body(a: Asm) -> None:
        """Compute nothing."""
        a.clc()
        a.ret()

    body.__name__ = original.name
    idle = routine(outputs=original.contract.outputs, source="this test")(body)
    lab = Lab(crypto_begin, slots=0, semantics=False, replaced=(idle,))
    lab.machine.hook_special()
    lab.g(LOG).wipe()
    lab.machine.environment = processor() if which is Variant.FAST else processor(0, 0)
    lab.free(crypto_begin)
    got, usable = chosen(lab)
    assert got[Family.X25519] == Variant.BASE
    assert usable == (which is Variant.FAST)


FEATURE_BITS = {"AES": 25, "SSSE3": 9, "PCLMULQDQ": 1}
EXTENDED_BITS = {"BMI2": 8, "ADX": 19, "SHA": 29}
"""Of each feature: in ECX of leaf 1, or in EBX of leaf 7 (Intel SDM volume 2, CPUID)."""
PLAIN = {"X64", "SSE", "SSE2", "CMOV", "INTEL386", "INTEL486", "INTEL8086", "INTEL186", "INTEL286"}


def features_of(family, check):
    """Return the CPUID features that a check needs, and all that it reaches for its own family."""
    names = {v: n for n, v in vars(ix.CpuidFeature).items() if isinstance(v, int)}
    # Hashes leave to what was chosen for them.
    chosen_apart = {
        called.name
        for hashes in {Family.SHA256, Family.SHA512} - {family}
        for other in KNOWN[hashes].values()
        for called in other.contract.calls
    }
    machine = Lab(check, slots=0, semantics=False).machine
    found = set()
    for placed in machine.image.routines():
        if placed.name in chosen_apart:
            continue
        code = machine.read(placed.address, placed.size)
        for ins in ix.Decoder(64, code, ip=placed.address):
            found |= {names[f] for f in ins.cpuid_features()}
    return found - PLAIN


@pytest.mark.parametrize("family", Family, ids=lambda f: f.name.lower())
def test_variants_need_what_their_row_says_and_no_more(family):
    row, checks = FAMILIES[family], KNOWN[family]
    assert row.family == family
    assert [*(choice.variant for choice in row.choices), Variant.BASE] == list(checks)
    assert features_of(family, checks[Variant.BASE]) == set()
    for choice in row.choices:
        needed = features_of(family, checks[choice.variant])
        for bits, wanted in (
            (FEATURE_BITS, choice.features),
            (EXTENDED_BITS, choice.extended),
        ):
            assert sum(1 << bits[name] for name in needed & bits.keys()) == wanted
        assert needed <= FEATURE_BITS.keys() | EXTENDED_BITS.keys()
