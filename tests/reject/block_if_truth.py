"""`if a.if_(...)` would emit nothing and always be true."""

from toolchain.asm import Asm, Z, routine


@routine(source="none")
def broken(a: Asm) -> None:
    """Break one rule."""
    if a.if_(Z):
        a.nop()
    a.ret()


def refused() -> None:
    broken.lines()


MESSAGE = "a block has no truth value at build time; write `with a.if_(...):`"
