"""An override of data that grows may be longer, not shorter."""

from toolchain.asm import RAX, Asm, Out, routine
from toolchain.layout import Data
from toolchain.link import Linker, SectionPlan

PLAN = (SectionPlan(".text", 0x6000_0000, executable=True), SectionPlan(".rodata", align=16))


STORE = Data("store", 4, bytes(4), section=".rodata", doc="four bytes and what follows", grows=True)


@routine(outputs=[Out(RAX, "an address")], source="none")
def broken(a: Asm) -> None:
    """Refer to the store."""
    a.lea(RAX, STORE.address)
    a.ret()


def refused() -> None:
    Linker((broken,), PLAN, {"store": b"abc"}).link()


MESSAGE = "store gets 3 bytes, declared 4; give an override of at least that size"
