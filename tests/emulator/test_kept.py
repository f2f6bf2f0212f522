"""Which registers a routine keeps: each other one may change, none of these may."""

import pytest

from emulator.kept import changed
from emulator.registers import GPR
from toolchain.asm import EAX, RCX, XMM1, Asm, Out, routine

GENERAL = list(range(100, 118))
HALVES = list(range(200, 232))
GIVEN_AWAY = ("rax", "rcx", "rsp", "xmm1")


@routine(outputs=[Out(EAX, "a number")], clobbers=[RCX, XMM1], source="tests")
def some(a: Asm) -> None:
    """Give away two general registers and a vector."""
    a.xor(EAX, EAX)
    a.ret()


def told(place, halves=False):
    registers, vectors = list(GENERAL), list(HALVES)
    (vectors if halves else registers)[place] += 1
    return changed(some, (GENERAL, HALVES), (registers, vectors))


def test_nothing_changed():
    assert changed(some, (GENERAL, HALVES), (list(GENERAL), list(HALVES))) == ""


@pytest.mark.parametrize("number", range(16))
def test_each_general_register(number):
    what = f"{GPR[number]} changed from {100 + number:#x} to {101 + number:#x}"
    assert told(number) == ("" if GPR[number] in GIVEN_AWAY else what)


@pytest.mark.parametrize("half", [0, 1])
@pytest.mark.parametrize("number", range(16))
def test_each_half_of_each_vector(number, half):
    what = told(2 * number + half, halves=True)
    assert what.startswith(f"xmm{number} changed from 0x" if number != 1 else "")
    assert bool(what) == (number != 1)


def test_rip_and_flags_are_not_its_matter():
    assert told(16) == told(17) == ""
