"""Fields do not share bytes."""

from toolchain.layout import Struct, u16, u32


def declare() -> None:
    """Declare a struct that breaks one rule."""

    class Broken(Struct):
        """Never used."""

        SIZE = 8
        low = u32(0, "a number")
        high = u16(2, "another")


def refused() -> None:
    declare()


MESSAGE = "Broken.high at 0x2 overlaps low, which ends at 0x4; move it to 0x4 or later"
