"""A label is one place."""

from toolchain.asm import Asm, routine


@routine(source="none")
def broken(a: Asm) -> None:
    """Break one rule."""
    again = a.label("again")
    a.place(again)
    a.nop()
    a.place(again)  # refused
    a.jmp(again)


def refused() -> None:
    broken.lines()


MESSAGE = "{here}: broken: label again is placed twice; place each label once"
