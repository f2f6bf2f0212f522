"""Code is aligned to powers of two."""

from toolchain.asm import Asm, routine


def declare() -> None:
    """Declare a routine that breaks one rule."""

    @routine(align=24, source="none")  # refused
    def broken(a: Asm) -> None:
        """Never run."""


def refused() -> None:
    declare()


MESSAGE = "{here}: broken: align=24 is not a power of two; use 1, 2, 4, 8, 16, 32 or 64"
