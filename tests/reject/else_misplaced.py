"""`else_` belongs right after its `if_`."""

from toolchain.asm import Asm, Z, routine


@routine(source="none")
def broken(a: Asm) -> None:
    """Break one rule."""
    with a.if_(Z):
        a.nop()
    a.nop()
    with a.else_():  # refused
        a.nop()
    a.ret()


def refused() -> None:
    broken.lines()


MESSAGE = "{here}: broken: else_ does not follow an if_ block; put it right after the block"
