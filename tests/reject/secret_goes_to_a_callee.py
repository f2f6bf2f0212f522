"""A secret goes to routines that keep it."""

from toolchain.asm import RAX, Asm, In, Reg64, routine


@routine(inputs=[In(RAX, int, "a number")], source="none")
def callee(a: Asm, number: Reg64) -> None:
    """Take a number."""
    a.ret()


@routine(inputs=[In(RAX, int, "a key")], calls=[callee], secret=[RAX], source="none")
def broken(a: Asm, key: Reg64) -> None:
    """Break one rule."""
    a.call(callee)  # refused
    a.ret()


def refused() -> None:
    broken.lines()


MESSAGE = (
    "{here}: broken: hands callee a secret in rax; "
    "list it in `secret` of callee, or hand something else"
)
