"""The 32-bit stage: memory map, the run for the tables, the tables, and what it refuses."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware.boot.paging import CR0_BITS, CR4_BITS
from firmware.image import DIRECT_ADDRESS
from firmware.layouts.boot import REGIONS_MAX, BootPath, MemoryType
from firmware.layouts.memory import (
    ADDRESS_MASK,
    LOWEST,
    RECORD_PHYSICAL,
    TABLE_PAGES,
    PageBit,
)
from firmware.layouts.trust import TRUST_MAGIC, TrustStore
from firmware.limits import (
    IMAGE_BASE,
    KEPT_PAGES,
    PAGE,
    STACK_BYTES,
    STACK_TOP,
    WINDOW_PAGE_TABLES,
)
from tests.support.direct_stage import A20_HIGH, IMAGE, LONG_MODE_AND_NX, TSC, DirectStage
from toolchain.layout.pack import pack

USABLE, RESERVED, OURS = MemoryType.USABLE, MemoryType.RESERVED, MemoryType.OURS
PC = [(0, 0x9_FC00, USABLE), (0x9_FC00, 0x400, RESERVED), (0x10_0000, 0x1F0_0000, USABLE),
      (0xFFFC_0000, 0x4_0000, RESERVED)]  # fmt: skip
TOP = 0xFFFF_F000


def up(address):
    return -(-address // PAGE) * PAGE


def section(name):
    return IMAGE.section(name)


BSS_PAGES = up(section(".bss").size) // PAGE
RUN_BYTES = (BSS_PAGES + TABLE_PAGES + STACK_BYTES // PAGE) * PAGE
BOOT_END = section(".boot").end
IMAGE_PHYSICAL = up(BOOT_END)
STORE_PHYSICAL = IMAGE_PHYSICAL + section(".bss").address - section(".text").address


def taken(store_bytes=TrustStore.SIZE):
    """What the stage puts into the map before it looks for the run."""
    image = (DIRECT_ADDRESS, STORE_PHYSICAL + store_bytes - DIRECT_ADDRESS, OURS)
    return [image, (RECORD_PHYSICAL, KEPT_PAGES * PAGE, OURS)]


TAKEN = taken()


def bounds(base, length):
    """The part below 4 GB, empty when there is none."""
    return (base, min(base + length, TOP)) if base < 1 << 32 and length else (0, 0)


def first_run(regions):
    """Where the run goes: the first usable region with room behind everything in use."""
    taken = [bounds(base, length) for base, length, kind in regions if kind != USABLE]
    for base, length, kind in regions:
        if kind != USABLE:
            continue
        start, end = bounds(base, length)
        candidates = [max(start, LOWEST), *(e for _, e in taken if e > max(start, LOWEST))]
        for at in sorted(up(c) for c in candidates):
            clear = all(at + RUN_BYTES <= s or e <= at for s, e in taken if e > s)
            if clear and at + RUN_BYTES <= end:
                return at
    return None


def refusal(stage):
    assert not stage.finished
    return stage.said.decode()


def test_stage_takes_a_pc_s_memory_and_builds_the_tables():
    stage = DirectStage(PC).run()
    assert stage.finished
    assert stage.said == b""
    run = first_run([*PC, *TAKEN])
    assert stage.regions == [*PC, *TAKEN, (run, RUN_BYTES, OURS)]
    info = stage.info
    assert info["entry_tsc"] == TSC
    assert info["path"] == BootPath.DIRECT
    assert (info["tables"], info["image"]) == (run, IMAGE_PHYSICAL)
    assert (info["nic_known"], info["ack_length"], info["pxe_status"]) == (0, 0, 0)

    # The image lies where the loader put it; no page is both writable and executable.
    present, writable, no_execute = PageBit.PRESENT, PageBit.WRITE, PageBit.NO_EXECUTE
    rights = {
        ".text": present,
        ".rodata": present | no_execute,
        ".data": present | writable | no_execute,
    }
    for name, bits in rights.items():
        where = section(name)
        for page in range(where.address, up(where.end), PAGE):
            physical = IMAGE_PHYSICAL + page - IMAGE_BASE
            assert stage.entry(page) == physical | bits, f"{name} at {page:#x}"
    # .bss, the stack and the tables lie in the run; behind the stack's ends is nothing.
    data = present | writable | no_execute
    bss, stack = run + TABLE_PAGES * PAGE, run + (TABLE_PAGES + BSS_PAGES) * PAGE
    for n in range(BSS_PAGES):
        assert stage.entry(section(".bss").address + n * PAGE) == bss + n * PAGE | data
    for n in range(STACK_BYTES // PAGE):
        assert stage.entry(STACK_TOP - STACK_BYTES + n * PAGE) == stack + n * PAGE | data
    for n in range(TABLE_PAGES):
        assert stage.entry(WINDOW_PAGE_TABLES + n * PAGE) == run + n * PAGE | data
    for beyond in (STACK_TOP, STACK_TOP - STACK_BYTES - PAGE, WINDOW_PAGE_TABLES - PAGE):
        assert not stage.entry(beyond) & present
    # The next instruction after the switch is still fetched from low memory.
    assert stage.entry(0) == present | writable | PageBit.LARGE


@pytest.mark.parametrize("size", [TrustStore.SIZE, PAGE, PAGE + 1, 92 * 1024])
def test_stage_maps_a_trust_store_of_any_length_behind_everything_else(size):
    store = pack(TrustStore, {"magic": TRUST_MAGIC, "size": size})
    stage = DirectStage(PC, store=store + bytes(size - len(store))).run()
    assert stage.finished
    run = first_run([*PC, *taken(size)])
    assert stage.regions == [*PC, *taken(size), (run, RUN_BYTES, OURS)]
    at, pages = section(".trust").address, up(size) // PAGE
    assert at == up(section(".bss").end)
    for n in range(pages):
        rights = PageBit.PRESENT | PageBit.NO_EXECUTE
        assert stage.entry(at + n * PAGE) == STORE_PHYSICAL + n * PAGE | rights
    assert not stage.entry(at + pages * PAGE) & PageBit.PRESENT
    # The stack follows .bss in the run, as without a store.
    stack = run + (TABLE_PAGES + BSS_PAGES) * PAGE
    assert stage.entry(STACK_TOP - STACK_BYTES) & ADDRESS_MASK == stack


ROOMS = st.lists(
    st.tuples(
        st.one_of(st.integers(0, 0x300), st.integers(0, 0x3000)).map(lambda n: n * 0x1000),
        st.one_of(st.integers(0, 0x60), st.integers(0, 0x800)).map(lambda n: n * 0x1000 + n % 3),
        st.sampled_from([USABLE, USABLE, RESERVED, 3, 20]),
    ),
    max_size=8,
)
HIGH = st.lists(
    st.sampled_from(
        [(1 << 32, 1 << 30, USABLE), (0xFF00_0000, 1 << 30, USABLE), (0x20_0000, 1 << 33, USABLE),
         (1 << 32, 1 << 30, RESERVED), (0xFFF0_0000, 0x10_0000, RESERVED), (0x30_0000, 0, USABLE)]
    ),
    max_size=2,
)  # fmt: skip


@settings(max_examples=60)
@given(low=ROOMS, high=HIGH)
def test_stage_any_map_gives_the_first_run_that_nothing_touches(low, high):
    regions = [*low, *high]
    stage = DirectStage(regions)
    stage.run()
    run = first_run([*regions, *TAKEN])
    if run is None:
        assert "no-usable-memory-above-1MB" in refusal(stage)
    else:
        assert stage.finished
        assert stage.regions == [*regions, *TAKEN, (run, RUN_BYTES, OURS)]


@pytest.mark.parametrize(
    "region",
    [
        (0xFFF0_0000, 0x20_0000, RESERVED),  # ends above 4 GB
        (0xFFF0_0000, 0x20_0000, USABLE),
        (0xFFFF_F800, 0x100, USABLE),  # has no whole page below
    ],
)
def test_stage_region_at_the_end_of_32_bits_is_cut(region):
    regions = [region, *PC]
    stage = DirectStage(regions).run()
    assert stage.finished
    assert stage.regions[-1] == (first_run([*regions, *TAKEN]), RUN_BYTES, OURS)


def test_stage_map_that_is_too_long_is_cut_with_room_for_ours():
    regions = [*PC, *((0x4000_0000 + n * PAGE, PAGE, RESERVED) for n in range(REGIONS_MAX))]
    stage = DirectStage(regions).run()
    assert stage.finished
    assert stage.regions[: REGIONS_MAX - 3] == regions[: REGIONS_MAX - 3]
    assert len(stage.regions) == REGIONS_MAX


@pytest.mark.parametrize("given_", [{"magic": 0}, {"flags": 0}])
def test_stage_without_a_loader_s_map_refuses(given_):
    said = refusal(DirectStage(PC, **given_).run())
    assert said == "level=error code=boot.refused reason=no-usable-memory-above-1MB\n"


@pytest.mark.parametrize(
    "cpuid",
    [
        {},
        {0x8000_0000: (0x8000_0000, 0, 0, 0)},
        LONG_MODE_AND_NX | {0x8000_0001: (0, 0, 0, 1 << 29)},
        LONG_MODE_AND_NX | {0x8000_0001: (0, 0, 0, 1 << 20)},
    ],
)
def test_stage_processor_without_long_mode_or_no_execute_refuses(cpuid):
    said = refusal(DirectStage(PC, cpuid=cpuid).run())
    assert said == "level=error code=boot.refused reason=no-64-bit-mode-or-no-execute\n"


def test_stage_masked_address_line_refuses():
    said = refusal(DirectStage(PC, masked=True).run())
    assert said == "level=error code=boot.refused reason=address-line-20-is-masked\n"


def test_stage_equal_words_by_chance_are_no_masked_line():
    stage = DirectStage(PC, alike=True).run()
    assert stage.finished
    whole = DirectStage(PC).quadword(A20_HIGH)
    assert stage.quadword(A20_HIGH) == whole, "the word is put back"


def test_the_bits_that_xmm_instructions_need_are_those_that_the_stage_loads():
    """Intel SDM volume 3, 13.1.3 and 2.5: neither EM nor TS, but OSFXSR and OSXMMEXCPT."""
    assert CR0_BITS & (1 << 2 | 1 << 3) == 0
    assert CR4_BITS >> 9 & 3 == 3
