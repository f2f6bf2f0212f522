"""The stack is equally deep on all paths to a place."""

from toolchain.asm import RBX, Asm, In, Reg64, Z, routine


@routine(inputs=[In(RBX, int, "a value")], source="none")
def broken(a: Asm, value: Reg64) -> None:
    """Break one rule."""
    a.test(value, value)
    with a.if_(Z):
        a.push(value)
    a.ret()  # refused


def refused() -> None:
    broken.lines()


MESSAGE = (
    "{here}: broken: "
    "stack depth is 0 or 8 bytes here, depending on the path; "
    "push and pop the same on every path"
)
