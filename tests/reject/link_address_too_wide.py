"""An address fits its immediate."""

from toolchain.asm import AX, RAX, Asm, Offset, Out, routine
from toolchain.layout.data import constant
from toolchain.link import Linker, SectionPlan

PLAN = (SectionPlan(".text", 0x1000, executable=True), SectionPlan(".rodata", 0x2_0000))


FAR = constant("far_away", bytes(4), "four bytes")


@routine(outputs=[Out(RAX, "an address")], bits=16, source="none")
def broken(a: Asm) -> None:
    """Refer to what lies above 64 KB."""
    a.mov(AX, Offset(FAR))
    a.ret()


def refused() -> None:
    Linker((broken,), PLAN).link()


MESSAGE = (
    "broken: address 0x20000 of far_away does not fit in 2 bytes; "
    "use a wider operand, or place the section lower"
)
