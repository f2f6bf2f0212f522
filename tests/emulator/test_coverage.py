"""Coverage counts instructions and both ways of each conditional branch, per routine."""

import pytest
from hypothesis import currently_in_test_context, given
from hypothesis import strategies as st

from emulator import coverage as module
from emulator.coverage import Coverage, add_run, branch_table, note_drawing, process_coverage
from toolchain.asm import ECX, NZ, RCX, Asm, In, Reg32, routine
from toolchain.link import Linker, SectionPlan

BASE = 0x6000_0000


@routine(source="tests")
def last(a: Asm) -> None:
    """Return."""
    a.ret()


@routine(inputs=[In(ECX, int, "turns")], clobbers=[RCX], calls=[last], source="tests")
def turn(a: Asm, turns: Reg32) -> None:
    """Count down, then leave through another routine."""
    again = a.label("again")
    a.place(again)
    a.dec(turns)
    a.jnz(again)
    a.jmp(last)


IMAGE = Linker((turn, last), (SectionPlan(".text", BASE, executable=True),)).link()
TURN, LAST = IMAGE.symbols["turn"].address, IMAGE.symbols["last"].address
DEC, JNZ, JMP = TURN, TURN + 2, TURN + 4


def trace(*addresses):
    coverage = Coverage()
    coverage.add_trace(IMAGE, list(addresses))
    return coverage


def test_the_table_counts_instructions_and_branches():
    table = branch_table(IMAGE)
    assert table.totals == {"turn": (3, 1), "last": (1, 0)}
    assert table.branches == {JNZ: JMP}
    assert table.places[JMP] == ("turn", 4)
    assert branch_table(IMAGE) is table


def test_a_branch_is_taken_or_passed():
    assert trace(DEC, JNZ, DEC).directions["turn"] == {(2, True)}
    assert trace(DEC, JNZ, JMP).directions["turn"] == {(2, False)}
    assert trace(DEC, JNZ).directions["turn"] == set()


def test_a_tail_jump_is_no_branch():
    coverage = trace(DEC, JNZ, JMP, LAST)
    assert coverage.directions["turn"] == {(2, False)}
    assert coverage.executed["turn"] == {0, 2, 4}
    assert coverage.executed["last"] == {0}


def test_addresses_outside_the_routines_do_not_count():
    coverage = trace(0x1234, DEC)
    assert dict(coverage.executed) == {"turn": {0}}
    coverage = Coverage()
    coverage.add_executed(IMAGE, [0x1234, JMP])
    assert dict(coverage.executed) == {"turn": {4}}
    assert not coverage.directions


def test_records_add_up():
    coverage = trace(DEC, JNZ, DEC)
    coverage.merge(trace(DEC, JNZ, JMP, LAST))
    assert coverage.directions["turn"] == {(2, True), (2, False)}
    assert coverage.executed["last"] == {0}


@pytest.mark.parametrize("first", [trace(DEC, JNZ, DEC), Coverage()])
def test_a_record_survives_the_file(first, tmp_path):
    path = tmp_path / "coverage.json"
    first.save(path)
    again = Coverage.load(path)
    assert dict(again.executed) == dict(first.executed)
    assert dict(again.directions) == dict(first.directions)


def test_two_links_of_a_routine_add_up():
    other = Linker((last, turn), (SectionPlan(".text", BASE + 0x100, executable=True),)).link()
    coverage = trace(DEC)
    coverage.add_trace(other, [other.symbols["turn"].address + 2])
    assert coverage.executed["turn"] == {0, 2}


def test_what_stands_in_a_routines_place_proves_nothing_of_it():
    @routine(inputs=[In(ECX, int, "turns")], source="tests")
    def stub(a: Asm, turns: Reg32) -> None:
        """Count nothing."""
        a.test(turns, turns)
        with a.if_(NZ):
            a.nop()
        a.ret()

    sections = (SectionPlan(".text", BASE, executable=True),)
    stub.name = "turn"
    image = Linker((turn, last), sections, replace={"turn": stub}).link()
    at = image.symbols["turn"].address
    coverage = Coverage()
    coverage.add_trace(image, [at, at + 2, at + 4, image.symbols["last"].address])
    assert dict(coverage.executed) == {"last": {0}}
    assert not coverage.directions


@pytest.fixture
def process(monkeypatch):
    for name in ("_FIXED", "_DRAWN"):
        monkeypatch.setattr(module, name, Coverage())
    monkeypatch.setattr(module, "_drawing", [])
    return lambda: [dict(process_coverage(drawn=drawn).executed) for drawn in (False, True)]


def test_a_run_is_fixed_until_somebody_tells_drawn_ones_apart(process):
    add_run(IMAGE, [DEC])
    note_drawing(lambda: True)
    add_run(IMAGE, [JNZ])
    assert process() == [{"turn": {0}}, {"turn": {2}}]


def test_a_drawn_example_is_told_from_what_surrounds_it(process):
    note_drawing(currently_in_test_context)

    @given(st.integers())
    def draw(_number):
        add_run(IMAGE, [JNZ])

    draw()
    add_run(IMAGE, [LAST])
    assert process() == [{"last": {0}}, {"turn": {2}}]
