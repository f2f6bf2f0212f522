"""Sections do not share memory."""

from toolchain.asm import RAX, Asm, Out, routine
from toolchain.layout.data import constant
from toolchain.link import Linker, SectionPlan

PLAN = (SectionPlan(".text", 0x1000, executable=True), SectionPlan(".rodata", 0x1004))


WORD = constant("word", bytes(4), "four bytes")


@routine(outputs=[Out(RAX, "an address")], source="none")
def broken(a: Asm) -> None:
    """Be longer than four bytes."""
    a.lea(RAX, WORD.address)
    a.ret()


def refused() -> None:
    Linker((broken,), PLAN).link()


MESSAGE = (
    "section .rodata (0x1004 to 0x1008) overlaps .text (0x1000 to 0x1008); "
    "give .rodata another address in the plan"
)
