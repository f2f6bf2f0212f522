"""The checks of the build as a judge of mutants: what they refuse, and what they cannot see."""

import pytest

from emulator.mutation.build import OFF_THE_END, mutated_lines, refusal
from emulator.mutation.operators import mutants
from tests.support.mutants import ROUTINES, count_small, mutant_of, spin
from toolchain.asm import ECX, Asm, In, Out, Reg32, Z, routine
from toolchain.asm.checks import check


@pytest.mark.parametrize(
    ("key", "says"),
    [
        ("cmp ecx, 0xa -> nop", "jae reads cf before anything sets it"),
        ("jae endif_1 -> nop", "clc can never run"),
        ("mov eax, dword Tally.kept -> nop", "add reads rax before anything sets it"),
        ("mov eax, dword Tally.kept -> mov eax, dword Tally.spare", "reads Tally.spare"),
        ("mov dword Tally.last, ecx -> mov dword Tally.spare, ecx", "writes Tally.spare"),
        ("mov dword Tally.last, ecx -> mov ecx, dword Tally.last", "mov changes rcx"),
        ("ret -> nop #2", "control falls off the end"),
    ],
)
def test_a_mutant_that_breaks_the_contract_is_refused(key, says):
    assert says in refusal(count_small, mutant_of(count_small, key))


@pytest.mark.parametrize(
    "key",
    [
        "cmp ecx, 0xa -> cmp ecx, 0xb",
        "jae endif_1 -> jb endif_1",
        "jae endif_1 -> ja endif_1",
        "clc -> nop",
    ],
)
def test_a_mutant_that_keeps_the_contract_is_taken(key):
    assert refusal(count_small, mutant_of(count_small, key)) == ""


def test_a_dropped_target_hands_its_label_on():
    """`top` is placed before DEC; without it the loop goes round from the jump itself."""
    lines = mutated_lines(spin, mutant_of(spin, "dec ecx -> nop"))
    assert [line.mnemonic for line in lines] == ["jnz", "ret"]
    assert lines[0].target in lines[0].labels


@routine(
    inputs=[In(ECX, int, "a count")], outputs=[Out(ECX, "what is left of it")], source="this test"
)
def down_once(a: Asm, count: Reg32) -> None:
    """Take one off, unless nothing is left; the last instruction is a branch's target."""
    end = a.label("end")
    a.test(count, count)
    a.j(Z, end)
    a.dec(count)
    a.place(end)
    a.ret()


def test_a_routine_without_its_end_is_refused_though_a_branch_goes_there():
    assert refusal(down_once, mutant_of(down_once, "ret -> nop")) == OFF_THE_END


@pytest.mark.parametrize("subject", ROUTINES, ids=lambda r: r.name)
def test_the_original_and_every_mutant_can_be_asked(subject):
    check(subject, list(subject.lines()))
    said = {refusal(subject, mutant) for mutant in mutants(subject)}
    assert len(said) > 1, "some are refused, some are not"
