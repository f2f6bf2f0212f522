"""The contract lists no call that is not made."""

from toolchain.asm import Asm, routine


@routine(source="none")
def callee(a: Asm) -> None:
    """Do nothing."""
    a.ret()


@routine(calls=[callee], source="none")  # refused
def broken(a: Asm) -> None:
    """Break one rule."""
    a.ret()


def refused() -> None:
    broken.lines()


MESSAGE = "{here}: broken: lists callee in `calls` but never calls it; remove it"
