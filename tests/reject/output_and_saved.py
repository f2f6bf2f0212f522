"""The epilogue would undo a saved result."""

from toolchain.asm import R12, Asm, Out, routine


def declare() -> None:
    """Declare a routine that breaks one rule."""

    @routine(outputs=[Out(R12, "a value")], saves=[R12], source="none")  # refused
    def broken(a: Asm) -> None:
        """Never run."""


def refused() -> None:
    declare()


MESSAGE = "{here}: broken: r12 is saved and an output; the epilogue would undo it; save another"
