"""Code behind a jump that nothing reaches is a mistake."""

from toolchain.asm import Asm, routine


@routine(source="none")
def broken(a: Asm) -> None:
    """Break one rule."""
    a.ret()
    a.nop()  # refused
    a.ret()


def refused() -> None:
    broken.lines()


MESSAGE = "{here}: broken: nop can never run; remove it, or jump to it from somewhere"
