"""LEA knows nothing of a segment's base."""

from tests.support.program import Engine
from toolchain.asm import GS, RAX, Asm, Out, routine


@routine(outputs=[Out(RAX, "an address")], source="none")
def broken(a: Asm) -> None:
    """Break one rule."""
    a.lea(RAX, Engine.in_segment(GS).total)  # refused
    a.ret()


def refused() -> None:
    broken.lines()


MESSAGE = "{here}: broken: lea ignores the base of gs; take the address from the global's symbol"
