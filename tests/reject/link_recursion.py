"""The stack has a bound."""

from toolchain.asm import Asm, Routine, routine
from toolchain.layout import Table
from toolchain.link import Linker, SectionPlan

PLAN = (SectionPlan(".text", 0x6000_0000, executable=True), SectionPlan(".rodata", align=16))


def entries() -> tuple[Routine, ...]:
    """Return who may run."""
    return (broken,)


STEPS = Table("steps", 1, entries, "who may run")


@routine(reads=[STEPS], indirect=STEPS.entries, source="none")
def broken(a: Asm) -> None:
    """Call itself through a table."""
    a.call_indirect(STEPS.m64())
    a.ret()


def refused() -> None:
    Linker((broken,), PLAN).link()


MESSAGE = "recursion has no bound on the stack: broken -> broken; turn it into a loop"
