"""A routine emits something."""

from toolchain.asm import Asm, routine


@routine(source="none")  # refused
def broken(a: Asm) -> None:
    """Emit nothing."""


def refused() -> None:
    broken.lines()


MESSAGE = "{here}: broken: has no instruction; emit at least a.ret()"
