"""A register carries one thing."""

from toolchain.asm import EBX, RBX, Asm, In, Reg32, Reg64, routine


def declare() -> None:
    """Declare a routine that breaks one rule."""

    @routine(inputs=[In(RBX, int, "x"), In(EBX, int, "y")], source="none")  # refused
    def broken(a: Asm, x: Reg64, y: Reg32) -> None:
        """Never run."""


def refused() -> None:
    declare()


MESSAGE = "{here}: broken: rbx is listed twice in `inputs`; list it once"
