"""`a.loop()` without `with` emits a branch to nowhere, or nothing."""

from toolchain.asm import Asm, routine


@routine(source="none")
def broken(a: Asm) -> None:
    """Break one rule."""
    a.loop()  # refused
    a.ret()


def refused() -> None:
    broken.lines()


MESSAGE = "{here}: broken: loop block is never entered; write it as `with a....:`"
