"""Data holds exactly its size."""

from toolchain.layout import Data

NAME = "greeting"


def refused() -> None:
    Data(NAME, 6, b"hello", doc="too short")


MESSAGE = "data greeting: 5 bytes of contents for size 6; give contents of exactly that size"
