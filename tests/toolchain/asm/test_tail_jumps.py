"""A conditional jump to another routine: it reads flags, and whoever falls through sees no effect."""

import re

import pytest

from toolchain.asm import EAX, ECX, RAX, RCX, Asm, AsmError, In, Out, Reg32, Z, routine


@routine(outputs=[Out(RAX, "one")], source="tests")
def one(a: Asm) -> None:
    """Return one."""
    a.mov(EAX, 1)
    a.ret()


def test_the_flags_of_a_conditional_tail_jump_are_used():
    @routine(
        inputs=[In(ECX, int, "a number")],
        outputs=[Out(RAX, "one, or the number")],
        calls=[one],
        source="tests",
    )
    def one_or_number(a: Asm, number: Reg32) -> None:
        """Return one for zero."""
        a.test(number, number)
        a.j(Z, one)
        a.mov(EAX, number)
        a.ret()

    assert [line.mnemonic for line in one_or_number.lines()] == ["test", "jz", "mov", "ret"]


def test_an_output_of_the_target_is_not_there_when_it_falls_through():
    @routine(
        inputs=[In(ECX, int, "a number")],
        outputs=[Out(RAX, "one")],
        calls=[one],
        source="tests",
    )
    def refused(a: Asm, number: Reg32) -> None:
        """Forget the other case."""
        a.test(number, number)
        a.j(Z, one)
        a.ret()

    with pytest.raises(AsmError) as e:
        refused.lines()
    wanted = r"test_tail_jumps\.py:\d+: refused: returns without having set rax; "
    assert re.search(wanted + "set the output on every path", str(e.value))


def test_flags_must_be_set_before_a_conditional_tail_jump():
    @routine(outputs=[Out(RAX, "one")], clobbers=[RCX], calls=[one], source="tests")
    def refused(a: Asm) -> None:
        """Jump by flags of the caller."""
        a.j(Z, one)
        a.mov(ECX, 2)
        a.mov(EAX, ECX)
        a.ret()

    with pytest.raises(AsmError, match="refused: jz reads zf before anything sets it"):
        refused.lines()
