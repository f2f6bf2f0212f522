"""A result is no clobber."""

from toolchain.asm import EAX, RAX, Asm, Out, routine


def declare() -> None:
    """Declare a routine that breaks one rule."""

    @routine(outputs=[Out(EAX, "a value")], clobbers=[RAX], source="none")  # refused
    def broken(a: Asm) -> None:
        """Never run."""


def refused() -> None:
    declare()


MESSAGE = "{here}: broken: rax is an output and a clobber; list it once, as an output"
