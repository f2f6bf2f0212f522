"""Tiny parsers with one fault each behind three bytes, for the tests of fuzzing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.environment import Environment
from emulator.fuzz.engine import BrokenRuleError, Target
from emulator.fuzz.watch import Watch
from emulator.machine import Machine
from emulator.memory import Region
from emulator.workspace import SECTIONS
from toolchain.asm import (
    AL,
    CL,
    EAX,
    ECX,
    NE,
    NZ,
    RAX,
    RCX,
    RDI,
    RSI,
    Asm,
    B,
    In,
    Reg32,
    Reg64,
    mem8,
    routine,
)
from toolchain.asm.operands import Region as Named
from toolchain.link import Linker

if TYPE_CHECKING:
    from toolchain.asm import Routine

GIVEN, LEFT = Named("the input", "of the test"), Named("the result", "of the test")
MAGIC = b"\x7f\x82\xfe"
INPUT, OUTPUT, PAGE = 0x6A00_0000, 0x6B00_0000, 4096
BUDGET = 300
INPUTS = (
    In(RSI, int, "the input"),
    In(ECX, int, "its bytes"),
    In(RDI, int, "where the result goes, one byte"),
)


def _guarded(a: Asm) -> None:
    """Go on only with MAGIC at the beginning of the input."""
    good, bad = a.label("good"), a.label("bad")
    a.cmp(ECX, len(MAGIC))
    a.j(B, bad)
    for at, byte in enumerate(MAGIC):  # unrolled: three bytes
        a.cmp(mem8(RSI, at, ref=GIVEN), byte)
        a.j(NE, bad)
    a.jmp(good)
    a.place(bad)
    a.mov(mem8(RDI, ref=LEFT), CL)
    a.ret()
    a.place(good)


@routine(inputs=INPUTS, clobbers=[RAX], reads=[GIVEN], writes=[LEFT], source="tests")
def reads_beyond(a: Asm, data: Reg64, length: Reg32, result: Reg64) -> None:
    """Look at the byte behind the input."""
    _guarded(a)
    a.mov(EAX, length)
    a.mov(AL, mem8(data, index=RAX, ref=GIVEN))
    a.mov(mem8(result, ref=LEFT), AL)
    a.ret()


@routine(inputs=INPUTS, reads=[GIVEN], writes=[LEFT], source="tests")
def stores_beside(a: Asm, data: Reg64, length: Reg32, result: Reg64) -> None:
    """Store one byte behind the result."""
    _guarded(a)
    a.mov(mem8(result, 1, ref=LEFT), CL)
    a.ret()


@routine(inputs=INPUTS, clobbers=[RCX], reads=[GIVEN], writes=[LEFT], source="tests")
def never_ends(a: Asm, data: Reg64, length: Reg32, result: Reg64) -> None:
    """Count down from one less than nothing."""
    _guarded(a)
    a.mov(ECX, 0)
    with a.loop() as top:
        a.dec(length)
        a.again(NZ, top)
    a.ret()


@routine(inputs=INPUTS, reads=[GIVEN], writes=[LEFT], source="tests")
def leaves_nonsense(a: Asm, data: Reg64, length: Reg32, result: Reg64) -> None:
    """Leave a result that is none."""
    _guarded(a)
    a.mov(mem8(result, ref=LEFT), 0xEE)
    a.ret()


def target(parser: Routine) -> Target:
    """Return a target that calls a parser; a result of 0xEE breaks its rule."""
    image = Linker((parser,), SECTIONS).link()
    machine = Machine(image, (Region("input", INPUT, PAGE), Region("output", OUTPUT, PAGE)))
    machine.environment = Environment(recording=False)
    watch = Watch(machine, lambda placed: placed.thing is parser, BUDGET)

    def run(data: bytes) -> None:
        at = INPUT + PAGE - len(data)
        if data:
            machine.write(at, data)
        machine.call(parser.name, {"rsi": at, "rcx": len(data), "rdi": OUTPUT})
        if machine.read(OUTPUT, 1) == b"\xee":
            raise BrokenRuleError("nonsense is left")

    places = [(INPUT, PAGE), (OUTPUT, 1)]
    return Target(parser.name, machine, run, [b"abc"], watch, places, 64)
