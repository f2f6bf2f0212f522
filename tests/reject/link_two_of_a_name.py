"""Names are unique in an image."""

from toolchain.asm import RAX, RCX, Asm, Out, routine
from toolchain.layout.data import constant
from toolchain.link import Linker, SectionPlan

PLAN = (SectionPlan(".text", 0x6000_0000, executable=True), SectionPlan(".rodata", align=16))


ONE = constant("table", b"1", "one")
OTHER = constant("table", b"2", "another")


@routine(outputs=[Out(RAX, "an address"), Out(RCX, "another")], source="none")
def broken(a: Asm) -> None:
    """Refer to two things of one name."""
    a.lea(RAX, ONE.address)
    a.lea(RCX, OTHER.address)
    a.ret()


def refused() -> None:
    Linker((broken,), PLAN).link()


MESSAGE = "two things are named table; rename one"
