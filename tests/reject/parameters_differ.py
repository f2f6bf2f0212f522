"""The parameters are the inputs."""

from toolchain.asm import EBX, Asm, In, Reg64, routine


def declare() -> None:
    """Declare a routine that breaks one rule."""

    @routine(inputs=[In(EBX, int, "a value")], source="none")  # refused
    def broken(a: Asm, value: Reg64) -> None:
        """Never run."""


def refused() -> None:
    declare()


MESSAGE = (
    "{here}: broken: "
    "parameters ['Asm', 'Reg64'] differ from the contract's ['Asm', 'Reg32']; "
    "make the parameters after `a` match the contract's inputs"
)
