"""Pins: one key of the path has to be a pinned one, whichever it is."""

import hashlib

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from firmware.layouts.trust import PIN_BYTES, TrustStore
from firmware.layouts.x509_chain import INTERMEDIATES_MAX, KNOWN_CHAINS, Chain
from firmware.x509.chain import x509_chain_begin
from firmware.x509.pins import x509_check_pins
from firmware.x509.step import x509_chain_step
from tests.support.chains import CA, CHAIN, REGIONS, Bench, issue, key_of, leaf, root, store_of
from tests.support.lab import Lab
from tests.support.tls_peer import identity
from toolchain.layout.pack import unpack
from toolchain.trust import read_anchor

ROUTINES = (x509_chain_begin, x509_chain_step, x509_check_pins)
BENCH = Bench(Lab(*ROUTINES, slots=0, extra=REGIONS))
LEAF, MIDDLE, ROOT = leaf("issuer"), issue("issuer", "root", CA), root()
STRANGER = bytes(range(PIN_BYTES))


@pytest.fixture(autouse=True)
def _fresh():
    BENCH.fresh()


def pin(label):
    """Return the pin of the key that belongs to a label."""
    return hashlib.sha256(key_of(label)).digest()


def judge(*pins, chain=(LEAF, MIDDLE), roots=(ROOT,)):
    return BENCH.judge(chain, store_of(*roots, pins=pins))


def test_a_pin_is_the_digest_of_the_key_as_other_libraries_encode_it():
    made = identity().root
    key = x509.load_der_x509_certificate(made).public_key()
    spki = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    assert read_anchor(made).spki == spki


def test_the_pins_are_the_end_of_the_store():
    store = store_of(ROOT, pins=(pin("root"), STRANGER))
    head = unpack(TrustStore, store)
    assert (head["pins"], head["size"]) == (2, len(store))
    assert store.endswith(pin("root") + STRANGER)
    assert store[TrustStore.SIZE : -2 * PIN_BYTES] == store_of(ROOT)[TrustStore.SIZE :]


@pytest.mark.parametrize("who", ["a server", "issuer", "root"])
@pytest.mark.parametrize("before", [0, 1, 2])
@pytest.mark.parametrize("behind", [0, 1])
def test_any_key_of_the_path_will_do_at_any_place_of_the_table(who, before, behind):
    got = judge(*[STRANGER] * before, pin(who), *[STRANGER] * behind)
    assert (got.reason, got.signatures) == ("none", [1, 0])


@pytest.mark.parametrize("bit", [0, 7, 255])
def test_another_key_will_not_and_no_signature_is_asked_for(bit):
    wrong = bytearray(pin("root"))
    wrong[bit // 8] ^= 1 << bit % 8
    got = judge(bytes(wrong), STRANGER)
    assert (got.reason, got.failed, got.signatures) == ("x509.pin", 0, [])


def test_a_key_beside_the_path_does_not_count():
    """Whoever has the pinned certificate, which is public, could put it into the message."""
    chain = (LEAF, MIDDLE, issue("stranger", "root", CA))
    assert judge(pin("stranger"), chain=chain).reason == "x509.pin"
    assert judge(pin("issuer"), chain=chain).good


def test_a_pinned_key_still_has_to_be_certified():
    assert judge(pin("a server"), chain=[leaf("nobody")]).reason == "x509.unknown_issuer"


def test_the_search_goes_on_to_a_path_that_is_pinned():
    """Two anchors: one signed the issuer, the other one an issuer of the same key."""
    old = issue("issuer", "old root", CA)
    roots = (ROOT, root("old root"))
    for chain in ((LEAF, MIDDLE, old), (LEAF, old, MIDDLE)):
        BENCH.fresh()
        got = judge(pin("old root"), chain=chain, roots=roots)
        number = chain.index(old)
        assert (got.reason, got.signatures) == ("none", [number, 0])


def test_the_longest_path_is_looked_at_to_its_leaf():
    names = ["root", *(f"i{n}" for n in range(INTERMEDIATES_MAX))]
    between = [issue(name, names[n], CA) for n, name in enumerate(names[1:])]
    got = judge(pin("a server"), chain=(leaf(names[-1]), *between))
    assert (got.reason, len(got.signatures)) == ("none", INTERMEDIATES_MAX + 1)


def test_a_refused_chain_is_not_known_the_next_time():
    for _ in range(2):
        assert judge(STRANGER).reason == "x509.pin"
    assert BENCH.lab.g(KNOWN_CHAINS).hits == 0
    assert judge(pin("root")).good
    again = judge(pin("root"))
    assert (again.reason, again.signatures) == ("none", [])


def test_without_pins_nothing_is_hashed():
    assert judge().good
    chain = BENCH.lab.view(Chain, CHAIN)
    chain.signed[:32] = before = b"untouched".ljust(32)
    assert BENCH.call(x509_check_pins, chain=CHAIN) == (0,)
    assert bytes(chain.signed[:32]) == before
