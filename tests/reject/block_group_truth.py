"""`if a.block()` would always be true."""

from toolchain.asm import Asm, routine


@routine(source="none")
def broken(a: Asm) -> None:
    """Break one rule."""
    if a.block():
        a.nop()
    a.ret()


def refused() -> None:
    broken.lines()


MESSAGE = "a block has no truth value at build time; write `with a.block() as out:`"
