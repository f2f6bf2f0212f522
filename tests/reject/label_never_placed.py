"""A branch needs a place to go to; a label of another routine is none."""

from toolchain.asm import Asm, Z, routine


@routine(source="none")
def broken(a: Asm) -> None:
    """Break one rule."""
    nowhere = a.label("nowhere")
    a.j(Z, nowhere)  # refused
    a.ret()


def refused() -> None:
    broken.lines()


MESSAGE = "{here}: broken: jz to label nowhere, which is never placed; place it with a.place(label)"
