"""`a.if_(Z)` without `with` emits a branch to nowhere, or nothing."""

from toolchain.asm import Asm, Z, routine


@routine(source="none")
def broken(a: Asm) -> None:
    """Break one rule."""
    a.if_(Z)  # refused
    a.ret()


def refused() -> None:
    broken.lines()


MESSAGE = "{here}: broken: if block is never entered; write it as `with a....:`"
