"""Locals keep the stack in quadwords."""

from toolchain.asm import Asm, routine


def declare() -> None:
    """Declare a routine that breaks one rule."""

    @routine(stack=12, source="none")  # refused
    def broken(a: Asm) -> None:
        """Never run."""


def refused() -> None:
    declare()


MESSAGE = "{here}: broken: stack=12 is not a multiple of 8; use stack=16"
