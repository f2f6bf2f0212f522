"""A field does not hide what Struct itself needs."""

from toolchain.layout import Struct, u64


def declare() -> None:
    """Declare a struct that breaks one rule."""

    class Broken(Struct):
        """Never used."""

        SIZE = 8
        fields = u64(0, "a number")  # type: ignore[assignment]  # the point


def refused() -> None:
    declare()


MESSAGE = "Broken.fields has a name that Struct itself uses; rename the field"
