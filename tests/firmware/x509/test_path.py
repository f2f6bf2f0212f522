"""Paths from a leaf to an anchor: which ones are found, and why others are not."""

import itertools
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware.layouts.x509_chain import (
    ANCHOR,
    CERTIFICATES_MAX,
    CHAINS_KEPT,
    COMPARED_MAX,
    INTERMEDIATES_MAX,
    KNOWN_CHAINS,
    SIGNATURES_MAX,
    STEPS_MAX,
    Chain,
)
from firmware.x509.chain import x509_chain_begin, x509_known_find
from firmware.x509.step import x509_chain_step
from tests.support import certificates as c
from tests.support.chains import (
    CA,
    CHAIN,
    HOST,
    NOW,
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
from toolchain.trust import read_anchor

ROUTINES = (x509_chain_begin, x509_chain_step, x509_known_find)
BENCH = Bench(Lab(*ROUTINES, slots=0, extra=REGIONS, semantics=False))
FREE = Bench(Lab(*ROUTINES, slots=0, extra=REGIONS, semantics=False), lockstep=False)
COUNTER = Counter(FREE.lab.machine)
JUDGED = Bench(Lab(*ROUTINES, slots=0, extra=REGIONS))
ROOT = root()
STORE = store_of(ROOT, root("another"), root("third"))
ISSUER = issue("issuer", "root", CA)
DAY = 86_400


@pytest.fixture(autouse=True)
def _fresh():
    BENCH.fresh()


def judge(*certificates, store=STORE, **settings):
    return BENCH.judge(certificates, store, **settings)


def test_a_leaf_below_an_anchor():
    got = judge(leaf("root"))
    assert (got.reason, got.signatures) == ("none", [0])


def test_signatures_are_verified_from_the_anchor_downwards():
    got = judge(leaf("b"), issue("b", "a", CA), issue("a", "root", CA))
    assert (got.reason, got.signatures) == ("none", [2, 1, 0])


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


def test_two_issuers_of_a_name_are_both_tried():
    wrong = issue("issuer", "root", CA, key="another key")
    got = judge(leaf("issuer"), wrong, ISSUER)
    assert (got.reason, got.signatures) == ("none", [1, 0, 2, 0])


def test_two_anchors_of_a_name_are_both_tried():
    store = store_of(root("root", key="old", issuer_key="old"), ROOT)
    got = judge(leaf("root"), store=store)
    assert (got.reason, set(got.signatures)) == ("none", {0})


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


def test_many_wrong_signatures_end_with_the_budget():
    store = store_of(
        *(root("root", key=f"k{n}", issuer_key=f"k{n}") for n in range(SIGNATURES_MAX + 2))
    )
    got = judge(leaf("root"), store=store)
    assert (got.reason, len(got.signatures)) == ("x509.signature", SIGNATURES_MAX)
    assert got.view.signatures == SIGNATURES_MAX


def unsigned(encoded):
    return encoded[:-1] + bytes([encoded[-1] ^ 1])


RULES = {
    "unknown": ([leaf("nobody")], "x509.unknown_issuer", 0),
    "leaf-signature": ([unsigned(leaf("root"))], "x509.signature", 0),
    "issuer-signature": ([leaf("issuer"), unsigned(ISSUER)], "x509.signature(1)", 1),
    "issuer-bad": ([leaf("issuer"), ISSUER[:-1]], "x509.not_der", 1),
    "issuer-critical": (
        [leaf("issuer"), issue("issuer", "root", CA, c.extension(32, b"", critical=True))],
        "x509.critical(32)",
        1,
    ),
    "leaf-bad": ([leaf("root")[:-1]], "x509.not_der", 0),
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
    # The leaf.
    "leaf-expired": (
        [leaf("root", validity=validity("230101000000", "240531235959"))],
        "x509.expired",
        0,
    ),
    "leaf-early": (
        [leaf("root", validity=validity("240601000001", "250101000000"))],
        "x509.early",
        0,
    ),
    "leaf-ca": ([leaf("root", CA)], "x509.leaf_is_ca", 0),
    "leaf-constrains": (
        [
            leaf(
                "root",
                c.extension(30, c.der(c.SEQUENCE, c.der(0xA1, c.der(c.SEQUENCE, b"\x82\1x")))),
            )
        ],
        "x509.leaf_is_ca",
        0,
    ),
    "leaf-usage": ([leaf("root", c.extension(15, c.der(c.BITS, b"\5\x20")))], "x509.key_usage", 0),
    "leaf-usage-signs": (
        [leaf("root", c.extension(15, c.der(c.BITS, b"\2\x84")))],
        "x509.key_usage",
        0,
    ),
    "leaf-usage-good": ([leaf("root", c.extension(15, c.der(c.BITS, b"\7\x80")))], "none", 0),
    "leaf-purpose": (
        [leaf("root", c.extension(37, c.der(c.SEQUENCE, c.CLIENT_AUTH)))],
        "x509.purpose",
        0,
    ),
    "leaf-purpose-good": (
        [leaf("root", c.extension(37, c.der(c.SEQUENCE, c.CLIENT_AUTH, c.SERVER_AUTH)))],
        "none",
        0,
    ),
    "leaf-name": ([issue("a server", "root", names("other.test"))], "x509.name", 0),
    "leaf-no-names": ([issue("gateway.test", "root")], "x509.name", 0),
    # An issuer.
    "issuer-no-ca": ([leaf("issuer"), issue("issuer", "root")], "x509.not_ca(1)", 1),
    "issuer-expired": (
        [
            leaf("issuer"),
            issue("issuer", "root", CA, validity=validity("230101000000", "240531235959")),
        ],
        "x509.expired(1)",
        1,
    ),
    "issuer-early": (
        [
            leaf("issuer"),
            issue("issuer", "root", CA, validity=validity("240602000000", "250531235959")),
        ],
        "x509.early(1)",
        1,
    ),
    "issuer-usage": (
        [leaf("issuer"), issue("issuer", "root", CA, c.extension(15, c.der(c.BITS, b"\7\x80")))],
        "x509.key_usage(1)",
        1,
    ),
    "issuer-usage-good": (
        [leaf("issuer"), issue("issuer", "root", CA, c.extension(15, c.der(c.BITS, b"\1\6")))],
        "none",
        0,
    ),
    "issuer-purpose": (
        [
            leaf("issuer"),
            issue("issuer", "root", CA, c.extension(37, c.der(c.SEQUENCE, c.CLIENT_AUTH))),
        ],
        "x509.purpose(1)",
        1,
    ),
    "issuer-purpose-good": (
        [
            leaf("issuer"),
            issue("issuer", "root", CA, c.extension(37, c.der(c.SEQUENCE, c.SERVER_AUTH))),
        ],
        "none",
        0,
    ),
    "issuer-length": (
        [leaf("b"), issue("b", "a", CA), issue("a", "root", ca(0))],
        "x509.path_length(2)",
        2,
    ),
    "issuer-length-good": (
        [leaf("b"), issue("b", "a", ca(0)), issue("a", "root", ca(1))],
        "none",
        0,
    ),
}


@pytest.mark.parametrize(("chain", "wanted", "failed"), RULES.values(), ids=RULES)
def test_rules_of_the_path(chain, wanted, failed):
    got = judge(*chain)
    assert (got.reason, got.failed) == (wanted, failed)


def test_keys_that_cannot_verify_are_refused_by_their_place():
    odd = c.spki(c.der(c.SEQUENCE, c.der(c.OID, bytes.fromhex("2b6570"))), bytes(32))
    made = c.Fields(issuer=c.name("root"), key=odd, extensions=[names("gateway.test")])
    assert judge(made.encode()).reason == "x509.key"
    BENCH.fresh()
    made = c.Fields(issuer=c.name("root"), subject=c.name("issuer"), key=odd, extensions=[CA])
    assert judge(leaf("issuer"), made.encode()).reason == "x509.key(1)"


@pytest.mark.parametrize(
    ("now", "reason"),
    [
        (1704067200 - 1, "x509.early"),
        (1704067200, "none"),
        (1735689600, "none"),
        (1735689600 + 1, "x509.expired"),
        (-1, "x509.early"),
    ],
)
def test_both_ends_of_the_validity_count(now, reason):
    store = store_of(root(validity=validity("500101000000", "490101000000")))
    assert judge(leaf("root"), store=store, now=now % 2**64).reason == reason


def anchor(**changes):
    return replace(read_anchor(ROOT), **changes)


def test_an_anchor_that_ended_does_not_count():
    got = judge(leaf("root"), store=STORE, now=1735689600)
    assert got.good
    BENCH.fresh()
    short = root(validity=validity("230101000000", "240531235959"))
    got = judge(leaf("root"), store=store_of(short))
    assert (got.reason, got.failed) == (f"x509.expired({ANCHOR})", ANCHOR)


def test_an_expired_anchor_does_not_hide_another_way():
    """The old root is still in the store; the chain leads on to a new one."""
    short = root("old", validity=validity("230101000000", "240531235959"))
    store = store_of(short, ROOT)
    got = judge(leaf("old"), issue("old", "root", CA), store=store)
    assert (got.reason, got.signatures) == ("none", [1, 0])


def test_an_anchor_limits_the_path():
    store = store_of(anchor(path_length=0))
    assert judge(leaf("root"), store=store).good
    BENCH.fresh()
    got = judge(leaf("issuer"), ISSUER, store=store)
    assert got.reason == f"x509.path_length({ANCHOR})"


def test_an_anchor_with_a_key_that_cannot_verify_is_refused():
    odd = c.spki(c.der(c.SEQUENCE, c.der(c.OID, bytes.fromhex("2b6570"))), bytes(32))
    got = judge(leaf("root"), store=store_of(anchor(spki=odd)))
    assert got.reason == f"x509.key({ANCHOR})"


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


# -- known chains ---------------------------------------------------------------------------------
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


def test_a_step_of_a_chain_that_ended_says_so_again():
    judge(leaf("root"))
    assert BENCH.call(x509_chain_step, chain=CHAIN, good=1)[1:] == (0, 0)


# -- any graph ------------------------------------------------------------------------------------
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
