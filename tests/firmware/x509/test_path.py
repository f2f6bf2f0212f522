"""Paths from a leaf to an anchor: which ones are found, and why others are not."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware.layouts.x509_chain import (
    CERTIFICATES_MAX,
    COMPARED_MAX,
    INTERMEDIATES_MAX,
    STEPS_MAX,
    Chain,
)
from firmware.x509.chain import x509_chain_begin
from firmware.x509.step import x509_chain_step
from tests.support import certificates as c
from tests.support.chains import (
    CA,
    CHAIN,
    HOST,
    REGIONS,
    SIGNS,
    Bench,
    ca,
    issue,
    key_of,
    leaf,
    listed,
    names,
    root,
    store_of,
    validity,
)
from tests.support.counting import Counter
from tests.support.lab import Lab

ROUTINES = (x509_chain_begin, x509_chain_step)
BENCH = Bench(Lab(*ROUTINES, slots=0, extra=REGIONS, semantics=False))
FREE = Bench(Lab(*ROUTINES, slots=0, extra=REGIONS, semantics=False), lockstep=False)
COUNTER = Counter(FREE.lab.machine)
JUDGED = Bench(Lab(*ROUTINES, slots=0, extra=REGIONS))
ROOT = root()
STORE = store_of(ROOT, root("another"), root("third"))
ISSUER = issue("issuer", "root", CA)


@pytest.fixture(autouse=True)
def _fresh():
    BENCH.fresh()


def judge(*certificates, store=STORE, **settings):
    return BENCH.judge(certificates, store, **settings)


def test_a_leaf_below_an_anchor():
    got = judge(leaf("root"))
    assert (got.reason, got.signatures) == ("none", [0])


def test_the_python_semantics_agree():
    """The rest of this file leaves them out, for its time."""
    JUDGED.fresh()
    chain = [leaf("b"), issue("b", "a", ca(0), SIGNS), issue("a", "root", CA)]
    assert JUDGED.judge(chain, STORE).signatures == [2, 1, 0]
    assert JUDGED.judge(chain, STORE).signatures == []


def test_the_order_of_the_message_does_not_matter_and_strangers_do_not_either():
    got = judge(leaf("b"), issue("a", "root", CA), issue("x", "y", CA), issue("b", "a", CA))
    assert (got.reason, got.signatures) == ("none", [1, 3, 0])


def test_the_first_issuer_that_is_an_anchor_ends_the_path():
    """Let's Encrypt and Google send cross-signed roots too."""
    got = judge(leaf("issuer"), ISSUER, issue("root", "an old root", CA))
    assert (got.reason, got.signatures) == ("none", [1, 0])


def test_a_path_is_as_long_as_it_may_be_and_no_longer():
    chain = ["root", *(f"i{n}" for n in range(INTERMEDIATES_MAX + 1))]
    made = [issue(subject, issuer, CA) for issuer, subject in itertools.pairwise(chain)]
    good = judge(leaf(chain[-2]), *made[:-1])
    assert (good.reason, len(good.signatures)) == ("none", INTERMEDIATES_MAX + 1)
    BENCH.fresh()
    assert judge(leaf(chain[-1]), *made).reason == "x509.budget(1)"


def test_a_dead_end_leads_back():
    """One CA of the name leads to nobody, the other to an anchor."""
    dead = issue("issuer", "nobody", CA)
    got = judge(leaf("issuer"), dead, ISSUER)
    assert (got.reason, got.signatures) == ("none", [2, 0])


def test_a_loop_of_cross_signatures_ends():
    got = judge(leaf("a"), issue("a", "b", CA), issue("b", "a", CA))
    assert got.reason == "x509.unknown_issuer"


def test_the_same_name_and_key_does_not_come_twice_in_a_path():
    twins = [issue("a", "a", CA, serial=c.integer(n)) for n in range(CERTIFICATES_MAX - 1)]
    got = judge(leaf("a"), *twins)
    assert got.reason == "x509.unknown_issuer"
    assert got.view.steps < STEPS_MAX


def test_a_self_signed_leaf_is_not_its_own_issuer():
    assert judge(leaf("a server")).reason == "x509.unknown_issuer"


