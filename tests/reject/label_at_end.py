"""A label names an instruction."""

from toolchain.asm import Asm, Z, routine


@routine(source="none")
def broken(a: Asm) -> None:
    """Break one rule."""
    end = a.label("end")
    a.j(Z, end)
    a.ret()  # refused
    a.place(end)


def refused() -> None:
    broken.lines()


MESSAGE = (
    "{here}: broken: "
    "label end is at the end with no instruction; "
    "end the routine with a.ret() or a jump"
)
