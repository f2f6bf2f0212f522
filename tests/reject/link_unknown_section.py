"""Every section is in the plan."""

from toolchain.asm import Asm, routine
from toolchain.link import Linker, SectionPlan

PLAN = (SectionPlan(".text", 0x6000_0000, executable=True), SectionPlan(".rodata", align=16))


@routine(section=".attic", source="none")
def broken(a: Asm) -> None:
    """Lie nowhere."""
    a.ret()


def refused() -> None:
    Linker((broken,), PLAN).link()


MESSAGE = (
    "broken wants section .attic, which the plan lacks; "
    "use one of .rodata, .text, or add it to the plan"
)
