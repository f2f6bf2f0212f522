"""One signature after the other, from the anchor downwards; a wrong one sends the search on."""

import pytest

from firmware.layouts.x509_chain import SIGNATURES_MAX
from firmware.x509.chain import x509_chain_begin
from firmware.x509.step import x509_chain_step
from tests.support import certificates as c
from tests.support.chains import CA, CHAIN, REGIONS, Bench, issue, leaf, root, store_of, unsigned
from tests.support.lab import Lab

ROUTINES = (x509_chain_begin, x509_chain_step)
BENCH = Bench(Lab(*ROUTINES, slots=0, extra=REGIONS, semantics=False))
ROOT = root()
STORE = store_of(ROOT, root("another"), root("third"))
ISSUER = issue("issuer", "root", CA)


@pytest.fixture(autouse=True)
def _fresh():
    BENCH.fresh()


def judge(*certificates, store=STORE, **settings):
    return BENCH.judge(certificates, store, **settings)


def test_signatures_are_verified_from_the_anchor_downwards():
    got = judge(leaf("b"), issue("b", "a", CA), issue("a", "root", CA))
    assert (got.reason, got.signatures) == ("none", [2, 1, 0])


def test_two_issuers_of_a_name_are_both_tried():
    wrong = issue("issuer", "root", CA, key="another key")
    got = judge(leaf("issuer"), wrong, ISSUER)
    assert (got.reason, got.signatures) == ("none", [1, 0, 2, 0])


def test_two_anchors_of_a_name_are_both_tried():
    store = store_of(root("root", key="old", issuer_key="old"), ROOT)
    got = judge(leaf("root"), store=store)
    assert (got.reason, set(got.signatures)) == ("none", {0})


def test_many_wrong_signatures_end_with_the_budget():
    store = store_of(
        *(root("root", key=f"k{n}", issuer_key=f"k{n}") for n in range(SIGNATURES_MAX + 2))
    )
    got = judge(leaf("root"), store=store)
    assert (got.reason, len(got.signatures)) == ("x509.signature", SIGNATURES_MAX)
    assert got.view.signatures == SIGNATURES_MAX


RULES = {
    "leaf-signature": ([unsigned(leaf("root"))], "x509.signature", 0),
    "issuer-signature": ([leaf("issuer"), unsigned(ISSUER)], "x509.signature(1)", 1),
    "leaf-algorithm": (
        [leaf("root", inside=c.der(c.SEQUENCE, c.der(c.OID, b"\x2a\x03")))],
        "x509.algorithm",
        0,
    ),
    "issuer-algorithm": (
        [
            leaf("issuer"),
            issue("issuer", "root", CA, inside=c.der(c.SEQUENCE, c.der(c.OID, b"\x2a"))),
        ],
        "x509.algorithm(1)",
        1,
    ),
}


@pytest.mark.parametrize(("chain", "wanted", "failed"), RULES.values(), ids=RULES)
def test_what_cannot_be_verified_is_said_with_its_place(chain, wanted, failed):
    got = judge(*chain)
    assert (got.reason, got.failed) == (wanted, failed)


def test_a_step_of_a_chain_that_ended_says_so_again():
    judge(leaf("root"))
    assert BENCH.call(x509_chain_step, chain=CHAIN, good=1)[1:] == (0, 0)
