"""A condition needs flags that something set."""

from toolchain.asm import Asm, B, routine


@routine(source="none")
def broken(a: Asm) -> None:
    """Break one rule."""
    with a.if_(B):  # refused
        a.nop()
    a.ret()


def refused() -> None:
    broken.lines()


MESSAGE = (
    "{here}: broken: jae reads cf before anything sets it; set it first, or list it in `inputs`"
)