def test_many_paths_end_with_the_budget():
    """Every CA is signed by every other: more ways than anybody would look at."""
    cas = [issue("a", "a", CA, key=f"k{n}", issuer_key="x") for n in range(INTERMEDIATES_MAX + 1)]
    got = judge(leaf("a"), *cas)
    assert got.reason == "x509.budget(7)"
    assert got.view.uncompared > 0
    assert got.view.steps == STEPS_MAX + 1
    assert got.signatures == []


def test_an_expired_anchor_does_not_hide_another_way():
    """The old root is still in the store; the chain leads on to a new one."""
    short = root("old", validity=validity("230101000000", "240531235959"))
    store = store_of(short, ROOT)
    got = judge(leaf("old"), issue("old", "root", CA), store=store)
    assert (got.reason, got.signatures) == ("none", [1, 0])


def test_no_anchor_at_all():
    head = store_of(ROOT)
    empty = head[:4] + bytes(4) + head[8:]
    assert judge(leaf("root"), store=empty).reason == "x509.unknown_issuer"


def constraints(permitted="", excluded=""):
    parts = [
        c.der(tag, c.der(c.SEQUENCE, c.der(0x82, text.encode())))
        for tag, text in ((0xA0, permitted), (0xA1, excluded))
        if text
    ]
    return c.extension(30, c.der(c.SEQUENCE, *parts), critical=True)


@pytest.mark.parametrize(
    ("top", "lower", "reason", "failed"),
    [
        (constraints("test"), constraints("gateway.test"), "none", 0),
        (constraints("example"), b"", "x509.constraints", 0),
        (b"", constraints(excluded="test"), "x509.constraints", 0),
        (constraints("test"), constraints("other.test"), "x509.constraints", 0),
        # A name in an intermediate counts as well.
        (constraints("test"), names("a.example"), "x509.constraints(1)", 1),
        (constraints("test"), names("a.test"), "none", 0),
    ],
)
def test_constraints_hold_for_everything_below(top, lower, reason, failed):
    made = [
        issue("b", "a", CA, *filter(None, [lower])),
        issue("a", "root", CA, *filter(None, [top])),
    ]
    got = judge(leaf("b"), *made)
    assert (got.reason, got.failed) == (reason, failed)


def test_constraints_of_an_anchor_hold_for_everything():
    store = store_of(root("root", constraints("example")))
    got = judge(leaf("issuer"), ISSUER, store=store)
    assert (got.reason, got.failed) == ("x509.constraints", 0)
    BENCH.fresh()
    assert judge(leaf("issuer"), ISSUER, store=store_of(root("root", constraints("test")))).good


def excluding(hosts):
    bases = (c.der(c.SEQUENCE, c.der(0x82, host.encode())) for host in hosts)
    return c.extension(30, c.der(c.SEQUENCE, c.der(0xA1, *bases)), critical=True)


LONG = ".".join(["a" * 60] * 3)
HOSTILE = {
    "many": ([f"a{n}" for n in range(240)], [*(f"b{n}" for n in range(239)), "a239"]),
    # Equal to the last letter, and once more behind the wildcard.
    "long": ([f"*.{LONG}"] * 30, [f"{LONG[:-1]}b"] * 30),
}
LONG_NAME = "n" * 1_100
OTHERS = CERTIFICATES_MAX - 1
SAME_NAMES = {
    "all": [LONG_NAME] * OTHERS,
    "but-one-letter": [LONG_NAME] * 3 + [LONG_NAME[:-1] + "m"] * (OTHERS - 3),
}


def counted(monkeypatch, *chain):
    """Return the verdict of a free run, and the instructions that each step took."""
    FREE.fresh()
    taken = []

    def call(routine, **inputs):
        before = COUNTER.instructions
        got = Bench.call(FREE, routine, **inputs)
        if routine is x509_chain_step:
            taken.append(COUNTER.instructions - before)
        return got

    monkeypatch.setattr(FREE, "call", call)
    return FREE.judge(chain, STORE), taken


