"""The clean memory map, pages and page tables."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware.layouts.boot import REGIONS_MAX
from firmware.layouts.memory import HIGHEST, MEMORY, RUNS_MAX, TABLE_PAGES, PageBit
from firmware.limits import PAGE, WINDOW_DMA, WINDOW_MMIO, WORKSPACE_BASE
from firmware.memory import map_fresh, memory_init, page_entry, page_map, pages_take
from tests.support.lab import Lab
from tests.support.pages import MEGABYTE, ready, reserved, set_map, tables_region, usable, walk

LAB = Lab(memory_init, pages_take, page_map, page_entry, map_fresh, extra=[tables_region()])
TOP = 2**64


def clean(*entries):
    set_map(LAB, *entries)
    LAB.call(memory_init)
    memory = LAB.g(MEMORY)
    return [(memory.runs[n].next, memory.runs[n].end) for n in range(memory.run_count)]


QEMU = (
    usable(0, 0x9C400), reserved(0x9C400, 0xA0000), reserved(0xF0000, 0x10_0000),
    usable(0x10_0000, 0xFF3_9000), reserved(0xFFE_0000, 0x1000_0000),
    reserved(0xFFFC_0000, 0x1_0000_0000), reserved(0xFD_0000_0000, 0x100_0000_0000),
)  # fmt: skip


@pytest.mark.parametrize(
    ("entries", "runs"),
    [
        (QEMU, [(0x10_0000, 0xFF3_9000)]),
        ((), []),
        ((usable(0, 0x9FC00),), []),
        # Page-aligned inward.
        ((usable(0x10_0001, 0x10_3FFF),), [(0x10_1000, 0x10_3000)]),
        ((usable(0x10_0001, 0x10_1FFF),), []),
        # Unsorted, overlapping, adjacent: merged.
        ((usable(0x40_0000, 0x50_0000), usable(0x10_0000, 0x30_0000), usable(0x28_0000, 0x40_0000)),
         [(0x10_0000, 0x50_0000)]),
        # Reserved wins, rounded outward; an unknown type is reserved.
        ((usable(0x10_0000, 0x50_0000), reserved(0x20_0800, 0x20_0801, 0xB020_0000)),
         [(0x10_0000, 0x20_0000), (0x20_1000, 0x50_0000)]),
        ((usable(0x10_0000, 0x50_0000), reserved(0x08_0000, 0x18_0000)), [(0x18_0000, 0x50_0000)]),
        ((usable(0x10_0000, 0x50_0000), reserved(0, TOP - 1)), []),
        # Empty and wrapping entries.
        ((usable(0x10_0000, 0x50_0000), (0x20_0000, 0, 2)), [(0x10_0000, 0x50_0000)]),
        (((0x20_0000, 0, 1),), []),
        (((0x10_0000, TOP - 1, 1),), [(0x10_0000, HIGHEST)]),
        ((usable(0x10_0000, 0x50_0000), (0x30_0000, TOP - 1, 2)), [(0x10_0000, 0x30_0000)]),
        ((usable(0x10_0000, 0x50_0000), (0x30_0000, TOP - 0x30_0001, 7)), [(0x10_0000, 0x30_0000)]),
        (((HIGHEST, MEGABYTE, 1), (TOP - PAGE, PAGE, 1)), []),
        # Above 4 GB.
        ((usable(0x1_0000_0000, 0x1_8000_0000), usable(0x10_0000, 0x7FFE_0000)),
         [(0x10_0000, 0x7FFE_0000), (0x1_0000_0000, 0x1_8000_0000)]),
    ],
)  # fmt: skip
def test_memory_init_known_maps(entries, runs):
    assert clean(*entries) == runs
    assert LAB.g(MEMORY).free_pages == sum(end - start for start, end in runs) // PAGE


def test_memory_init_keeps_the_lowest_runs():
    runs = [(n * 2 * MEGABYTE, n * 2 * MEGABYTE + MEGABYTE) for n in range(1, RUNS_MAX + 5)]
    entries = [usable(start, end) for start, end in reversed(runs)]
    assert clean(*entries) == runs[:RUNS_MAX]


ADDRESSES = st.one_of(
    st.integers(0, 0x80_0000),
    st.integers(0, 64).map(lambda n: n * 0x2_0000),
    st.sampled_from([0xF_FFFF, 0x10_0000, 0x10_0001, HIGHEST - 1, HIGHEST, TOP - 1]),
)
ENTRY = st.tuples(ADDRESSES, ADDRESSES, st.sampled_from([1, 1, 1, 2, 3, 0, 0x5346, 0xB020_0000]))


@settings(max_examples=60, deadline=None)
@given(st.lists(ENTRY, max_size=12))
def test_memory_init_any_map_gives_usable_pages_only(entries):
    for start, end in clean(*entries):
        assert MEGABYTE <= start < end <= HIGHEST
        for page in (start, end - PAGE):
            assert any(k == 1 and b <= page and page + PAGE <= b + n for b, n, k in entries)
            assert not any(k != 1 and n and b < page + PAGE and page < b + n for b, n, k in entries)


def test_memory_init_a_full_map_ends():
    entries = [((n * 7919 % 97) * 0x1_8000, 0x2_0000, 1 + (n % 5 == 0)) for n in range(REGIONS_MAX)]
    assert clean(*entries)


def test_pages_take_first_fit():
    ready(LAB, (0x10_0000, 0x10_2000), (0x20_0000, 0x21_0000))
    takes = [
        (1, 0x10_0000),
        (2, 0x20_0000),
        (1, 0x10_1000),
        (1, 0x20_2000),
        (14, 0),
        (13, 0x20_3000),
    ]
    for pages, wanted in takes:
        got = LAB.call(pages_take, pages=pages).outputs
        assert (got["rax"], got["cf"]) == (wanted, wanted == 0)
    assert LAB.g(MEMORY).free_pages == 0
    assert LAB.call(pages_take, pages=0xFFFF_FFFF).outputs["cf"] == 1


def test_page_map_makes_a_table_once_per_two_megabytes():
    ready(LAB)
    for virtual in (WINDOW_DMA, WINDOW_DMA + PAGE, WINDOW_MMIO, WORKSPACE_BASE + 0x1FF000):
        entry = 0xABC_DEF0_0000 + virtual | PageBit.PRESENT | PageBit.NO_EXECUTE
        assert LAB.call(page_map, virtual=virtual, entry=entry).outputs["cf"] == 0
        assert walk(LAB, virtual) == entry
        assert LAB.call(page_entry, virtual=virtual).outputs["rax"] == entry
    assert LAB.g(MEMORY).tables_used == 7 + 3
    assert walk(LAB, WINDOW_DMA + 2 * PAGE) == 0
    assert walk(LAB, WINDOW_DMA - PAGE) == 0


def test_page_map_without_tables_left_refuses():
    ready(LAB)
    LAB.g(MEMORY).tables_used = TABLE_PAGES
    assert LAB.call(page_map, virtual=WINDOW_DMA, entry=1).outputs["cf"] == 1
    assert walk(LAB, WINDOW_DMA) == 0


def test_map_fresh_pages_are_zero_and_not_executable():
    ready(LAB, (0x10_0000, 0x10_1000), (0x30_0000, 0x30_2000))
    assert LAB.call(map_fresh, virtual=WINDOW_DMA, pages=2).outputs["cf"] == 0
    assert LAB.machine.read(WINDOW_DMA, 2 * PAGE) == bytes(2 * PAGE)
    bits = PageBit.PRESENT | PageBit.WRITE | PageBit.NO_EXECUTE
    assert walk(LAB, WINDOW_DMA) == 0x10_0000 | bits
    assert walk(LAB, WINDOW_DMA + PAGE) == 0x30_0000 | bits


def test_map_fresh_out_of_pages_or_tables_refuses():
    ready(LAB, (0x10_0000, 0x10_1000))
    assert LAB.call(map_fresh, virtual=WINDOW_DMA, pages=2).outputs["cf"] == 1
    ready(LAB, (0x10_0000, 0x10_2000))
    LAB.g(MEMORY).tables_used = TABLE_PAGES
    assert LAB.call(map_fresh, virtual=WINDOW_DMA, pages=1).outputs["cf"] == 1
