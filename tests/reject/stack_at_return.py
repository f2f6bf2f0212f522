"""What is pushed is popped before the return."""

from toolchain.asm import RBX, Asm, In, Reg64, routine


@routine(inputs=[In(RBX, int, "a value")], source="none")
def broken(a: Asm, value: Reg64) -> None:
    """Break one rule."""
    a.push(value)
    a.ret()  # refused


def refused() -> None:
    broken.lines()


MESSAGE = (
    "{here}: broken: returns with 8 bytes left on the stack; pop what was pushed on every path"
)
