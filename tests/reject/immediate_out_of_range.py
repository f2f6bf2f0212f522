"""An immediate fits the operand."""

from toolchain.asm import AL, RAX, Asm, Out, routine


@routine(outputs=[Out(RAX, "a byte")], source="none")
def broken(a: Asm) -> None:
    """Break one rule."""
    a.mov(AL, 0x100)  # refused
    a.ret()


def refused() -> None:
    broken.lines()


MESSAGE = (
    "{here}: broken: "
    "no 64-bit form of mov takes al, 0x100; "
    "check operand widths and immediate ranges; memory to memory needs a register"
)
