"""The ends of sections have names already."""

from toolchain.asm import Asm, routine
from toolchain.link import Linker, SectionPlan

PLAN = (SectionPlan(".text", 0x6000_0000, executable=True), SectionPlan(".rodata", align=16))


@routine(source="none")
def text_start(a: Asm) -> None:
    """Take a name of the linker's."""
    a.ret()


def refused() -> None:
    Linker((text_start,), PLAN).link()


MESSAGE = "text_start is the linker's own name for an end of .text; rename yours"
