"""A saved register comes back."""

from toolchain.asm import R12, Asm, routine


def declare() -> None:
    """Declare a routine that breaks one rule."""

    @routine(clobbers=[R12], saves=[R12], source="none")  # refused
    def broken(a: Asm) -> None:
        """Never run."""


def refused() -> None:
    declare()


MESSAGE = "{here}: broken: r12 is saved and a clobber; list it once: saved registers come back"
