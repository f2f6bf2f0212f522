"""The certificate list of a message, and the chains that are known from before."""

import pytest

from firmware.layouts.x509_chain import ANCHOR, CERTIFICATES_MAX, CHAINS_KEPT, KNOWN_CHAINS, Chain
from firmware.x509.chain import x509_chain_begin, x509_known_find
from firmware.x509.step import x509_chain_step
from tests.support import certificates as c
from tests.support.chains import (
    CA,
    CHAIN,
    NOW,
    REGIONS,
    Bench,
    issue,
    leaf,
    listed,
    names,
    root,
    store_of,
    unsigned,
    validity,
)
from tests.support.lab import Lab

ROUTINES = (x509_chain_begin, x509_chain_step, x509_known_find)
BENCH = Bench(Lab(*ROUTINES, slots=0, extra=REGIONS, semantics=False))
ROOT = root()
STORE = store_of(ROOT, root("another"), root("third"))
ISSUER = issue("issuer", "root", CA)
DAY = 86_400


@pytest.fixture(autouse=True)
def _fresh():
    BENCH.fresh()


def judge(*certificates, store=STORE, **settings):
    return BENCH.judge(certificates, store, **settings)


LISTS = {
    "empty": b"",
    "short": b"\0\0",
    "long": listed(leaf("root")) + b"\0",
    "cut": listed(leaf("root"))[:-3],
    "no-extensions": listed(leaf("root"))[:-2],
    "extensions-cut": listed(leaf("root"))[:-1] + b"\1",
    "huge": b"\1" + listed(leaf("root"))[1:],
}


@pytest.mark.parametrize("raw", LISTS.values(), ids=LISTS)
def test_a_list_whose_lengths_do_not_add_up_is_refused(raw):
    assert BENCH.judge(raw, STORE).reason == "x509.list"


def test_a_list_of_too_many_is_refused():
    many = [leaf("root"), *[ISSUER] * (CERTIFICATES_MAX - 1)]
    assert judge(*many).good
    BENCH.fresh()
    assert judge(*many, ISSUER).reason == "x509.too_many"


def test_an_extension_of_an_entry_is_passed_over():
    raw = listed(leaf("root"))[:-2] + b"\0\3abc"
    assert BENCH.judge(raw, STORE).good


def test_a_known_chain_needs_no_signature():
    chain = [leaf("issuer"), ISSUER]
    assert judge(*chain).signatures == [1, 0]
    again = judge(*chain)
    assert (again.reason, again.signatures) == ("none", [])
    known = BENCH.lab.g(KNOWN_CHAINS)
    assert (known.hits, known.misses) == (1, 1)


def test_another_list_is_not_known():
    assert judge(leaf("issuer"), ISSUER).good
    assert judge(leaf("issuer"), issue("issuer", "root", CA, serial=b"\2\1\5")).signatures != []


def test_a_known_chain_is_judged_by_name_and_time_each_time():
    made = issue("a server", "issuer", names("gateway.test", "second.test"))
    short = issue("issuer", "root", CA, validity=validity("240301000000", "240701000000"))
    assert judge(made, short).good
    assert judge(made, short, host="second.test").signatures == []
    assert judge(made, short, host="third.test").reason == "x509.name"
    assert judge(made, short, now=NOW + 40 * DAY).reason == "x509.expired(1)"
    assert judge(made, short, now=NOW - 100 * DAY).reason == "x509.early(1)"


def test_a_known_chain_ends_with_its_anchor():
    short = root(validity=validity("230101000000", "240701000000"))
    got = judge(leaf("root"), store=store_of(short))
    assert got.view.not_after == 1719792000
    later = judge(leaf("root"), store=store_of(short), now=NOW + 40 * DAY)
    assert later.reason == f"x509.expired({ANCHOR})"


def test_the_chain_unused_for_longest_is_forgotten():
    chains = [[leaf("root", serial=c.integer(n))] for n in range(CHAINS_KEPT + 1)]
    for chain in chains[:-1]:
        judge(*chain)
    assert judge(*chains[0]).signatures == []
    judge(*chains[-1])
    assert judge(*chains[0]).signatures == []
    assert judge(*chains[1]).signatures == [0]


@pytest.mark.parametrize("byte", [None, 0, 7, 8, 16, 31])
def test_all_of_the_digest_counts(byte):
    digest = bytes(range(32))
    chain, known = BENCH.lab.view(Chain, CHAIN), BENCH.lab.g(KNOWN_CHAINS)
    chain.now, chain.digest[:] = NOW, digest
    place = known.chains[3]
    place.used, place.not_before, place.not_after = 1, NOW, NOW
    place.digest[:] = bytes(b ^ (n == byte) for n, b in enumerate(digest))
    assert BENCH.call(x509_known_find, chain=CHAIN) == (int(byte is None),)


def test_a_chain_that_failed_is_not_known():
    bad = [unsigned(leaf("root"))]
    assert not judge(*bad).good
    assert not judge(*bad).good
    assert BENCH.lab.g(KNOWN_CHAINS).hits == 0
