"""Which variants boot chooses: by CPUID and by their answers, each family by itself."""

import itertools

import iced_x86 as ix
import pytest

from emulator.environment import Environment
from emulator.models.crypto.known_answers import KNOWN_MODELS
from emulator.models.crypto.variants import variant
from firmware.crypto.begin import AES_BITS, FAMILIES, FIELD_BITS, crypto_begin
from firmware.crypto.known_answers import KNOWN
from firmware.layouts.log import LOG, LOG_RING
from firmware.layouts.variants import VARIANTS, Family, Variant
from tests.support.lab import Lab
from toolchain.asm import CF, EAX, RAX, Asm, Out, routine
from toolchain.layout import Data

VERDICTS = Data("verdicts", 4 * 16, doc="by check: 1 = it gives a wrong answer")
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


def processor(features=AES_BITS, extended=FIELD_BITS, highest=7):
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


def test_a_processor_that_has_everything():
    assert begun(processor()) == (ALL_FAST, 1)
    assert logged(LAB) == ["crypto.chosen aes_gcm=fast x25519=fast p256=fast signatures=fast"]


def test_a_processor_that_has_nothing():
    assert begun(processor(0, 0)) == (ALL_BASE, 1)
    assert logged(LAB) == ["crypto.chosen aes_gcm=base x25519=base p256=base signatures=base"]


def test_families_are_chosen_by_their_own_bits():
    aes = {**ALL_BASE, Family.AES_GCM: Variant.FAST}
    assert begun(processor(extended=0)) == (aes, 1)
    assert begun(processor(features=0)) == ({**ALL_FAST, Family.AES_GCM: Variant.BASE}, 1)


@pytest.mark.parametrize("bit", [bit for bit in range(32) if AES_BITS >> bit & 1])
def test_every_bit_of_aes_counts(bit):
    got, usable = begun(processor(features=~(1 << bit) & 0xFFFF_FFFF))
    assert (got, usable) == ({**ALL_FAST, Family.AES_GCM: Variant.BASE}, 1)


@pytest.mark.parametrize("bit", [bit for bit in range(32) if FIELD_BITS >> bit & 1])
def test_every_bit_of_field_arithmetic_counts(bit):
    got, usable = begun(processor(extended=~(1 << bit) & 0xFFFF_FFFF))
    assert (got, usable) == ({**ALL_BASE, Family.AES_GCM: Variant.FAST}, 1)


def test_a_leaf_that_is_not_there_is_not_asked():
    got, usable = begun(processor(highest=6))
    assert (got, usable) == ({**ALL_BASE, Family.AES_GCM: Variant.FAST}, 1)


@pytest.mark.parametrize("family", Family, ids=lambda f: f.name.lower())
@pytest.mark.parametrize(("fast", "base"), list(itertools.product((False, True), repeat=2)))
@pytest.mark.parametrize("has", [False, True])
def test_a_wrong_answer_costs_its_own_family(family, fast, base, has):
    checks = KNOWN[family]
    wrong = [
        checks[v]
        for v, is_wrong in ((Variant.FAST, fast), (Variant.BASE, base))
        if is_wrong and v in checks
    ]
    bits = (AES_BITS, FIELD_BITS) if has else (0, 0)
    got, usable = begun(processor(*bits), *wrong)
    wanted = ALL_FAST if has else ALL_BASE
    uses_base = not has or fast or family not in NAMES
    if family in NAMES:
        wanted = {**wanted, family: Variant.BASE if uses_base else Variant.FAST}
    assert (got, usable) == (wanted, int(not (uses_base and base)))
    name = family.name.lower()
    lines = logged(LAB)
    assert (f"crypto.variantWrong family={name}" in lines) == (has and fast and family in NAMES)
    assert (f"crypto.broken family={name}" in lines) == (uses_base and base)


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


@pytest.mark.parametrize("which", list(Variant))
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


BITS = {"AES": 25, "SSSE3": 9, "PCLMULQDQ": 1, "BMI2": 8, "ADX": 19}
"""Of each feature: in ECX of leaf 1, or in EBX of leaf 7 (Intel SDM volume 2, CPUID)."""
PLAIN = {"X64", "SSE", "SSE2", "CMOV", "INTEL386", "INTEL486", "INTEL8086", "INTEL186", "INTEL286"}


def features_of(check):
    """Return the CPUID features that a check and all that it reaches need."""
    names = {v: n for n, v in vars(ix.CpuidFeature).items() if isinstance(v, int)}
    machine = Lab(check, slots=0, semantics=False).machine
    found = set()
    for placed in machine.image.routines():
        code = machine.read(placed.address, placed.size)
        for ins in ix.Decoder(64, code, ip=placed.address):
            found |= {names[f] for f in ins.cpuid_features()}
    return found - PLAIN


@pytest.mark.parametrize("family", Family, ids=lambda f: f.name.lower())
def test_variants_need_what_their_row_says_and_no_more(family):
    assert features_of(KNOWN[family][Variant.BASE]) == set()
    fast, row = KNOWN[family].get(Variant.FAST), FAMILIES[family]
    if fast is not None:
        assert sum(1 << BITS[name] for name in features_of(fast)) == row.needs