@pytest.mark.parametrize(("hosts", "excluded"), HOSTILE.values(), ids=HOSTILE)
def test_names_that_take_long_end_with_the_budget(hosts, excluded, monkeypatch):
    """Nobody has signed anything yet: a turn stays short whatever a peer sends."""
    roots = (root(key=f"k{n}", issuer_key="k") for n in range(CERTIFICATES_MAX - 2))
    made = [
        issue("a server", "ca", names(HOST, *hosts)),
        issue("ca", "root", CA, excluding(excluded)),
    ]
    got, taken = counted(monkeypatch, *made, *roots)
    assert (got.reason, got.signatures) == ("x509.budget", [])
    assert got.view.uncompared == 0
    assert 500_000 < max(taken) < 5_000_000


@pytest.mark.parametrize("subjects", SAME_NAMES.values(), ids=SAME_NAMES)
def test_names_of_issuers_that_take_long_end_with_the_budget(subjects, monkeypatch):
    """Each is compared to its last byte, with every candidate, and with all of the path."""
    made = [issue(subject, LONG_NAME, CA, key=f"k{n}") for n, subject in enumerate(subjects)]
    assert len(listed(leaf(LONG_NAME), *made)) < 24_000
    got, taken = counted(monkeypatch, leaf(LONG_NAME), *made)
    assert (got.reason, got.signatures) == ("x509.budget", [])
    assert got.view.uncompared == 0
    assert 500_000 < max(taken) < 5_000_000


LOWER, UPPER, TOP = (len(c.name(text)) for text in ("b", "a", "root"))
KEY = len(key_of("a"))
COMPARED = [
    LOWER,  # with the anchors
    LOWER,  # with b
    LOWER + KEY,  # b with the leaf
    UPPER,  # with the anchors
    *(UPPER, UPPER),  # with b and a
    *(UPPER + KEY, UPPER + KEY),  # a with b and the leaf
    TOP,  # with the anchors
]
"""Bytes of each comparison of the path below, in order."""
PAID = [*itertools.accumulate(COMPARED)]


@pytest.mark.parametrize("left", [0, *PAID, *(paid - 1 for paid in PAID)])
def test_each_name_that_is_compared_is_paid_for(monkeypatch, left):
    whole = sum(COMPARED)

    def call(routine, **inputs):
        got = Bench.call(BENCH, routine, **inputs)
        if routine is x509_chain_begin:
            BENCH.lab.view(Chain, CHAIN).uncompared = left
        return got

    monkeypatch.setattr(BENCH, "call", call)
    got = judge(leaf("b"), issue("b", "a", CA), issue("a", "root", CA))
    assert got.reason == ("none" if left >= whole else "x509.budget")
    assert got.view.uncompared == max(left - whole, 0)


def test_an_ordinary_chain_pays_little():
    got = judge(leaf("b"), issue("b", "a", CA), issue("a", "root", CA))
    assert got.view.uncompared == COMPARED_MAX - sum(COMPARED)


NAME = st.sampled_from(["root", "another", "a", "b", "c"])
EDGES = st.lists(st.tuples(NAME, NAME, st.booleans(), st.booleans()), max_size=6)


def graph(bench, first, edges):
    """Judge a leaf with issuers as the edges say: subject, issuer, is a CA, rightly signed."""
    bench.fresh()
    made = [
        issue(subject, issuer, *[CA] * is_ca, issuer_key="" if right else "wrong")
        for subject, issuer, is_ca, right in edges
    ]
    got = bench.judge([leaf(first), *made], STORE)
    assert got.good == leads(first, {(s, i) for s, i, is_ca, right in edges if is_ca and right})


@settings(max_examples=120)
@given(first=NAME, edges=EDGES)
def test_any_graph_of_issuers_is_accepted_when_a_way_leads_to_an_anchor(first, edges):
    graph(FREE, first, edges)


@settings(max_examples=10)
@given(first=NAME, edges=EDGES)
def test_any_graph_of_issuers_matches_the_model(first, edges):
    graph(BENCH, first, edges)


def leads(first, edges):
    """Return whether a way along the edges ends at an anchor."""
    seen, work = set(), [first]
    while work:
        name = work.pop()
        if name in {"root", "another"}:
            return True
        seen.add(name)
        work += [issuer for subject, issuer in edges if subject == name and issuer not in seen]
    return False
