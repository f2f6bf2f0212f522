"""The trust store: what a build writes, the node finds."""

import pytest

from firmware.layouts.trust import TrustEntry, TrustStore, name_hash
from firmware.x509.trust import x509_anchor_find, x509_name_hash
from tests.support import certificates as c
from tests.support.chains import REGIONS, STORE, root, store_of
from tests.support.lab import Lab
from toolchain.layout.pack import unpack

LAB = Lab(x509_anchor_find, x509_name_hash, slots=0, extra=REGIONS)


def find(store, subject, first=0):
    """Return the SPKI of the anchor that is found, and the next entry; None for none."""
    LAB.reset()
    LAB.machine.write(STORE, store)
    name = c.name(subject)
    given = {"store": STORE, "name": LAB.put(name), "size": len(name), "first": first}
    got = LAB.call(x509_anchor_find, **given).outputs
    if got["cf"]:
        assert (got["rax"], got["edx"]) == (0, 0)
        return None
    assert LAB.machine.read(got["rax"] + 0x18, len(name)) == name
    return got["edx"]


ROOTS = [root(f"root {n}") for n in range(9)]


def test_every_anchor_is_found_and_nothing_else():
    store = store_of(*ROOTS)
    for n in range(len(ROOTS)):
        assert find(store, f"root {n}") is not None
    assert find(store, "root 9") is None
    assert find(store, "") is None


def test_all_anchors_of_a_name_are_found_one_after_the_other():
    store = store_of(*ROOTS, root("root 4", key="new", issuer_key="new"))
    first = find(store, "root 4")
    assert find(store, "root 4", first) == first + 1
    assert find(store, "root 4", first + 1) is None


def test_a_name_with_the_same_hash_is_another_name():
    """Nobody has found two, so the index says so."""
    store = bytearray(store_of(*ROOTS[:2]))
    at = TrustStore.SIZE
    for n in range(2):
        entry = at + n * TrustEntry.SIZE
        store[entry : entry + 8] = name_hash(c.name("root 1")).to_bytes(8, "little")
    assert find(bytes(store), "root 1") is not None
    assert find(bytes(store), "root 2") is None


def test_the_index_is_in_the_order_of_its_hashes():
    store = store_of(*ROOTS)
    head = unpack(TrustStore, store[: TrustStore.SIZE])
    assert (head["count"], head["size"]) == (len(ROOTS), len(store))
    places = range(TrustStore.SIZE, TrustStore.SIZE + len(ROOTS) * TrustEntry.SIZE, TrustEntry.SIZE)
    hashes = [int.from_bytes(store[at : at + 8], "little") for at in places]
    assert hashes == sorted(hashes)


# RFC 9923, appendix C.
@pytest.mark.parametrize(
    ("text", "value"),
    [(b"a", 0xAF63DC4C8601EC8C), (b"foobar", 0x85944171F73967E8)],
)
def test_x509_name_hash(text, value):
    LAB.reset()
    got = LAB.call(x509_name_hash, name=LAB.put(text), size=len(text)).outputs["rax"]
    assert got == value == name_hash(text)
