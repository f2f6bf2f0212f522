"""A register has a value before it is read."""

from toolchain.asm import RAX, RCX, Asm, Out, routine


@routine(outputs=[Out(RAX, "sum")], source="none")
def broken(a: Asm) -> None:
    """Break one rule."""
    a.mov(RAX, RCX)  # refused
    a.ret()


def refused() -> None:
    broken.lines()


MESSAGE = (
    "{here}: broken: mov reads rcx before anything sets it; set it first, or list it in `inputs`"
)
