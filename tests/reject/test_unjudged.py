"""Forms that Unicorn runs wrong are refused: nothing could prove a routine that uses one."""

import re

import iced_x86 as ix
import pytest

from toolchain.asm import EAX, ECX, RAX, RCX, Asm, AsmError, Reg64, routine
from toolchain.asm.routine import In, Out
from toolchain.asm.unjudged import UNICORN_DEFECTS, unicorn_defect


def emit(name):
    """Return a routine of `RAX = f(RAX, RCX)` whose body is one instruction form."""
    bodies = {
        "blsi": lambda a: a.blsi(RAX, RCX),
        "bzhi": lambda a: a.bzhi(RAX, RAX, RCX),
        "bextr": lambda a: a.bextr(RAX, RAX, RCX),
        "pdep": lambda a: a.pdep(EAX, EAX, ECX),
        "cmpxchg": lambda a: a.cmpxchg(ECX, EAX),
    }

    @routine(
        inputs=[In(RAX, int, "first"), In(RCX, int, "second")],
        outputs=[Out(RAX, "result")],
        clobbers=[RCX] if name == "cmpxchg" else [],
        source="tests",
    )
    def refused(a: Asm, first: Reg64, second: Reg64) -> None:
        bodies[name](a)
        a.ret()

    return refused


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("blsi", "CF is inverted"),
        ("bzhi", "an index of size - 1 or more clears the top bit or misreports CF"),
        ("bextr", "a start or length at the operand size loses or keeps wrong bits"),
        ("pdep", "the 32-bit form does not clear the upper half"),
        ("cmpxchg", "an unequal 32-bit register destination loses its upper half"),
    ],
)
def test_a_form_that_unicorn_runs_wrong_is_refused(name, reason):
    with pytest.raises(AsmError) as e:
        emit(name).lines()
    wanted = rf"test_unjudged\.py:\d+: refused: {name} in this form cannot be proved, "
    assert re.search(
        wanted + re.escape(f"Unicorn runs it wrong: {reason}; use other"), str(e.value)
    )


def test_a_form_beside_a_defect_is_taken():
    """PDEP with 64 bits is good; so the table names forms, not mnemonics."""

    @routine(
        inputs=[In(RAX, int, "first"), In(RCX, int, "second")],
        outputs=[Out(RAX, "result")],
        source="tests",
    )
    def good(a: Asm, first: Reg64, second: Reg64) -> None:
        a.pdep(RAX, RAX, RCX)
        a.ret()

    assert [line.mnemonic for line in good.lines()] == ["pdep", "ret"]


@pytest.mark.parametrize(
    ("code", "refused"),
    [
        ("f0f718", True),  # lock neg [rax]
        ("f718", False),
        ("0fa40500000000 03", True),  # shld [rip], eax, 3
        ("0fa400 03", False),  # shld [rax], eax, 3
        ("0fa50500000000", False),  # shld [rip], eax, cl
        ("c4e37bf00500000000 07", True),  # rorx eax, [rip], 7
        ("c20080", True),  # ret 8000h
        ("c20800", False),
    ],
)
def test_the_table_knows_the_forms(code, refused):
    ins = ix.Decoder(64, bytes.fromhex(code), ip=0x1000).decode()
    assert ins.mnemonic in UNICORN_DEFECTS
    assert bool(unicorn_defect(ins)) is refused
