"""A register is saved because it changes."""

from toolchain.asm import R12, Asm, routine


@routine(saves=[R12], source="none")  # refused
def broken(a: Asm) -> None:
    """Break one rule."""
    a.ret()


def refused() -> None:
    broken.lines()


MESSAGE = "{here}: broken: saves r12 but never changes it; remove it from `saves`"
