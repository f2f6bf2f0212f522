"""Branch sizes, fixups and labels."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.forms import linked, nasm, unchecked
from tests.support.program import BOOT_NOTE, ENGINE, GREETING, boot_protected, main, step_sub
from toolchain.asm import NZ, RAX, RSI, Asm, Offset, Z, mem8
from toolchain.asm.assemble import assemble
from toolchain.asm.operands import Region
from toolchain.link.flat import flat
from toolchain.listing import image_listing

PLACE = Region("place", "anywhere")


def unit(a: Asm):
    a.finish()
    return assemble(unchecked("forms", a.lines, a.bits))


def test_backward_branch_reaches_128_bytes():
    for filling, opcode in ((126, "75"), (127, "0f85")):
        a = Asm("loop")
        top = a.label("top")
        a.place(top)
        for _ in range(filling):
            a.nop()
        a.j(NZ, top)
        a.ret()
        assert unit(a).code[filling:].hex().startswith(opcode)


def test_growing_one_branch_can_make_another_too_long():
    a = Asm("chain")
    one, two = a.label("one"), a.label("two")
    a.j(Z, one)
    for _ in range(124):
        a.nop()
    a.j(Z, two)  # grows to six bytes and moves `one` out of reach
    a.place(one)
    for _ in range(200):
        a.nop()
    a.place(two)
    a.ret()
    assert unit(a).code[:2].hex() == "0f84"


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 70), st.integers(0, 11), st.booleans()), min_size=12, max_size=12
    )
)
def test_branches_assemble_in_nasm(blocks):
    a = Asm("forms")
    labels = [a.label(f"l{n}") for n in range(12)]
    for label, (filling, target, conditional) in zip(labels, blocks, strict=True):
        a.place(label)
        for _ in range(filling):
            a.nop()
        if conditional:
            a.j(NZ, labels[target])
        else:
            a.jmp(labels[target])
    a.ret()
    a.finish()
    image = linked(a.lines, 64)
    assert nasm(image_listing(image)) == flat(image)


def test_fixups_name_symbol_place_and_base():
    a = Asm("fixups")
    a.mov(RAX, ENGINE.it.total)
    a.cmp(ENGINE.it.mode, 1)
    a.lea(RSI, GREETING.address)
    a.mov(RAX, Offset(GREETING, 2))
    got = unit(a)
    assert [(f.offset, f.size, f.symbol, f.addend, f.base) for f in got.fixups] == [
        (3, 4, ENGINE, 0x10, 7),
        (9, 4, ENGINE, 0, 14),  # the immediate comes after the displacement
        (17, 4, GREETING, 0, 21),
        (23, 8, GREETING, 2, None),
    ]
    assert got.offsets == [0, 7, 14, 21]


def test_fixups_of_16_and_32_bit_code_are_absolute():
    got = assemble(boot_protected)
    assert [(f.size, f.base) for f in got.fixups] == [(4, None)] * 5
    assert got.fixups[0].symbol is BOOT_NOTE
    assert got.fixups[-1].symbol is main


def test_tail_jump_is_a_near_jump_with_a_relative_fixup():
    got = assemble(step_sub)
    assert got.code[-5:].hex() == "e900000000"
    assert got.fixups[-1].base == len(got.code)


def test_offsets_are_where_instructions_start():
    got = assemble(main)
    assert got.offsets[0] == 0
    assert all(a < b for a, b in itertools.pairwise(got.offsets))
    assert len(got.offsets) == len(main.lines())


def test_memory_text_shows_nasm_syntax():
    assert str(mem8(RSI, -4, ref=PLACE)) == "byte [rsi-0x4]"
    assert str(ENGINE.it.total) == "qword [rel engine+0x10]"
