"""A wrong address names the line that asked for it."""

from toolchain.asm import AL, RAX, RBX, RCX, Asm, In, Out, Reg64, Region, mem8, routine

MEMORY = Region("memory", "somewhere")


@routine(inputs=[In(RBX, int, "x"), In(RCX, int, "y")], outputs=[Out(RAX, "z")], source="none")
def broken(a: Asm, x: Reg64, y: Reg64) -> None:
    """Break one rule."""
    a.mov(AL, mem8(x, index=y, scale=5, ref=MEMORY))  # refused
    a.ret()


def refused() -> None:
    broken.lines()


MESSAGE = "{here}: broken: scale 5 does not exist; use 1, 2, 4 or 8"
