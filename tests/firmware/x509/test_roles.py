"""What a leaf, an issuer and an anchor must be to stand in their places of a path."""

from dataclasses import replace

import pytest

from firmware.layouts.x509_chain import ANCHOR
from firmware.x509.chain import x509_chain_begin
from firmware.x509.step import x509_chain_step
from tests.support import certificates as c
from tests.support.chains import (
    CA,
    REGIONS,
    Bench,
    ca,
    issue,
    leaf,
    names,
    root,
    store_of,
    validity,
)
from tests.support.lab import Lab
from toolchain.trust import read_anchor

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


RULES = {
    "unknown": ([leaf("nobody")], "x509.unknown_issuer", 0),
    "issuer-bad": ([leaf("issuer"), ISSUER[:-1]], "x509.not_der", 1),
    "issuer-critical": (
        [leaf("issuer"), issue("issuer", "root", CA, c.extension(32, b"", critical=True))],
        "x509.critical(32)",
        1,
    ),
    "leaf-bad": ([leaf("root")[:-1]], "x509.not_der", 0),
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
