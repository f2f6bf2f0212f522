"""A field lies at a multiple of its size."""

from toolchain.layout import Struct, u32


def declare() -> None:
    """Declare a struct that breaks one rule."""

    class Broken(Struct):
        """Never used."""

        SIZE = 8
        number = u32(2, "a number")


def refused() -> None:
    declare()


MESSAGE = (
    "Broken.number at 0x2 is not aligned to 4; "
    "move it, or declare it with be16/be32/bytes_ when it is a wire field"
)
