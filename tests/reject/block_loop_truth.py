"""`while a.loop()` would never end at build time."""

from toolchain.asm import Asm, routine


@routine(source="none")
def broken(a: Asm) -> None:
    """Break one rule."""
    while a.loop():
        a.nop()
    a.ret()


def refused() -> None:
    broken.lines()


MESSAGE = "a block has no truth value at build time; write `with a.loop() as top:`"
