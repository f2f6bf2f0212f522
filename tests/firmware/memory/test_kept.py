"""The sum over kept pages, and the node's own facts in them."""

from hypothesis import given
from hypothesis import strategies as st

from emulator.memory import Region
from firmware.layouts.survivor import SURVIVAL, SURVIVOR, Survivor
from firmware.limits import KEPT_PAGES, PAGE, RECORD_PAGE, SURVIVOR_PAGE
from firmware.memory.kept import kept_sum, survivor_store
from tests.support.lab import Lab

LAB = Lab(kept_sum, survivor_store, extra=[Region("record", RECORD_PAGE, KEPT_PAGES * PAGE)])


def total(data):
    LAB.reset()
    LAB.machine.write(SURVIVOR_PAGE, data)
    return LAB.call(kept_sum, first=SURVIVOR_PAGE, count=len(data) // 8).outputs["rax"]


def test_zeros_have_a_sum():
    assert total(bytes(8)) != 0
    assert total(bytes(64)) != total(bytes(56))


@given(st.binary(min_size=64, max_size=64), st.integers(0, 511))
def test_one_bit_changes_it(data, bit):
    other = (int.from_bytes(data, "little") ^ 1 << bit).to_bytes(64, "little")
    assert total(data) != total(other)


@given(st.binary(min_size=64, max_size=64), st.integers(0, 7), st.integers(0, 7))
def test_the_order_counts(data, one, two):
    words = [data[8 * n : 8 * n + 8] for n in range(8)]
    words[one], words[two] = words[two], words[one]
    same = b"".join(words) == data
    assert (total(data) == total(b"".join(words))) == same


def test_the_facts_are_stored_whole():
    LAB.reset()
    LAB.machine.write(SURVIVOR_PAGE, bytes(PAGE))
    facts = LAB.g(SURVIVOR)
    facts.boots, facts.identified = 3, 17
    LAB.call(survivor_store)
    assert LAB.machine.read(SURVIVOR_PAGE, PAGE) == bytes(PAGE)  # nobody has looked at it yet
    LAB.g(SURVIVAL).page = SURVIVOR_PAGE
    LAB.call(survivor_store)
    stored = LAB.view(Survivor, SURVIVOR_PAGE)
    assert (stored.boots, stored.identified) == (3, 17)
    assert LAB.machine.read(SURVIVOR_PAGE, Survivor.SIZE) == LAB.machine.read(
        facts.address_, Survivor.SIZE
    )
