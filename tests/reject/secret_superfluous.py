"""What is kept secret is used."""

from toolchain.asm import Asm, Region, routine

KEY = Region("the key", "of a test")


@routine(  # refused
    secret=[KEY], source="none"
)
def broken(a: Asm) -> None:
    """Break one rule."""
    a.ret()


def refused() -> None:
    broken.lines()


MESSAGE = (
    "{here}: broken: lists the key in `secret`, which is neither input, output, read nor written, "
    "nor secret to what it calls; remove it"
)
