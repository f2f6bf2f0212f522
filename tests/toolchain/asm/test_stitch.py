"""Runs of instructions that are woven into one."""

import pytest

from toolchain.asm import RAX, RCX, XMM0, XMM1, Asm, AsmError
from toolchain.asm.stitch import stitch


def woven(a, one, other):
    stitch(a, lambda: [emit() for emit in one], lambda: [emit() for emit in other])
    return [line.mnemonic for line in a.lines]


def test_each_run_keeps_its_order_and_the_second_is_spread_evenly():
    a = Asm("woven")
    top = a.label("top")
    a.place(top)
    one = [lambda n=n: a.paddd(XMM0, XMM0) for n in range(4)]
    other = [lambda: a.psubd(XMM1, XMM1), lambda: a.pand(XMM1, XMM1)]
    assert woven(a, one, other) == ["paddd", "paddd", "psubd", "paddd", "paddd", "pand"]
    assert a.lines[0].labels == [top]


def test_the_longer_run_may_be_the_second():
    a = Asm("woven")
    other = [lambda n=n: a.psubd(XMM1, XMM1) for n in range(5)]
    assert woven(a, [lambda: a.paddd(XMM0, XMM0)] * 2, other) == [
        *("paddd", "psubd", "psubd"),
        *("paddd", "psubd", "psubd", "psubd"),
    ]


def test_flags_are_shared_too():
    a = Asm("woven")
    with pytest.raises(AsmError, match="both stitched runs use"):
        woven(a, [lambda: a.inc(RAX)], [lambda: a.inc(RCX)])
