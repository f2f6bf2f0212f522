"""Control leaves by `ret` or a jump."""

from toolchain.asm import Asm, routine


@routine(source="none")
def broken(a: Asm) -> None:
    """Break one rule."""
    a.nop()  # refused


def refused() -> None:
    broken.lines()


MESSAGE = "{here}: broken: control falls off the end; end with a.ret() or a jump"
