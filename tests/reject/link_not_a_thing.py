"""Only routines and data go into an image."""

from toolchain.asm import Region
from toolchain.link import Linker, SectionPlan

PLAN = (SectionPlan(".text", 0x6000_0000, executable=True), SectionPlan(".rodata", align=16))


broken = Region("memory", "somewhere")


def refused() -> None:
    Linker((broken,), PLAN).link()  # type: ignore[arg-type]  # the point


MESSAGE = "memory is neither routine nor data; refer to a Routine, Data or LinkerSymbol"
