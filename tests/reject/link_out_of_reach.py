"""RIP-relative operands reach 2 GB."""

from toolchain.asm import RAX, Asm, Out, routine
from toolchain.layout.data import constant
from toolchain.link import Linker, SectionPlan

PLAN = (SectionPlan(".text", 0x1000, executable=True), SectionPlan(".rodata", 0x1_0000_0000))


FAR = constant("far_away", bytes(4), "four bytes")


@routine(outputs=[Out(RAX, "an address")], source="none")
def broken(a: Asm) -> None:
    """Refer to what lies 4 GB away."""
    a.lea(RAX, FAR.address)
    a.ret()


def refused() -> None:
    Linker((broken,), PLAN).link()


MESSAGE = "broken: far_away is out of reach; place their sections closer together"
