"""Placement, reachability, fixups and stack depth of linked images."""

import pytest

from tests.support.program import BASE, BOOT, ENGINE, PLAN, STEPS, boot_entry, program
from toolchain.asm import RAX, RBX, RCX, Asm, In, Offset, Out, Reg64, routine
from toolchain.layout import Data
from toolchain.layout.data import constant
from toolchain.link import Linker, LinkerSymbol, SectionPlan

IMAGE = program()
CODE = (SectionPlan(".text", 0x1000, executable=True, filler=0xCC), SectionPlan(".bss", align=4096))
UNUSED = constant("unused", b"nobody asks for this", "nothing")


@routine(inputs=[In(RBX, int, "kept")], clobbers=[RAX], source="none")
def leaf(a: Asm, kept: Reg64) -> None:
    """Push once."""
    a.push(kept)
    a.pop(RAX)
    a.ret()


@routine(
    inputs=[In(RBX, int, "kept")],
    calls=[leaf],
    clobbers=[RAX],
    saves=[RBX],
    stack=32,
    source="none",
)
def middle(a: Asm, kept: Reg64) -> None:
    """Use 40 bytes and call."""
    a.call(leaf)
    a.inc(kept)
    a.mov(a.local(8), kept)
    a.ret()


@routine(inputs=[In(RBX, int, "kept")], calls=[leaf], clobbers=[RAX], source="none")
def tail(a: Asm, kept: Reg64) -> None:
    """Go on elsewhere: no return address of its own."""
    a.jmp(leaf)


@routine(
    inputs=[In(RBX, int, "kept")], calls=[middle, tail], clobbers=[RAX], source="none", align=64
)
def top(a: Asm, kept: Reg64) -> None:
    """Call both."""
    a.call(tail)
    a.call(middle)
    a.ret()


def test_stack_is_the_deepest_path_with_return_addresses():
    image = Linker((top,), CODE).link()
    # leaf pushes 8; middle 8 + 32, then 8 + 8; tail none; top 8 for the return address of middle.
    assert image.stack == {"leaf": 8, "middle": 56, "tail": 8, "top": 64}


def test_roots_come_first_and_what_nobody_reaches_is_left_out():
    image = Linker((leaf, top), CODE).link()
    assert image.address(leaf) == 0x1000
    assert image.entry == 0x1000
    assert "unused" not in image.symbols
    kept = Linker((leaf,), (*CODE, SectionPlan(".rodata")), keep=(UNUSED,)).link()
    assert "unused" in kept.symbols


def test_alignment_is_filled_with_the_filler():
    image = Linker((leaf, top), CODE).link()
    assert image.address(top) % 64 == 0
    text = image.section(".text").contents
    gap = text[image.symbols["leaf"].size : image.address(top) - 0x1000]
    assert gap
    assert set(gap) == {0xCC}


def test_whole_pages_come_first_so_that_no_hole_lies_before_them():
    small, page = (
        Data(name, size, bytes(size), align=align, section=".rodata")
        for name, size, align in (("small", 100, 8), ("page", 4096, 4096))
    )
    plan = (*CODE, SectionPlan(".rodata", align=4096))
    image = Linker((leaf,), plan, keep=(small, page)).link()
    rodata = image.section(".rodata")
    assert (image.address(page), image.address(small)) == (rodata.address, rodata.address + 4096)
    assert rodata.size == 4096 + 100


def test_sections_follow_the_plan():
    boot, text, rodata, data, bss = IMAGE.sections
    assert (boot.address, boot.bits, boot.executable) == (BOOT, 16, True)
    assert (text.address, text.executable, text.writable) == (BASE, True, False)
    assert rodata.address == -(-text.end // 64) * 64
    assert data.address % 4096 == bss.address % 4096 == 0
    assert bss.contents == b""
    assert bss.size == 64 + 40
    assert IMAGE.entry == IMAGE.address(boot_entry) == BOOT


def test_symbols_name_the_ends_of_sections():
    for section in IMAGE.sections:
        stem = section.name.lstrip(".")
        assert IMAGE.address(f"{stem}_start") == section.address
        assert IMAGE.address(f"{stem}_end") == section.end


def test_tables_hold_addresses():
    rodata = IMAGE.section(".rodata")
    start = IMAGE.address(STEPS) - rodata.address
    entries = [
        int.from_bytes(rodata.contents[n : n + 8], "little") for n in range(start, start + 16, 8)
    ]
    assert entries == [IMAGE.address("step_add"), IMAGE.address("step_sub")]


def test_overrides_replace_contents_of_the_same_size():
    image = Linker((boot_entry,), PLAN, {"boot_note": b"READY"}).link()
    boot = image.section(".boot")
    start = image.address("boot_note") - boot.address
    assert boot.contents[start : start + 5] == b"READY"


@pytest.mark.parametrize("contents", [b"head", b"head and anything behind it"])
def test_data_that_grows_has_the_size_of_its_override(contents):
    store = Data("store", 4, b"none", section=".tail", doc="a head and more", grows=True)
    plan = (*CODE, SectionPlan(".tail"))
    image = Linker((leaf,), plan, {"store": contents}, keep=(store,)).link()
    assert image.section(".tail").contents == contents
    assert image.symbols["store"].size == len(contents)
    plain = Linker((leaf,), plan, keep=(store,)).link()
    assert plain.section(".tail").contents == b"none"
    assert plain.sections[:-1] == image.sections[:-1]


@pytest.mark.parametrize(("disp", "size"), [(0, 8), (8, 8), (-8, 8)])
def test_rip_relative_displacements_reach_the_symbol(disp, size):
    word = Data("word", 32, doc="four words")

    @routine(outputs=[Out(RAX, "a word")], reads=[word], source="none")
    def loads(a: Asm) -> None:
        """Load one."""
        a.mov(RAX, word.m64(16 + disp))
        a.ret()

    image = Linker((loads,), CODE).link()
    code = image.section(".text").contents
    assert code[:3].hex() == "488b05"
    assert 0x1007 + int.from_bytes(code[3:7], "little") == image.address(word) + 16 + disp
    assert size == 8


def test_absolute_addresses_of_linker_symbols():
    @routine(outputs=[Out(RCX, "an address")], source="none")
    def where(a: Asm) -> None:
        """Tell where the code ends."""
        a.mov(RCX, Offset(LinkerSymbol("text_end"), -1))
        a.ret()

    image = Linker((where,), CODE).link()
    code = image.section(".text").contents
    assert int.from_bytes(code[2:10], "little") == 0x1000 + len(code) - 1


def test_symbol_at_and_lines_explain_every_code_address():
    for section in IMAGE.sections:
        if not section.executable:
            continue
        for address in range(section.address, section.end):
            placed = IMAGE.symbol_at(address)
            if placed is None:
                assert section.contents[address - section.address] in (0xCC, 0x90)
            else:
                assert placed.address <= address < placed.address + placed.size
    assert IMAGE.symbol_at(IMAGE.address(ENGINE) + 3) == IMAGE.symbols["engine"]
    assert IMAGE.symbol_at(0) is None
    routines = {row[3] for row in IMAGE.lines}
    assert routines == {p.name for p in IMAGE.routines()}
