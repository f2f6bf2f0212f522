"""The processor has three modes."""

from toolchain.asm import Asm, routine


def declare() -> None:
    """Declare a routine that breaks one rule."""

    @routine(bits=8, source="none")  # refused
    def broken(a: Asm) -> None:
        """Never run."""


def refused() -> None:
    declare()


MESSAGE = "{here}: broken: bits=8 is no mode of the processor; use 16, 32 or 64"
