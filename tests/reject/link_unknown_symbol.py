"""The linker names the ends of its own sections only."""

from toolchain.asm import RAX, Asm, Offset, Out, routine
from toolchain.link import Linker, LinkerSymbol, SectionPlan

PLAN = (SectionPlan(".text", 0x6000_0000, executable=True), SectionPlan(".rodata", align=16))


@routine(outputs=[Out(RAX, "an address")], source="none")
def broken(a: Asm) -> None:
    """Refer to the end of a section that is not there."""
    a.mov(RAX, Offset(LinkerSymbol("attic_end")))
    a.ret()


def refused() -> None:
    Linker((broken,), PLAN).link()


MESSAGE = (
    "broken uses attic_end, which no section gives; "
    "name a section of the plan with `_start` or `_end`"
)
