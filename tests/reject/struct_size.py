"""The fields fit in SIZE."""

from toolchain.layout import Struct, u64


def declare() -> None:
    """Declare a struct that breaks one rule."""

    class Broken(Struct):
        """Never used."""

        SIZE = 8
        first = u64(0, "a number")
        second = u64(8, "another")


def refused() -> None:
    declare()


MESSAGE = "Broken has SIZE 0x8 but its fields end at 0x10; set SIZE = 0x10 or more"
