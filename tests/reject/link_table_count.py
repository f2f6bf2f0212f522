"""A table has as many entries as it declares."""

from toolchain.asm import Asm, routine
from toolchain.layout import Table
from toolchain.link import Linker, SectionPlan

PLAN = (SectionPlan(".text", 0x6000_0000, executable=True), SectionPlan(".rodata", align=16))


@routine(source="none")
def step(a: Asm) -> None:
    """Do nothing."""
    a.ret()


STEPS = Table("steps", 2, lambda: (step,), "who may run")


@routine(reads=[STEPS], indirect=STEPS.entries, source="none")
def broken(a: Asm) -> None:
    """Call through a table."""
    a.call_indirect(STEPS.m64())
    a.ret()


def refused() -> None:
    Linker((broken,), PLAN).link()


MESSAGE = "table steps has 1 entries, declared 2; give `count` and `entries` of the same length"
