"""An override has the size of what it replaces."""

from toolchain.asm import RAX, Asm, Out, routine
from toolchain.layout.data import constant
from toolchain.link import Linker, SectionPlan

PLAN = (SectionPlan(".text", 0x6000_0000, executable=True), SectionPlan(".rodata", align=16))


BLOB = constant("blob", bytes(4), "configuration")


@routine(outputs=[Out(RAX, "an address")], source="none")
def broken(a: Asm) -> None:
    """Refer to the blob."""
    a.lea(RAX, BLOB.address)
    a.ret()


def refused() -> None:
    Linker((broken,), PLAN, {"blob": b"abc"}).link()


MESSAGE = "blob gets 3 bytes, declared 4; give an override of exactly that size"
